"""One cycle of a core, as compiled functions: tasks, threads and their instructions.

Common arguments: `m` pointers, `t` the core, `h` the offset of a thread's record, `row` the offset of an instruction,
`now` the cycle.
"""

import numpy as np

from wse_sim.fabric.compiled import Int, Pointers, Real, Truth, compile_expanded, compile_inlined
from wse_sim.fabric.router import (
    has_free_slot,
    head_slot,
    is_queue_empty,
    pop_wavelet,
    queue_heads_offset,
    set_switch_position,
)
from wse_sim.fabric.vector_steps import operand_offset, run_general_step, run_plain_element, send_wavelet
from wse_sim.isa.record import (
    ACTIVATE,
    ACTIVE,
    ASYNC,
    BASE,
    BASES,
    BLOCK,
    BLOCKED,
    BRANCH,
    BUSY,
    CONTROL_FLAG,
    CONTROLS,
    COUNTERS_AT,
    CREDIT,
    DONE,
    END,
    EVENT,
    EXTRA,
    FAULT,
    FAULTED,
    FINISHED,
    FIRST_CONTROL,
    FULL_RATE,
    HIGH,
    IDLE,
    INDEX,
    INDEX_STEP,
    INPUT_QUEUES,
    INSTRUCTION,
    KIND,
    LENGTH,
    LIMIT,
    LOOP,
    LOOPS_AT,
    LOW,
    MEMORY,
    NEVER_CYCLE,
    ON_INPUT,
    ON_MEMORY,
    ON_OUTPUT,
    OP,
    OPERAND_AT,
    OPERANDS,
    PC,
    PLAIN,
    PROGRAM,
    RATE,
    READY,
    SEND_CONTROL,
    SETUP,
    STATE,
    STEPS,
    STOP,
    TASK,
    TASK_ENTRIES,
    TASK_SHIFT,
    THEN,
    THREAD,
    THREADS_AT,
    TIME,
    TO_LANE,
    UNBLOCK,
    WAITING,
)


@compile_inlined
def _stall_reason(m: Pointers, t: Int, row: Int, now: Int) -> Int:
    """Return why the next step of the instruction at `row` cannot run on core `t` in cycle `now`, or BUSY if it can.

    The reasons are ON_INPUT and ON_OUTPUT. -ON_INPUT means that its wavelet is on the wire, so only time is missing.
    """
    # The assembler lists the queues that an operation reads after its columns, so that no operand is decoded here. This
    # runs for every waiting thread in every cycle.
    late, i = False, row + INPUT_QUEUES
    while m.code[i] >= 0:
        j = np.int64(m.code[i])
        if is_queue_empty(m, queue_heads_offset(m, t), j):
            return ON_INPUT
        late |= m.ints[head_slot(m, t, j)] & TIME > now
        i += 1
    if m.code[row + TO_LANE] >= 0 and not has_free_slot(m, t, np.int64(m.code[row + TO_LANE])):
        return ON_OUTPUT
    # A wavelet on the wire arrives by the clock: negative, so the core stays awake. One that has not been sent needs an
    # event at another core.
    return -ON_INPUT if late else BUSY


@compile_inlined
def _next_row(m: Pointers, row: Int) -> Int:
    """Return the offset of the instruction after `row`, or -1 at the end of a task."""
    return -1 if m.code[row + INSTRUCTION + OP] == STOP else row + INSTRUCTION


@compile_inlined
def _complete_operation(m: Pointers, t: Int, h: Int, is_main: bool, row: Int) -> None:
    """Finish the vector operation at `row` of the thread at `h`.

    The task that its `then` names, if any, is activated or unblocked. The main thread continues with the next
    instruction; a microthread becomes free.
    """
    if m.code[row + THEN] == ACTIVATE:
        m.ints[t * m.stride + ACTIVE] |= 1 << m.code[row + TASK]
    elif m.code[row + THEN] == UNBLOCK:
        m.ints[t * m.stride + BLOCKED] &= ~(1 << m.code[row + TASK])
    m.ints[h + READY] = NEVER_CYCLE
    m.ints[h + PC] = _next_row(m, row) if is_main else -1


@compile_expanded
def _issue_elements(m: Pointers, t: Int, h: Int, is_main: bool, now: Int) -> Int:
    """Advance the started vector operation of the thread at `h` by one cycle.

    Returns BUSY, ON_MEMORY if no whole step was possible at its rate, or the reason of `_stall_reason`.
    """
    row, done = np.int64(m.ints[h + PC]), np.int64(m.ints[h + DONE])
    why = _stall_reason(m, t, row, now)
    if why != BUSY:
        return why
    # Rates are not integers (2.92 elements a cycle). The rest of a step is kept in millionths, so long vectors run at
    # the exact rate.
    credit = m.ints[h + CREDIT] + m.code[row + RATE]
    why = BUSY if credit >= FULL_RATE else ON_MEMORY
    length = m.code[row + LENGTH]
    # Only operations on memory do more than one step a cycle, since rates of wavelets are at most one. So the test
    # above is not repeated.
    while credit >= FULL_RATE and done < length:
        if m.code[row + KIND] == PLAIN:
            run_plain_element(m, t, h, row, done, now)
            done += 1
        else:
            done = run_general_step(m, t, h, row, done, now)
        credit -= FULL_RATE
    m.ints[h + DONE], m.ints[h + CREDIT] = done, credit
    if done == length:
        _complete_operation(m, t, h, is_main, row)
    return why


@compile_inlined
def _operand_base(m: Pointers, t: Int, row: Int, i: Int) -> tuple[Int, Truth]:
    """Return (base of memory operand `i` in this round of the loops, whether all its elements are inside the memory).

    The number at its index is read and added. Only operands with an index are tested; for others the second is True.
    """
    o = operand_offset(row, i)
    base, extra = m.code[o + BASE], m.code[o + EXTRA]
    if extra == 0:
        return base, True
    # Loops that have ended are at round 0, so all depths can be added.
    for d in range(4):
        base += m.ints[t * m.stride + LOOPS_AT + d] * m.code[extra + STEPS + d]
    if m.code[extra + INDEX] < 0:
        return base, True
    base += np.int64(m.halves[2 * t * m.words_per_core + m.code[extra + INDEX]]) * m.code[extra + INDEX_STEP]
    # Only indices are unknown to the checks before the run.
    return base, base + m.code[extra + LOW] >= 0 and base + m.code[extra + HIGH] < m.code[extra + LIMIT]


@compile_inlined
def _start_operation(m: Pointers, t: Int, h: Int, row: Int, now: Int) -> Int:
    """Start the vector operation at `row` on the thread at `h`: its elements follow after the setup.

    The bases of memory operands are computed now. Return EVENT, or FAULTED if an index is outside the memory; the fault
    is stored for the report.
    """
    m.ints[h + PC], m.ints[h + READY] = row, now + m.code[row + SETUP]
    # An operation does not use the rest of the previous operation's last cycle.
    m.ints[h + DONE], m.ints[h + CREDIT] = 0, 0
    for i in range(4):
        if m.code[operand_offset(row, i) + OPERAND_AT] == MEMORY:
            base, is_inside = _operand_base(m, t, row, i)
            if not is_inside:
                # Plus 1, since 0 means no fault.
                m.ints[t * m.stride + FAULT] = 1 + row
                return FAULTED
            m.ints[h + BASES + i] = base
    return EVENT


@compile_inlined
def _compare_values(a: Real, comparison: Int, b: Real) -> Truth:
    """Return whether `a` compares with `b`; `comparison` is an index into `COMPARISONS`."""
    if comparison == 0:
        return a < b
    if comparison == 1:
        return a <= b
    if comparison == 2:
        return a == b
    if comparison == 3:
        return a != b
    return a >= b if comparison == 4 else a > b


@compile_inlined
def _run_control_instruction(m: Pointers, t: Int, row: Int, op: Int, now: Int) -> Int:
    """Run the control instruction `op` at `row` on the main thread of core `t`.

    Returns the row at which the thread continues, -1 at the end of the task.
    """
    a, b = np.int64(m.code[row + OPERANDS]), np.int64(m.code[row + OPERANDS + 1])
    c = t * m.stride
    if op == LOOP:
        m.ints[c + LOOPS_AT + a] = 0
    elif op == END:
        m.ints[c + LOOPS_AT + a] += 1
        if m.ints[c + LOOPS_AT + a] < m.code[row + LENGTH]:
            return b
        m.ints[c + LOOPS_AT + a] = 0
    elif op == BRANCH:
        if _compare_values(m.floats[t * m.words_per_core + a], m.code[row + ASYNC], m.constants[b]):
            # A branch continues at the start of another task, which need not be active.
            return m.entries[m.ints[c + PROGRAM] * TASK_ENTRIES + m.code[row + TASK]]
    elif op == ACTIVATE:
        m.ints[c + ACTIVE] |= 1 << m.code[row + TASK]
    elif op == BLOCK:
        m.ints[c + BLOCKED] |= 1 << m.code[row + TASK]
    elif op == UNBLOCK:
        m.ints[c + BLOCKED] &= ~(1 << m.code[row + TASK])
    elif op == SEND_CONTROL:
        send_wavelet(m, t, a, b, (now + 1 + m.ramp_up) | CONTROL_FLAG)
    else:
        set_switch_position(m, t, a, b)
    return _next_row(m, row)


@compile_inlined
def _start_task(m: Pointers, c: Int, h: Int, now: Int) -> Truth:
    """Set the main thread (record at `h`) of the core at `c` to the first task that is active and not blocked.

    Returns False if no task can start.
    """
    # The first declared task has priority: the order of the hardware is not published, and a fixed one keeps runs
    # repeatable.
    able = m.ints[c + ACTIVE] & ~m.ints[c + BLOCKED]
    if able == 0:
        return False
    task = 0
    while not able >> task & 1:
        task += 1
    m.ints[c + ACTIVE] &= ~(1 << task)
    m.ints[h + PC] = m.entries[m.ints[c + PROGRAM] * TASK_ENTRIES + task]
    # Not issued (NEVER_CYCLE), and not to be issued before this cycle; one word encodes both.
    m.ints[h + READY] = NEVER_CYCLE + now + 1 + m.task_start
    return True


@compile_inlined
def _issue_instruction(m: Pointers, t: Int, main: Int, now: Int) -> Int:
    """Run or start the instruction of core `t`'s main thread (record at `main`), or start a task if it has none.

    An asynchronous operation goes to a free microthread. Returns EVENT if something happened, FAULTED, -ON_OUTPUT if it
    waits for a queue, or 0 if there is nothing to do or no microthread is free.
    """
    row = np.int64(m.ints[main + PC])
    if row < 0:
        return EVENT if _start_task(m, t * m.stride, main, now) else 0
    op = np.int64(m.code[row + OP])
    if op == STOP:
        m.ints[main + PC] = -1
        return EVENT
    if op > FIRST_CONTROL:
        if op == SEND_CONTROL and not has_free_slot(m, t, np.int64(m.code[row + OPERANDS])):
            return -ON_OUTPUT
        m.ints[main + PC] = _run_control_instruction(m, t, row, op, now)
        # Only a jump back takes `loop_cycles`; the last end continues with the next instruction. A loop start may load
        # descriptors.
        if op == LOOP or (op == END and m.ints[main + PC] == m.code[row + OPERANDS + 1]):
            m.ints[main + READY] = NEVER_CYCLE + now + m.code[row + SETUP]
        return EVENT
    if not m.code[row + ASYNC]:
        return _start_operation(m, t, main, row, now)
    for u in range(1, m.threads):
        h = main + u * THREAD
        # If no microthread is free, the main thread waits until one of them completes.
        if m.ints[h + PC] < 0:
            m.ints[main + PC] = _next_row(m, row)
            return _start_operation(m, t, h, row, now)
    return 0


@compile_inlined
def _receive_control_wavelets(m: Pointers, t: Int, now: Int) -> Int:
    """Activate the tasks of control wavelets that have arrived at core `t`, and remove these from their queues.

    A control wavelet behind a data wavelet is not reached. Returns result bits: EVENT if there was one, and WAITING if
    one is on the wire.
    """
    c, result = t * m.stride, 0
    for k in range(m.colours):
        j = m.nlanes + k
        while not is_queue_empty(m, queue_heads_offset(m, t), j):
            slot = head_slot(m, t, j)
            # Control wavelets behind a data wavelet wait until an operation has taken it.
            if not m.ints[slot] & CONTROL_FLAG:
                break
            if m.ints[slot] & TIME > now:
                result |= WAITING
                break
            task = m.named[m.ints[c + PROGRAM] * m.names + (m.ints[slot + 1] >> TASK_SHIFT) - 1]
            m.ints[c + ACTIVE] |= 1 << task
            m.ints[c + CONTROLS] -= 1
            pop_wavelet(m, t, j)
            result |= EVENT
    return result


@compile_inlined
def _advance_thread(m: Pointers, t: Int, h: Int, u: Int, now: Int) -> tuple[Int, Int]:
    """Advance thread number `u` (record at `h`) of core `t` by one cycle: its operation or, in the main thread,
    instruction.

    Returns (state, result bits). The state is BUSY, ON_MEMORY, ON_INPUT, ON_OUTPUT or IDLE. The bits are EVENT if
    something was done, WAITING if only time is missing, FAULTED, or 0.
    """
    # READY encodes three states: issued and in its setup (in the future), issued and running, or not issued
    # (NEVER_CYCLE).
    ready, is_at_work = np.int64(m.ints[h + READY]), m.ints[h + PC] >= 0
    if is_at_work and ready < NEVER_CYCLE:
        if ready > now:
            return BUSY, WAITING
        kept = _issue_elements(m, t, h, u == 0, now)
        if kept in (BUSY, ON_MEMORY):
            return kept, EVENT
        return (-kept, WAITING) if kept < 0 else (kept, 0)
    # Only the main thread fetches instructions; a microthread runs a single one.
    if u > 0:
        return IDLE, 0
    if is_at_work and ready > NEVER_CYCLE + now:
        return BUSY, WAITING
    issued = _issue_instruction(m, t, h, now)
    if issued > 0:
        return BUSY, issued
    return -issued if issued < 0 else IDLE, 0


@compile_expanded
def decide_core(m: Pointers, t: Int, now: Int, first: Int) -> Int:
    """Run one cycle of core `t`: the first thread, from number `first` on, that can do something. Return result bits.

    Control wavelets that have arrived are received before. The state of the core is counted. If no thread can do
    anything, it is the reason of the lowest thread that waits, independently of `first`, or BUSY if a thread is in a
    setup. A core without a program returns 0.
    """
    c = t * m.stride
    if m.ints[c + PROGRAM] < 0:
        return 0
    why, result, lowest = IDLE, 0, m.threads
    # Counted by the router, so that most cores in most cycles need not examine all their queues.
    if m.ints[c + CONTROLS]:
        result = _receive_control_wavelets(m, t, now)
    for i in range(m.threads):
        u = i + first
        # Round robin by the clock: `first` advances each cycle, so no thread starves, and no state is needed.
        u = u - m.threads if u >= m.threads else u
        did, bits = _advance_thread(m, t, c + THREADS_AT + u * THREAD, u, now)
        result |= bits
        # A core has one issue slot: after one thread has used it, the others wait for the next cycle.
        if bits & (EVENT | FAULTED):
            why = did
            break
        # A core in a setup counts as busy, whatever its other threads wait for.
        if did != IDLE and why != BUSY and (u < lowest or did == BUSY):
            why, lowest = did, u
    m.ints[c + COUNTERS_AT + why] += 1
    m.ints[c + STATE] = why
    if result & EVENT:
        m.ints[c + FINISHED] = now + 1
    return result
