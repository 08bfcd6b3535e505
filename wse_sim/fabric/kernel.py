"""The engine: one clock of every router and core, in two phases, as compiled code. Imported when the first mesh runs.

Phase 1 (`_decide`) reads the queues as they stand at the start of the cycle and writes only what belongs to its own
core: which colours its router will pass on, and the progress of the core. Phase 2 (`_commit`) moves the wavelets. Every
queue has one reader, which alone advances `head`, and one writer, which alone advances `tail`; so neither the order of
the cores nor the number of threads can change a result.

Core `t` has the router queues `t * colours + k` and, for what its router gave it, the same number further by
`cores * colours`. The layout of the arrays stands in assemble.py.
"""

from collections import namedtuple
from typing import Any

import numpy as np
from numba import njit, prange, types
from numba.extending import intrinsic

# Results of one core in one cycle, as bits.
EVENT, WAITING, KEPT = 1, 2, 4
# What a core did, columns of `counters`; four links and the ramp follow.
BUSY, ON_INPUT, ON_OUTPUT, ON_MEMORY, IDLE, LINKS = 0, 1, 2, 3, 4, 5
# Columns of `threads`.
PC, READY, DONE, CREDIT = 0, 1, 2, 3
# Columns of `cores`; the counts of the loops follow.
PROGRAM, ACTIVE, BLOCKED, STATE, SLEEPS, FINISHED, LOOPS = 0, 1, 2, 3, 4, 5, 6
# Columns of `code`, then four operands of (kind, base, stride).
OP, LENGTH, RATE, ASYNC, THEN, TASK, SETUP, OPERANDS = 0, 1, 2, 3, 4, 5, 6, 7
MOVE, ADD, MUL, MAX, FMAC, FIRST_CONTROL, LOOP, END, BRANCH, ACTIVATE, BLOCK, UNBLOCK, STOP = range(13)
CONSTANT, MEMORY, RECEIVED, SENT, NONE = 0, 1, 2, 3, 4
# Entries of `shape`.
COLOURS, CORES, RING, WIDTH, RAMP_CYCLES, HOP_CYCLES, TURN_CYCLES, THREADS = range(8)
WORDS, FIRST_COLOUR, FIRST_THREAD = 8, 9, 10
# Words of one record of `code`, `cores`, `threads` and `counters`, tasks of one program in `entries`.
CODE, CORE, THREAD, COUNTED, TASKS = 19, 10, 4, 10, 32
FULL_RATE = 1000
NEVER = 1 << 30

Pointers = namedtuple(
    "Pointers",
    "shape head tail stamp cap value route code entries constants cores threads memory counters grants awake lists",
)
"""Where the arrays of a mesh lie. As arrays they would be counted in every call, which takes seven times as long."""

_FLOATS = ("value", "constants", "memory")
_STATE = types.NamedTuple(
    [types.CPointer(types.float32 if name in _FLOATS else types.int32) for name in Pointers._fields], Pointers
)
_LETTERS = {
    "n": types.int64, "f": types.float32, "b": types.boolean, "v": types.void, "p": types.UniTuple(types.int64, 2),
}  # fmt: skip


def leaf(returns: str, arguments: str, state: bool = True) -> Any:
    """Compile a function that only this file calls, once, for one signature; the state of the mesh comes first."""
    taken = [_STATE] * state + [_LETTERS[letter] for letter in arguments]
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}
    return njit(_LETTERS[returns](*taken), cache=True, **options)


def _pointer(element: Any) -> Any:
    """A function from an address to a pointer to `element`."""

    def typed(typingctx, address):
        def lower(context, builder, signature, args):
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return types.CPointer(element)(types.int64), lower

    return intrinsic(typed)


_ints, _floats = _pointer(types.int32), _pointer(types.float32)


@njit(_STATE(types.int64[::1]), cache=True)
def _pointers(at):
    return Pointers(
        _ints(at[0]), _ints(at[1]), _ints(at[2]), _ints(at[3]), _ints(at[4]), _floats(at[5]), _ints(at[6]),
        _ints(at[7]), _ints(at[8]), _floats(at[9]), _ints(at[10]), _ints(at[11]), _floats(at[12]), _ints(at[13]),
        _ints(at[14]), _ints(at[15]), _ints(at[16]),
    )  # fmt: skip


@leaf("b", "n")
def _has_room(m, q):
    return m.tail[q] - m.head[q] < m.cap[q]


@leaf("n", "nnn")
def _can_take(m, t, row, now):
    """Why the next element of an instruction cannot run now: BUSY if it can. Negative if only time is missing."""
    colours, ring = m.shape[COLOURS], m.shape[RING]
    shift = m.shape[CORES] * colours
    late = False
    for i in range(1, 4):
        o = OPERANDS + 3 * i
        if m.code[row + o] == RECEIVED:
            q = shift + t * colours + m.code[row + o + 1]
            if m.head[q] == m.tail[q]:
                return ON_INPUT
            late |= m.stamp[q * ring + (m.head[q] & (ring - 1))] > now
    if m.code[row + OPERANDS] == SENT and not _has_room(m, t * colours + m.code[row + OPERANDS + 1]):
        return ON_OUTPUT
    return -ON_INPUT if late else BUSY


@leaf("f", "nnnn")
def _source(m, t, row, i, element):
    """One element of source `i`; takes it from the queue if it comes on a colour."""
    o = OPERANDS + 3 * i
    kind, base = m.code[row + o], m.code[row + o + 1]
    if kind == MEMORY:
        return m.memory[t * m.shape[WORDS] + base + element * m.code[row + o + 2]]
    if kind == RECEIVED:
        colours, ring = m.shape[COLOURS], m.shape[RING]
        q = m.shape[CORES] * colours + t * colours + base
        got = m.value[q * ring + (m.head[q] & (ring - 1))]
        m.head[q] += 1
        return got
    return m.constants[base]


@leaf("v", "nfn")
def _push(m, q, v, ready):
    ring = m.shape[RING]
    slot = q * ring + (m.tail[q] & (ring - 1))
    m.value[slot] = v
    m.stamp[slot] = ready
    m.tail[q] += 1


@leaf("v", "nnnn")
def _element(m, t, row, element, now):
    a = _source(m, t, row, 1, element)
    op = m.code[row + OP]
    if op != MOVE:
        b = _source(m, t, row, 2, element)
        if op == ADD:
            a = a + b
        elif op == MUL:
            a = a * b
        elif op == MAX:
            a = np.float32(np.maximum(a, b))
        else:
            a = np.float32(a * b) + _source(m, t, row, 3, element)
    base = m.code[row + OPERANDS + 1]
    if m.code[row + OPERANDS] == MEMORY:
        m.memory[t * m.shape[WORDS] + base + element * m.code[row + OPERANDS + 2]] = a
        return
    _push(m, t * m.shape[COLOURS] + base, a, now + 1 + m.shape[RAMP_CYCLES])


@leaf("n", "n")
def _after(m, row):
    """Where the main thread stands after an instruction; -1 at the end of a task."""
    return -1 if m.code[row + CODE + OP] == STOP else row + CODE


@leaf("v", "nnbn")
def _complete(m, t, h, is_main, row):
    """A vector operation is through: tell its task, and go on or free the microthread."""
    if m.code[row + THEN] == ACTIVATE:
        m.cores[t * CORE + ACTIVE] |= 1 << m.code[row + TASK]
    elif m.code[row + THEN] == UNBLOCK:
        m.cores[t * CORE + BLOCKED] &= ~(1 << m.code[row + TASK])
    m.threads[h + READY] = NEVER
    m.threads[h + PC] = _after(m, row) if is_main else -1


@leaf("n", "nnbn")
def _beat(m, t, h, is_main, now):
    """Advance a started vector operation by the elements of one cycle. Returns what kept it, BUSY if nothing."""
    row, done = m.threads[h + PC], m.threads[h + DONE]
    why = _can_take(m, t, row, now)
    if why != BUSY:
        return why
    credit = m.threads[h + CREDIT] + m.code[row + RATE]
    why = BUSY if credit >= FULL_RATE else ON_MEMORY
    length = m.code[row + LENGTH]
    while credit >= FULL_RATE and done < length:
        _element(m, t, row, done, now)
        credit -= FULL_RATE
        done += 1
    m.threads[h + DONE], m.threads[h + CREDIT] = done, credit
    if done == length:
        _complete(m, t, h, is_main, row)
    return why


@leaf("v", "nnn")
def _start(m, h, row, now):
    m.threads[h + PC], m.threads[h + READY] = row, now + m.code[row + SETUP]
    m.threads[h + DONE], m.threads[h + CREDIT] = 0, 0


@leaf("b", "fnf", state=False)
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


@leaf("n", "nnn")
def _control(m, t, row, op):
    """Run one control instruction of the main thread. Returns where it stands then."""
    a, b = m.code[row + OPERANDS + 1], m.code[row + OPERANDS + 2]
    c = t * CORE
    if op == LOOP:
        m.cores[c + LOOPS + a] = m.code[row + LENGTH]
    elif op == END:
        m.cores[c + LOOPS + a] -= 1
        if m.cores[c + LOOPS + a] > 0:
            return b
    elif op == BRANCH:
        if _compares(m.memory[t * m.shape[WORDS] + a], m.code[row + ASYNC], m.constants[b]):
            return m.entries[m.cores[c + PROGRAM] * TASKS + m.code[row + TASK]]
    elif op == ACTIVATE:
        m.cores[c + ACTIVE] |= 1 << m.code[row + TASK]
    elif op == BLOCK:
        m.cores[c + BLOCKED] |= 1 << m.code[row + TASK]
    else:
        m.cores[c + BLOCKED] &= ~(1 << m.code[row + TASK])
    return _after(m, row)


@leaf("b", "nn")
def _start_task(m, c, h):
    """Put the main thread at the first task that is active and not blocked. False if there is none."""
    able = m.cores[c + ACTIVE] & ~m.cores[c + BLOCKED]
    if able == 0:
        return False
    task = 0
    while not able >> task & 1:
        task += 1
    m.cores[c + ACTIVE] &= ~(1 << task)
    m.threads[h + PC] = m.entries[m.cores[c + PROGRAM] * TASKS + task]
    m.threads[h + READY] = NEVER
    return True


@leaf("b", "nn")
def _issue(m, t, now):
    """Start what the main thread stands at, or a task if it stands at none. True if something happened."""
    main = t * m.shape[THREADS] * THREAD
    row = m.threads[main + PC]
    if row < 0:
        return _start_task(m, t * CORE, main)
    op = m.code[row + OP]
    if op == STOP:
        m.threads[main + PC] = -1
        return True
    if op > FIRST_CONTROL:
        m.threads[main + PC] = _control(m, t, row, op)
        return True
    if not m.code[row + ASYNC]:
        _start(m, main, row, now)
        return True
    for u in range(1, m.shape[THREADS]):
        h = main + u * THREAD
        if m.threads[h + PC] < 0:
            _start(m, h, row, now)
            m.threads[main + PC] = _after(m, row)
            return True
    return False


@leaf("n", "nn")
def _core(m, t, now):
    """One cycle of a core: the first of its threads, from a place that rotates, that can do something."""
    c = t * CORE
    if m.cores[c + PROGRAM] < 0:
        return 0
    why, result = IDLE, 0
    count = m.shape[THREADS]
    for i in range(count):
        u = i + m.shape[FIRST_THREAD]
        u = u - count if u >= count else u
        h = (t * count + u) * THREAD
        if m.threads[h + PC] >= 0 and m.threads[h + READY] != NEVER:
            if m.threads[h + READY] > now:
                why, result = BUSY, WAITING
                continue
            kept = _beat(m, t, h, u == 0, now)
            if kept in (BUSY, ON_MEMORY):
                why, result = kept, EVENT
                break
            if kept < 0:
                kept, result = -kept, WAITING
            why = kept if why == IDLE else why
        elif u == 0 and _issue(m, t, now):
            why, result = BUSY, EVENT
            break
    m.counters[t * COUNTED + why] += 1
    m.cores[c + STATE] = why
    if result == EVENT:
        m.cores[c + FINISHED] = now + 1
    return result


@leaf("p", "nn")
def _router(m, t, now):
    """The colours that a router passes on in this cycle, as bits, and whether one waits for the clock alone."""
    colours, ring, width = m.shape[COLOURS], m.shape[RING], m.shape[WIDTH]
    shift = m.shape[CORES] * colours
    grant, used, result = 0, 0, 0
    for i in range(colours):
        k = i + m.shape[FIRST_COLOUR]
        k = k - colours if k >= colours else k
        q = t * colours + k
        if m.head[q] == m.tail[q]:
            continue
        result |= KEPT
        if m.stamp[q * ring + (m.head[q] & (ring - 1))] > now:
            result |= WAITING
            continue
        outs = m.route[q] & 31
        if outs & used:
            continue
        free = not outs & 16 or _has_room(m, shift + q)
        if outs & 1:
            free = free and _has_room(m, q - width * colours)
        if outs & 2:
            free = free and _has_room(m, q + colours)
        if outs & 4:
            free = free and _has_room(m, q + width * colours)
        if outs & 8:
            free = free and _has_room(m, q - colours)
        if free:
            grant |= 1 << k
            used |= outs
            result |= EVENT
    return grant, result


@leaf("n", "nnn")
def _commit(m, t, grants, now):
    """Move what a router passes on. Returns the directions in which something went, as bits."""
    colours, ring, width = m.shape[COLOURS], m.shape[RING], m.shape[WIDTH]
    shift = m.shape[CORES] * colours
    went = 0
    for k in range(colours):
        if not grants >> k & 1:
            continue
        q = t * colours + k
        outs, source = m.route[q] & 31, m.route[q] >> 5
        v = m.value[q * ring + (m.head[q] & (ring - 1))]
        went |= outs
        if outs & 16:
            _push(m, shift + q, v, now + m.shape[RAMP_CYCLES])
            m.counters[t * COUNTED + LINKS + 4] += 1
        for d in range(4):
            if outs >> d & 1:
                step = -width if d == 0 else (1 if d == 1 else (width if d == 2 else -1))
                turns = source < 4 and (source ^ d) & 1
                ready = now + m.shape[HOP_CYCLES] + (m.shape[TURN_CYCLES] if turns else 0)
                _push(m, q + step * colours, v, ready)
                m.counters[t * COUNTED + LINKS + d] += 1
        m.head[q] += 1
    return went


@leaf("n", "nn")
def _decide(m, t, now):
    grant, result = _router(m, t, now)
    m.grants[t] = grant
    return result | _core(m, t, now)


@leaf("v", "n")
def _rotate(m, now):
    """Choose where every router and every core begins to look in this cycle."""
    m.shape[FIRST_COLOUR], m.shape[FIRST_THREAD] = now % m.shape[COLOURS], now % m.shape[THREADS]


@leaf("n", "nnn")
def _wake(m, t, now, count):
    """Put a core on the list of the next cycle, once. Returns the length of that list."""
    if m.awake[t] == now + 1:
        return count
    m.awake[t] = now + 1
    m.lists[((now + 1) & 1) * m.shape[CORES] + count] = t
    return count + 1


@leaf("p", "nn")
def _decide_list(m, size, now):
    """Phase 1 over the list. Returns the bits of all its cores, and the length of the next list so far."""
    count, results = 0, 0
    for i in range(size):
        t = np.int64(m.lists[(now & 1) * m.shape[CORES] + i])
        c = t * CORE
        if m.cores[c + SLEEPS] > 0 and m.cores[c + PROGRAM] >= 0:
            m.counters[t * COUNTED + m.cores[c + STATE]] += now - m.cores[c + SLEEPS]
        m.cores[c + SLEEPS] = 0
        result = _decide(m, t, now)
        if result:
            count = _wake(m, t, now, count)
        else:
            m.cores[c + SLEEPS] = now + 1
        results |= result
    return results, count


@leaf("n", "nnn")
def _commit_list(m, size, count, now):
    """Phase 2 over the list: who gets a wavelet wakes. Returns the length of the next list."""
    width = m.shape[WIDTH]
    for i in range(size):
        t = np.int64(m.lists[(now & 1) * m.shape[CORES] + i])
        if m.grants[t] == 0:
            continue
        went = _commit(m, t, m.grants[t], now)
        if went & 1:
            count = _wake(m, t - width, now, count)
        if went & 2:
            count = _wake(m, t + 1, now, count)
        if went & 4:
            count = _wake(m, t + width, now, count)
        if went & 8:
            count = _wake(m, t - 1, now, count)
    return count


@leaf("n", "nn")
def _run_list(m, now, most):
    size = m.shape[CORES]
    for t in range(size):
        m.lists[(now & 1) * size + t] = t
    while now < most:
        _rotate(m, now)
        results, count = _decide_list(m, size, now)
        if results & (EVENT | WAITING) == 0:
            break
        size = _commit_list(m, size, count, now)
        now += 1
    for t in range(m.shape[CORES]):
        c = t * CORE
        if m.cores[c + SLEEPS] > 0 and m.cores[c + PROGRAM] >= 0:
            m.counters[t * COUNTED + m.cores[c + STATE]] += max(0, min(now + 1, most) - m.cores[c + SLEEPS])
            m.cores[c + SLEEPS] = 0
    return now


@njit(types.int64(types.int64[::1], types.int64, types.int64), cache=True)
def run_list(addresses, now, most):
    """Run on one thread, visiting only cores that can do something. Returns the cycle at which nothing can any more.

    `addresses` says where the arrays lie, in the order of `Pointers`; they must outlive the call.
    """
    return _run_list(_pointers(addresses), now, most)


@leaf("n", "nnn")
def _decide_band(m, first, last, now):
    result = 0
    for t in range(first, last):
        result |= _decide(m, t, now)
    return result


@leaf("v", "nnn")
def _commit_band(m, first, last, now):
    for t in range(first, last):
        if m.grants[t]:
            _commit(m, t, m.grants[t], now)


@njit(types.int64(types.int64[::1], types.int64, types.int64, types.int64), cache=True, parallel=True)
def run_scan(addresses, now, most, bands):
    """Run on all cores in every cycle, cut into `bands` that run at once. Arguments and result as of `run_list`."""
    all_bands = _pointers(addresses)
    size = all_bands.shape[CORES]
    results = np.zeros((bands, 16), np.int64)  # a cache line for each band
    while now < most:
        _rotate(all_bands, now)
        for band in prange(bands):
            b = np.int64(band)
            results[b, 0] = _decide_band(_pointers(addresses), size * b // bands, size * (b + 1) // bands, now)
        stands = True
        for i in range(bands):
            stands = stands and results[i, 0] & (EVENT | WAITING) == 0
        if stands:
            break
        for band in prange(bands):
            b = np.int64(band)
            _commit_band(_pointers(addresses), size * b // bands, size * (b + 1) // bands, now)
        now += 1
    return now
