"""One cycle of a core, as compiled leaves: tasks, threads and what their instructions do."""

import numpy as np

from wse_sim.fabric.compiled import Int, Pointers, Real, Truth, bits_of, float_of, leaf, woven
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
def _operand(row: Int, i: Int) -> Int:
    return row + OPERANDS + i * OPERAND


@leaf
def _can_take(m: Pointers, t: Int, row: Int, now: Int) -> Int:
    """Why the next element of an instruction cannot run now: BUSY if it can. Negative if only time is missing."""
    # Assembled once: the queues that an operation reads stand behind its columns, so that no operand need be decoded
    # here, in what runs for every waiting thread in every cycle.
    late, i = False, row + TAKES
    while m.code[i] >= 0:
        j = np.int64(m.code[i])
        if is_empty(m, bytes_at(m, t), j):
            return ON_INPUT
        late |= m.ints[slot_of_head(m, t, j)] & TIME > now
        i += 1
    if m.code[row + TO] >= 0 and not has_room(m, t, np.int64(m.code[row + TO])):
        return ON_OUTPUT
    # A wavelet that is on its way will be there by the clock alone: negative, so the core stays awake; one that has not
    # been sent needs an event elsewhere.
    return -ON_INPUT if late else BUSY


@leaf
def _plain_source(m: Pointers, t: Int, h: Int, row: Int, i: Int, element: Int) -> Real:
    """One float32 of source `i`; takes it from the queue if it comes on a colour."""
    o = _operand(row, i)
    kind = m.code[o + OPERAND_AT]
    if kind == MEMORY:
        return m.floats[t * m.words_per_core + m.ints[h + BASES + i] + element * m.code[o + STRIDE]]
    if kind == RECEIVED:
        j = m.nlanes + m.code[o + BASE]
        wavelet = float_of(m.ints[slot_of_head(m, t, j) + 1])
        pop(m, t, j)
        return wavelet
    return m.constants[m.code[o + BASE]]


@leaf
def _stamp(m: Pointers, row: Int, element: Int, now: Int) -> Int:
    """When what a core sends can leave its router; the last element may turn the switch."""
    ready = now + 1 + m.ramp
    # The advance travels with the last wavelet: turning the switch at once would overtake those still in the queue.
    return ready | ADVANCE_FLAG if m.code[row + ADVANCES] and element == m.code[row + LENGTH] - 1 else ready


@leaf
def _send(m: Pointers, t: Int, lane: Int, value: Int, stamp: Int) -> None:
    push(m, t, lane, value, stamp)
    count_push(m, t, lane)


@leaf
def _plain_element(m: Pointers, t: Int, h: Int, row: Int, element: Int, now: Int) -> None:
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
            # `np.maximum` hands on a NaN from either side; a comparison would lose it.
            a = np.float32(np.maximum(a, b))
        else:
            # The cast keeps LLVM from contracting the two into one instruction that rounds once.
            a = np.float32(a * b) + _plain_source(m, t, h, row, THIRD, element)
    o = _operand(row, TARGET)
    if m.code[o + OPERAND_AT] == MEMORY:
        m.floats[t * m.words_per_core + m.ints[h + BASES] + element * m.code[o + STRIDE]] = a
        return
    _send(m, t, np.int64(m.code[row + TO]), np.int64(bits_of(a)), _stamp(m, row, element, now))


@leaf
def _place(m: Pointers, h: Int, row: Int, i: Int, element: Int) -> Int:
    """Where an element of a memory operand lies, in elements of its type from the core's first."""
    o = _operand(row, i)
    base, stride, extra = m.ints[h + BASES + i], m.code[o + STRIDE], m.code[o + EXTRA]
    if extra == 0:
        return base + element * stride
    # The element's number in mixed radix: innermost dimension first, then the outer ones from the inside out.
    # Dimensions that are not used have extent 1.
    inner = m.code[extra + INNER]
    at, left = base + element % inner * stride, element // inner
    for d in range(2, -1, -1):
        extent = m.code[extra + OUTER + 2 * d]
        at += left % extent * m.code[extra + OUTER + 2 * d + 1]
        left //= extent
    return at


@leaf
def _raw_source(m: Pointers, t: Int, h: Int, row: Int, i: Int, element: Int) -> Int:
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
    # Two 16-bit elements share a wavelet, so it leaves the queue with the second of them, or with an odd last one.
    if wide or element & 1 or element == m.code[row + LENGTH] - 1:
        pop(m, t, j)
    return value if wide else (value >> 16 if element & 1 else value) & 0xFFFF


@leaf
def _source(m: Pointers, t: Int, h: Int, row: Int, i: Int, element: Int) -> Real:
    """One element of source `i`, rounded to the type of the destination."""
    o = _operand(row, i)
    if m.code[o + OPERAND_AT] != MEMORY and m.code[o + OPERAND_AT] != RECEIVED:
        return m.constants[m.code[o + BASE]]
    dtype, to = m.code[o + TYPE], m.code[_operand(row, TARGET) + TYPE]
    raw = _raw_source(m, t, h, row, i, element)
    value = float_of(np.int32(raw)) if dtype == FLOAT32 else decode(raw, dtype)
    return value if dtype == to else rounded(value, to)


@leaf
def _computed(m: Pointers, t: Int, h: Int, row: Int, element: Int) -> Int:
    """The bits of one element of the result."""
    op, dtype = m.code[row + OP], m.code[_operand(row, TARGET) + TYPE]
    # A move carries bits, not values: a signalling NaN or an index must not pass through float32.
    if op == MOVE and m.code[_operand(row, FIRST) + OPERAND_AT] != 0:
        return _raw_source(m, t, h, row, FIRST, element)
    value = _source(m, t, h, row, FIRST, element)
    if op == FMAC:
        # Rounded after each of the two, as NumPy does it in two operations: so the data reading has the same bits.
        product = rounded(two_sources(MUL, value, _source(m, t, h, row, SECOND, element)), dtype)
        value = product + _source(m, t, h, row, THIRD, element)
    elif ADD <= op < FMAC:
        value = two_sources(op, value, _source(m, t, h, row, SECOND, element))
    elif op != MOVE:
        value = one_source(op, value)
    return np.int64(bits_of(value)) if dtype == FLOAT32 else encode(value, dtype)


@leaf
def _general_step(m: Pointers, t: Int, h: Int, row: Int, done: Int, now: Int) -> Int:
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
def _after(m: Pointers, row: Int) -> Int:
    """Where the main thread stands after an instruction; -1 at the end of a task."""
    return -1 if m.code[row + INSTRUCTION + OP] == STOP else row + INSTRUCTION


@leaf
def _complete(m: Pointers, t: Int, h: Int, is_main: bool, row: Int) -> None:
    """A vector operation is through: tell its task, and go on or free the microthread."""
    # Before the thread is freed, so that a task that was waiting can start in the cycle after.
    if m.code[row + THEN] == ACTIVATE:
        m.ints[t * m.stride + ACTIVE] |= 1 << m.code[row + TASK]
    elif m.code[row + THEN] == UNBLOCK:
        m.ints[t * m.stride + BLOCKED] &= ~(1 << m.code[row + TASK])
    m.ints[h + READY] = NEVER
    m.ints[h + PC] = _after(m, row) if is_main else -1


@woven
def _issue_elements(m: Pointers, t: Int, h: Int, is_main: bool, now: Int) -> Int:
    """Advance a started vector operation by the elements of one cycle. Returns what kept it, BUSY if nothing."""
    row, done = np.int64(m.ints[h + PC]), np.int64(m.ints[h + DONE])
    why = _can_take(m, t, row, now)
    if why != BUSY:
        return why
    # Rates are no whole numbers (2.92 elements a cycle): what is left over of a step is kept in millionths and never
    # lost, so long vectors run at the exact rate.
    credit = m.ints[h + CREDIT] + m.code[row + RATE]
    why = BUSY if credit >= FULL_RATE else ON_MEMORY
    length = m.code[row + LENGTH]
    # More than one step a cycle comes only from memory: rates of wavelets are at most one, so the test above needs no
    # repeat.
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
def _based(m: Pointers, t: Int, row: Int, i: Int) -> tuple[Int, Truth]:
    """Where a memory operand begins in this round of the loops. Returns (base, whether all elements exist)."""
    o = _operand(row, i)
    base, extra = m.code[o + BASE], m.code[o + EXTRA]
    if extra == 0:
        return base, True
    # Loops that have ended stand at round 0, so all depths can be added without asking how deep we are.
    for d in range(4):
        base += m.ints[t * m.stride + LOOPS + d] * m.code[extra + STEPS + d]
    if m.code[extra + INDEX] < 0:
        return base, True
    base += np.int64(m.halves[2 * t * m.words_per_core + m.code[extra + INDEX]]) * m.code[extra + INDEX_STEP]
    # Only an index is unknown when a program is checked; everything else was refused before the run.
    return base, base + m.code[extra + LOW] >= 0 and base + m.code[extra + HIGH] < m.code[extra + LIMIT]


@leaf
def _start(m: Pointers, t: Int, h: Int, row: Int, now: Int) -> Int:
    """Give an operation to a thread. Returns FAULTED if an index points outside the memory."""
    m.ints[h + PC], m.ints[h + READY] = row, now + m.code[row + SETUP]
    # Nothing to carry over: an operation that ends has no claim on the rest of its last cycle.
    m.ints[h + DONE], m.ints[h + CREDIT] = 0, 0
    for i in range(4):
        if m.code[_operand(row, i) + OPERAND_AT] == MEMORY:
            base, is_inside = _based(m, t, row, i)
            if not is_inside:
                # From 1, for 0 says that the core is well.
                m.ints[t * m.stride + FAULT] = 1 + row
                return FAULTED
            m.ints[h + BASES + i] = base
    return EVENT


@leaf
def _compares(a: Real, comparison: Int, b: Real) -> Truth:
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
def _control(m: Pointers, t: Int, row: Int, op: Int, now: Int) -> Int:
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
            # A branch leaves the task for the start of another one, which need not be active.
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
def _start_task(m: Pointers, c: Int, h: Int, now: Int) -> Truth:
    """Put the main thread at the first task that is active and not blocked. False if there is none."""
    # The task that was declared first wins: the order on the hardware is not published, and a fixed one keeps runs
    # repeatable.
    able = m.ints[c + ACTIVE] & ~m.ints[c + BLOCKED]
    if able == 0:
        return False
    task = 0
    while not able >> task & 1:
        task += 1
    m.ints[c + ACTIVE] &= ~(1 << task)
    m.ints[h + PC] = m.entries[m.ints[c + PROGRAM] * TASKS + task]
    # Not issued yet (NEVER), and not to be before this cycle; one word holds both.
    m.ints[h + READY] = NEVER + now + 1 + m.task_start
    return True


@leaf
def _issue(m: Pointers, t: Int, main: Int, now: Int) -> Int:
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
        # Only a jump back takes the cycles of a turn; the last end falls through to the next instruction.
        if op == END and m.ints[main + PC] == m.code[row + OPERANDS + 1]:
            m.ints[main + READY] = NEVER + now + m.code[row + SETUP]
        return EVENT
    if not m.code[row + ASYNC]:
        return _start(m, t, main, row, now)
    for u in range(1, m.threads):
        h = main + u * THREAD
        # The first microthread that is free; with none the main thread waits, idle and not on any event that is its
        # own.
        if m.ints[h + PC] < 0:
            m.ints[main + PC] = _after(m, row)
            return _start(m, t, h, row, now)
    return 0


@leaf
def _take_controls(m: Pointers, t: Int, now: Int) -> Int:
    """Activate the tasks of control wavelets that arrived. Returns EVENT if there was one, WAITING if one is near."""
    c, result = t * m.stride, 0
    for k in range(m.colours):
        j = m.nlanes + k
        while not is_empty(m, bytes_at(m, t), j):
            slot = slot_of_head(m, t, j)
            # A data wavelet in front: control wavelets behind it wait until an operation has taken it.
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
def _advance(m: Pointers, t: Int, h: Int, u: Int, now: Int) -> tuple[Int, Int]:
    """What a thread of a core does in this cycle, or what keeps it, and the result bits."""
    # Three states in one word: issued and being set up (READY in the future), issued and running, or not issued
    # (NEVER).
    ready, is_at_work = np.int64(m.ints[h + READY]), m.ints[h + PC] >= 0
    if is_at_work and ready < NEVER:
        if ready > now:
            return BUSY, WAITING
        kept = _issue_elements(m, t, h, u == 0, now)
        if kept in (BUSY, ON_MEMORY):
            return kept, EVENT
        return (-kept, WAITING) if kept < 0 else (kept, 0)
    # Only the main thread fetches instructions; a microthread runs the one that it was given.
    if u > 0:
        return IDLE, 0
    if is_at_work and ready > NEVER + now:
        return BUSY, WAITING
    issued = _issue(m, t, h, now)
    if issued > 0:
        return BUSY, issued
    return -issued if issued < 0 else IDLE, 0


@woven
def decide(m: Pointers, t: Int, now: Int, first: Int) -> Int:
    """One cycle of a core: the first of its threads, from `first` on, that can do something. Returns result bits.

    If none can, the lowest thread that is kept says why: a core that sleeps must not depend on `first`.
    """
    c = t * m.stride
    if m.ints[c + PROGRAM] < 0:
        return 0
    why, result, told = IDLE, 0, m.threads
    # Counted by the router, so that most cores in most cycles need not look at all their queues.
    if m.ints[c + CONTROLS]:
        result = _take_controls(m, t, now)
    for i in range(m.threads):
        u = i + first
        # Round robin by the clock: `first` moves on each cycle, so no thread starves, and no state has to be kept for
        # it.
        u = u - m.threads if u >= m.threads else u
        did, bits = _advance(m, t, c + THREADS_AT + u * THREAD, u, now)
        result |= bits
        # One issue slot: what one thread did keeps all others for this cycle.
        if bits & (EVENT | FAULTED):
            why = did
            break
        # A core in its setup counts as busy, whatever its other threads wait for.
        if did != IDLE and why != BUSY and (u < told or did == BUSY):
            why, told = did, u
    m.ints[c + COUNTED + why] += 1
    m.ints[c + STATE] = why
    if result & EVENT:
        m.ints[c + FINISHED] = now + 1
    return result
