"""One cycle of a core, as compiled leaves: tasks, threads and what their instructions do."""

import numpy as np

from wse_sim.fabric.compiled import bits_of, float_of, leaf, woven
from wse_sim.fabric.elements import decode, encode, one_source, rounded, two_sources
from wse_sim.fabric.router import (
    bytes_at,
    count_push,
    has_room,
    is_empty,
    pop,
    push,
    slot_of_head,
    turn_switch_to,
)
from wse_sim.isa.record import (
    ACTIVATE,
    ACTIVE,
    ADD,
    ADVANCE_FLAG,
    ADVANCES,
    ASYNC,
    BASE,
    BASES,
    BLOCK,
    BLOCKED,
    BRANCH,
    BUSY,
    CONTROL_FLAG,
    CONTROLS,
    COUNTED,
    CREDIT,
    DONE,
    END,
    EVENT,
    EXTRA,
    FAULT,
    FAULTED,
    FINISHED,
    FIRST_CONTROL,
    FLOAT32,
    FMAC,
    FULL_RATE,
    HIGH,
    IDLE,
    INDEX,
    INDEX_STEP,
    INNER,
    INSTRUCTION,
    KIND,
    LENGTH,
    LIMIT,
    LOOP,
    LOOPS,
    LOW,
    MAX,
    MEMORY,
    MOVE,
    MUL,
    NEVER,
    ON_INPUT,
    ON_MEMORY,
    ON_OUTPUT,
    OP,
    OPERAND,
    OPERAND_AT,
    OPERANDS,
    OUTER,
    PC,
    PLAIN,
    PROGRAM,
    RATE,
    READY,
    RECEIVED,
    SEND_CONTROL,
    SENT,
    SETUP,
    STATE,
    STEP,
    STEPS,
    STOP,
    STRIDE,
    SUB,
    TAKES,
    TASK,
    TASK_SHIFT,
    TASKS,
    THEN,
    THREAD,
    THREADS_AT,
    TIME,
    TO,
    TYPE,
    UNBLOCK,
    WAITING,
)

TARGET, FIRST, SECOND, THIRD = (np.int64(i) for i in range(4))
"""Operands of an instruction. As plain constants each would make a version of what takes it."""


@leaf
def _operand(row, i):
    return row + OPERANDS + i * OPERAND


@leaf
def _can_take(m, t, row, now):
    """Why the next element of an instruction cannot run now: BUSY if it can. Negative if only time is missing."""
    late, i = False, row + TAKES
    while m.code[i] >= 0:
        j = np.int64(m.code[i])
        if is_empty(m, bytes_at(m, t), j):
            return ON_INPUT
        late |= m.ints[slot_of_head(m, t, j)] & TIME > now
        i += 1
    if m.code[row + TO] >= 0 and not has_room(m, t, np.int64(m.code[row + TO])):
        return ON_OUTPUT
    return -ON_INPUT if late else BUSY


@leaf
def _plain_source(m, t, h, row, i, element):
    """One float32 of source `i`; takes it from the queue if it comes on a colour."""
    o = _operand(row, i)
    kind = m.code[o + OPERAND_AT]
    if kind == MEMORY:
        return m.floats[t * m.words_per_core + m.ints[h + BASES + i] + element * m.code[o + STRIDE]]
    if kind == RECEIVED:
        j = m.nlanes + m.code[o + BASE]
        got = float_of(m.ints[slot_of_head(m, t, j) + 1])
        pop(m, t, j)
        return got
    return m.constants[m.code[o + BASE]]


@leaf
def _stamp(m, row, element, now):
    """When what a core sends can leave its router; the last element may turn the switch."""
    ready = now + 1 + m.ramp
    return ready | ADVANCE_FLAG if m.code[row + ADVANCES] and element == m.code[row + LENGTH] - 1 else ready


@leaf
def _send(m, t, lane, value, stamp):
    push(m, t, lane, value, stamp)
    count_push(m, t, lane)


@leaf
def _plain_element(m, t, h, row, element, now):
    """One element of an operation on float32 whose operands have one dimension."""
    a = _plain_source(m, t, h, row, FIRST, element)
    op = m.code[row + OP]
    if op != MOVE:
        b = _plain_source(m, t, h, row, SECOND, element)
        if op == ADD:
            a = a + b
        elif op == SUB:
            a = a - b
        elif op == MUL:
            a = a * b
        elif op == MAX:
            a = np.float32(np.maximum(a, b))
        else:
            a = np.float32(a * b) + _plain_source(m, t, h, row, THIRD, element)
    o = _operand(row, TARGET)
    if m.code[o + OPERAND_AT] == MEMORY:
        m.floats[t * m.words_per_core + m.ints[h + BASES] + element * m.code[o + STRIDE]] = a
        return
    _send(m, t, np.int64(m.code[row + TO]), np.int64(bits_of(a)), _stamp(m, row, element, now))


@leaf
def _place(m, h, row, i, element):
    """Where an element of a memory operand lies, in elements of its type from the core's first."""
    o = _operand(row, i)
    base, stride, extra = m.ints[h + BASES + i], m.code[o + STRIDE], m.code[o + EXTRA]
    if extra == 0:
        return base + element * stride
    inner = m.code[extra + INNER]
    at, left = base + element % inner * stride, element // inner
    for d in range(2, -1, -1):
        extent = m.code[extra + OUTER + 2 * d]
        at += left % extent * m.code[extra + OUTER + 2 * d + 1]
        left //= extent
    return at


@leaf
def _raw_source(m, t, h, row, i, element):
    """The bits of one element of a source that is no constant."""
    o = _operand(row, i)
    wide = m.code[o + TYPE] == FLOAT32
    if m.code[o + OPERAND_AT] == MEMORY:
        at = _place(m, h, row, i, element)
        if wide:
            return np.int64(m.words[t * m.words_per_core + at])
        return np.int64(m.halves[2 * t * m.words_per_core + at])
    j = m.nlanes + m.code[o + BASE]
    value = np.int64(m.ints[slot_of_head(m, t, j) + 1])
    if wide or element & 1 or element == m.code[row + LENGTH] - 1:
        pop(m, t, j)
    return value if wide else (value >> 16 if element & 1 else value) & 0xFFFF


@leaf
def _source(m, t, h, row, i, element):
    """One element of source `i`, rounded to the type of the destination."""
    o = _operand(row, i)
    if m.code[o + OPERAND_AT] != MEMORY and m.code[o + OPERAND_AT] != RECEIVED:
        return m.constants[m.code[o + BASE]]
    dtype, to = m.code[o + TYPE], m.code[_operand(row, TARGET) + TYPE]
    raw = _raw_source(m, t, h, row, i, element)
    value = float_of(np.int32(raw)) if dtype == FLOAT32 else decode(raw, dtype)
    return value if dtype == to else rounded(value, to)


@leaf
def _computed(m, t, h, row, element):
    """The bits of one element of the result."""
    op, dtype = m.code[row + OP], m.code[_operand(row, TARGET) + TYPE]
    if op == MOVE and m.code[_operand(row, FIRST) + OPERAND_AT] != 0:
        return _raw_source(m, t, h, row, FIRST, element)
    value = _source(m, t, h, row, FIRST, element)
    if op == FMAC:
        product = rounded(two_sources(MUL, value, _source(m, t, h, row, SECOND, element)), dtype)
        value = product + _source(m, t, h, row, THIRD, element)
    elif ADD <= op < FMAC:
        value = two_sources(op, value, _source(m, t, h, row, SECOND, element))
    elif op != MOVE:
        value = one_source(op, value)
    return np.int64(bits_of(value)) if dtype == FLOAT32 else encode(value, dtype)


@leaf
def _general_step(m, t, h, row, done, now):
    """The elements of one step: one, or the two that one wavelet of a 16-bit type carries."""
    o = _operand(row, TARGET)
    wide = m.code[o + TYPE] == FLOAT32
    last = min(done + m.code[row + STEP], m.code[row + LENGTH]) - 1
    sent = np.int64(0)
    for element in range(done, last + 1):
        bits = _computed(m, t, h, row, element)
        if m.code[o + OPERAND_AT] == SENT:
            sent = bits if wide else sent | bits << 16 * (element & 1)
        elif wide:
            m.words[t * m.words_per_core + _place(m, h, row, TARGET, element)] = bits
        else:
            m.halves[2 * t * m.words_per_core + _place(m, h, row, TARGET, element)] = bits
    if m.code[o + OPERAND_AT] == SENT:
        _send(m, t, np.int64(m.code[row + TO]), sent, _stamp(m, row, last, now))
    return last + 1


@leaf
def _after(m, row):
    """Where the main thread stands after an instruction; -1 at the end of a task."""
    return -1 if m.code[row + INSTRUCTION + OP] == STOP else row + INSTRUCTION


@leaf
def _complete(m, t, h, is_main, row):
    """A vector operation is through: tell its task, and go on or free the microthread."""
    if m.code[row + THEN] == ACTIVATE:
        m.ints[t * m.stride + ACTIVE] |= 1 << m.code[row + TASK]
    elif m.code[row + THEN] == UNBLOCK:
        m.ints[t * m.stride + BLOCKED] &= ~(1 << m.code[row + TASK])
    m.ints[h + READY] = NEVER
    m.ints[h + PC] = _after(m, row) if is_main else -1


@woven
def _beat(m, t, h, is_main, now):
    """Advance a started vector operation by the elements of one cycle. Returns what kept it, BUSY if nothing."""
    row, done = np.int64(m.ints[h + PC]), np.int64(m.ints[h + DONE])
    why = _can_take(m, t, row, now)
    if why != BUSY:
        return why
    credit = m.ints[h + CREDIT] + m.code[row + RATE]
    why = BUSY if credit >= FULL_RATE else ON_MEMORY
    length = m.code[row + LENGTH]
    while credit >= FULL_RATE and done < length:
        if m.code[row + KIND] == PLAIN:
            _plain_element(m, t, h, row, done, now)
            done += 1
        else:
            done = _general_step(m, t, h, row, done, now)
        credit -= FULL_RATE
    m.ints[h + DONE], m.ints[h + CREDIT] = done, credit
    if done == length:
        _complete(m, t, h, is_main, row)
    return why


@leaf
def _based(m, t, row, i):
    """Where a memory operand begins in this round of the loops. Returns (base, whether all elements exist)."""
    o = _operand(row, i)
    base, extra = m.code[o + BASE], m.code[o + EXTRA]
    if extra == 0:
        return base, True
    for d in range(4):
        base += m.ints[t * m.stride + LOOPS + d] * m.code[extra + STEPS + d]
    if m.code[extra + INDEX] < 0:
        return base, True
    base += np.int64(m.halves[2 * t * m.words_per_core + m.code[extra + INDEX]]) * m.code[extra + INDEX_STEP]
    return base, base + m.code[extra + LOW] >= 0 and base + m.code[extra + HIGH] < m.code[extra + LIMIT]


@leaf
def _start(m, t, h, row, now):
    """Give an operation to a thread. Returns FAULTED if an index points outside the memory."""
    m.ints[h + PC], m.ints[h + READY] = row, now + m.code[row + SETUP]
    m.ints[h + DONE], m.ints[h + CREDIT] = 0, 0
    for i in range(4):
        if m.code[_operand(row, i) + OPERAND_AT] == MEMORY:
            base, is_inside = _based(m, t, row, i)
            if not is_inside:
                m.ints[t * m.stride + FAULT] = 1 + row
                return FAULTED
            m.ints[h + BASES + i] = base
    return EVENT


@leaf
def _compares(a, comparison, b):
    if comparison == 0:
        return a < b
    if comparison == 1:
        return a <= b
    if comparison == 2:
        return a == b
    if comparison == 3:
        return a != b
    return a >= b if comparison == 4 else a > b


@leaf
def _control(m, t, row, op, now):
    """Run one control instruction of the main thread. Returns where it stands then."""
    a, b = np.int64(m.code[row + OPERANDS]), np.int64(m.code[row + OPERANDS + 1])
    c = t * m.stride
    if op == LOOP:
        m.ints[c + LOOPS + a] = 0
    elif op == END:
        m.ints[c + LOOPS + a] += 1
        if m.ints[c + LOOPS + a] < m.code[row + LENGTH]:
            return b
        m.ints[c + LOOPS + a] = 0
    elif op == BRANCH:
        if _compares(m.floats[t * m.words_per_core + a], m.code[row + ASYNC], m.constants[b]):
            return m.entries[m.ints[c + PROGRAM] * TASKS + m.code[row + TASK]]
    elif op == ACTIVATE:
        m.ints[c + ACTIVE] |= 1 << m.code[row + TASK]
    elif op == BLOCK:
        m.ints[c + BLOCKED] |= 1 << m.code[row + TASK]
    elif op == UNBLOCK:
        m.ints[c + BLOCKED] &= ~(1 << m.code[row + TASK])
    elif op == SEND_CONTROL:
        _send(m, t, a, b, (now + 1 + m.ramp) | CONTROL_FLAG)
    else:
        turn_switch_to(m, t, a, b)
    return _after(m, row)


@leaf
def _start_task(m, c, h, now):
    """Put the main thread at the first task that is active and not blocked. False if there is none."""
    able = m.ints[c + ACTIVE] & ~m.ints[c + BLOCKED]
    if able == 0:
        return False
    task = 0
    while not able >> task & 1:
        task += 1
    m.ints[c + ACTIVE] &= ~(1 << task)
    m.ints[h + PC] = m.entries[m.ints[c + PROGRAM] * TASKS + task]
    m.ints[h + READY] = NEVER + now + 1 + m.task_start
    return True


@leaf
def _issue(m, t, main, now):
    """Start what the main thread stands at, or a task if it stands at none. Returns EVENT, FAULTED or why not."""
    row = np.int64(m.ints[main + PC])
    if row < 0:
        return EVENT if _start_task(m, t * m.stride, main, now) else 0
    op = np.int64(m.code[row + OP])
    if op == STOP:
        m.ints[main + PC] = -1
        return EVENT
    if op > FIRST_CONTROL:
        if op == SEND_CONTROL and not has_room(m, t, np.int64(m.code[row + OPERANDS])):
            return -ON_OUTPUT
        m.ints[main + PC] = _control(m, t, row, op, now)
        if op == END and m.ints[main + PC] == m.code[row + OPERANDS + 1]:
            m.ints[main + READY] = NEVER + now + m.code[row + SETUP]
        return EVENT
    if not m.code[row + ASYNC]:
        return _start(m, t, main, row, now)
    for u in range(1, m.threads):
        h = main + u * THREAD
        if m.ints[h + PC] < 0:
            m.ints[main + PC] = _after(m, row)
            return _start(m, t, h, row, now)
    return 0


@leaf
def _take_controls(m, t, now):
    """Activate the tasks of control wavelets that arrived. Returns EVENT if there was one, WAITING if one is near."""
    c, result = t * m.stride, 0
    for k in range(m.colours):
        j = m.nlanes + k
        while not is_empty(m, bytes_at(m, t), j):
            slot = slot_of_head(m, t, j)
            if not m.ints[slot] & CONTROL_FLAG:
                break
            if m.ints[slot] & TIME > now:
                result |= WAITING
                break
            task = m.named[m.ints[c + PROGRAM] * m.names + (m.ints[slot + 1] >> TASK_SHIFT) - 1]
            m.ints[c + ACTIVE] |= 1 << task
            m.ints[c + CONTROLS] -= 1
            pop(m, t, j)
            result |= EVENT
    return result


@leaf
def _advance(m, t, h, u, now):
    """What a thread of a core does in this cycle, or what keeps it, and the result bits."""
    ready, is_at_work = np.int64(m.ints[h + READY]), m.ints[h + PC] >= 0
    if is_at_work and ready < NEVER:
        if ready > now:
            return BUSY, WAITING
        kept = _beat(m, t, h, u == 0, now)
        if kept in (BUSY, ON_MEMORY):
            return kept, EVENT
        return (-kept, WAITING) if kept < 0 else (kept, 0)
    if u > 0:
        return IDLE, 0
    if is_at_work and ready > NEVER + now:
        return BUSY, WAITING
    issued = _issue(m, t, h, now)
    if issued > 0:
        return BUSY, issued
    return -issued if issued < 0 else IDLE, 0


@woven
def decide(m, t, now, first):
    """One cycle of a core: the first of its threads, from `first` on, that can do something. Returns result bits.

    If none can, the lowest thread that is kept says why: a core that sleeps must not depend on `first`.
    """
    c = t * m.stride
    if m.ints[c + PROGRAM] < 0:
        return 0
    why, result, told = IDLE, 0, m.threads
    if m.ints[c + CONTROLS]:
        result = _take_controls(m, t, now)
    for i in range(m.threads):
        u = i + first
        u = u - m.threads if u >= m.threads else u
        did, found = _advance(m, t, c + THREADS_AT + u * THREAD, u, now)
        result |= found
        if found & (EVENT | FAULTED):
            why = did
            break
        if did != IDLE and why != BUSY and (u < told or did == BUSY):
            why, told = did, u
    m.ints[c + COUNTED + why] += 1
    m.ints[c + STATE] = why
    if result & EVENT:
        m.ints[c + FINISHED] = now + 1
    return result
