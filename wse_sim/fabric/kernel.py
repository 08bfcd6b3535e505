"""The engine: one clock of every router and core, in two phases, as compiled code. Imported when the first mesh runs.

Phase 1 (`_decide`) reads the queues as they stand at the start of the cycle and writes only what belongs to its own
core: which colours its router will pass on, and the progress of the core. Phase 2 (`_commit`) moves the wavelets. Every
queue has one reader, which alone advances `head`, and one writer, which alone advances `tail`; so neither the order of
the cores nor the number of threads can change a result.

Core `t` has the router queues `t * colours + k` and, for what its router gave it, the same number further by
`cores * colours`. The layout of the arrays stands in assemble.py.
"""

import re
from typing import Any

import numpy as np
from numba import njit, prange

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
COLOURS, CORES, RING, WIDTH, RAMP_CYCLES, HOP_CYCLES, TURN_CYCLES, THREADS = 0, 1, 2, 3, 4, 5, 6, 7
FULL_RATE = 1000
NEVER = 1 << 30

_TYPES = {"I1": "i4[::1]", "I2": "i4[:,::1]", "I3": "i4[:,:,::1]", "F1": "f4[::1]", "F2": "f4[:,::1]"}
_LEAF: dict[str, Any] = {"cache": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_STATE = "I1,I1,I1,I1,I1,F1,I1,I2,I2,F1,I2,I3,F2,I2,I1"


def _signature(text):
    return re.sub("[IF][123]", lambda found: _TYPES[found.group()], text)


def compiled(text):
    """Compile a leaf once, for one signature; nothing outside this file calls it."""
    return njit(_signature(text), **_LEAF)


@compiled("i8(i8,i8,i8,i8,I1,I1,I1,I1,I1,I2)")
def _can_take(t, row, element, now, shape, head, tail, stamp, cap, code):
    """Why the next element of an instruction cannot run now: BUSY if it can. Negative if only time is missing."""
    colours, ring = shape[COLOURS], shape[RING]
    shift = shape[CORES] * colours
    late = False
    for i in range(1, 4):
        o = OPERANDS + 3 * i
        if code[row, o] == RECEIVED:
            q = shift + t * colours + code[row, o + 1]
            if head[q] == tail[q]:
                return ON_INPUT
            late |= stamp[q * ring + (head[q] & (ring - 1))] > now
    if code[row, OPERANDS] == SENT:
        q = t * colours + code[row, OPERANDS + 1]
        if tail[q] - head[q] >= cap[q]:
            return ON_OUTPUT
    return -ON_INPUT if late else BUSY


@compiled("f4(i8,i8,i8,i8,I1,I1,F1,I2,F1,F2)")
def _source(t, row, i, element, shape, head, value, code, constants, memory):
    """One element of source `i`; takes it from the queue if it comes on a colour."""
    o = OPERANDS + 3 * i
    kind, base = code[row, o], code[row, o + 1]
    if kind == MEMORY:
        return memory[t, base + element * code[row, o + 2]]
    if kind == RECEIVED:
        colours, ring = shape[COLOURS], shape[RING]
        q = shape[CORES] * colours + t * colours + base
        got = value[q * ring + (head[q] & (ring - 1))]
        head[q] += 1
        return got
    return constants[base]


@compiled("void(i8,i8,i8,i8,I1,I1,I1,I1,F1,I2,F1,F2)")
def _element(t, row, element, now, shape, head, tail, stamp, value, code, constants, memory):
    a = _source(t, row, 1, element, shape, head, value, code, constants, memory)
    op = code[row, OP]
    if op != MOVE:
        b = _source(t, row, 2, element, shape, head, value, code, constants, memory)
        if op == ADD:
            a = a + b
        elif op == MUL:
            a = a * b
        elif op == MAX:
            a = np.float32(np.maximum(a, b))
        else:
            a = np.float32(a * b) + _source(t, row, 3, element, shape, head, value, code, constants, memory)
    base = code[row, OPERANDS + 1]
    if code[row, OPERANDS] == MEMORY:
        memory[t, base + element * code[row, OPERANDS + 2]] = a
        return
    ring = shape[RING]
    q = t * shape[COLOURS] + base
    slot = q * ring + (tail[q] & (ring - 1))
    value[slot] = a
    stamp[slot] = now + 1 + shape[RAMP_CYCLES]
    tail[q] += 1


@compiled("void(i8,i8,i8,I2,I3,I2)")
def _complete(t, u, row, cores, threads, code):
    """A vector operation is through: tell its task, and go on or free the microthread."""
    if code[row, THEN] == ACTIVATE:
        cores[t, ACTIVE] |= 1 << code[row, TASK]
    elif code[row, THEN] == UNBLOCK:
        cores[t, BLOCKED] &= ~(1 << code[row, TASK])
    threads[t, u, READY] = NEVER
    threads[t, u, PC] = row + 1 if u == 0 else -1
    if u == 0 and code[row + 1, OP] == STOP:
        threads[t, 0, PC] = -1


@compiled("i8(i8,i8,i8,I1,I1,I1,I1,I1,F1,I2,F1,I2,I3,F2)")
def _beat(t, u, now, shape, head, tail, stamp, cap, value, code, constants, cores, threads, memory):
    """Advance a started vector operation by the elements of one cycle. Returns what kept it, BUSY if nothing."""
    row = threads[t, u, PC]
    done = threads[t, u, DONE]
    why = _can_take(t, row, done, now, shape, head, tail, stamp, cap, code)
    if why != BUSY:
        return why
    credit = threads[t, u, CREDIT] + code[row, RATE]
    why = BUSY if credit >= FULL_RATE else ON_MEMORY
    while credit >= FULL_RATE and done < code[row, LENGTH]:
        _element(t, row, done, now, shape, head, tail, stamp, value, code, constants, memory)
        credit -= FULL_RATE
        done += 1
    threads[t, u, DONE], threads[t, u, CREDIT] = done, credit
    if done == code[row, LENGTH]:
        _complete(t, u, row, cores, threads, code)
    return why


@compiled("void(i8,i8,i8,i8,I2,I3)")
def _start(t, u, row, now, code, threads):
    threads[t, u, PC], threads[t, u, READY] = row, now + code[row, SETUP]
    threads[t, u, DONE], threads[t, u, CREDIT] = 0, 0


@compiled("b1(f4,i8,f4)")
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


@compiled("void(i8,i8,i8,I2,F1,I2,I3,F2,I2)")
def _control(t, row, op, code, constants, cores, threads, memory, entries):
    """Run one control instruction of the main thread."""
    following = row + 1
    a, b = code[row, OPERANDS + 1], code[row, OPERANDS + 2]
    if op == LOOP:
        cores[t, LOOPS + a] = code[row, LENGTH]
    elif op == END:
        cores[t, LOOPS + a] -= 1
        if cores[t, LOOPS + a] > 0:
            following = b
    elif op == BRANCH:
        if _compares(memory[t, a], code[row, ASYNC], constants[b]):
            following = entries[cores[t, PROGRAM], code[row, TASK]]
    elif op == ACTIVATE:
        cores[t, ACTIVE] |= 1 << code[row, TASK]
    elif op == BLOCK:
        cores[t, BLOCKED] |= 1 << code[row, TASK]
    else:
        cores[t, BLOCKED] &= ~(1 << code[row, TASK])
    threads[t, 0, PC] = -1 if code[following, OP] == STOP else following


@compiled("b1(i8,i8,I1,I2,F1,I2,I3,F2,I2)")
def _issue(t, now, shape, code, constants, cores, threads, memory, entries):
    """Start what the main thread stands at, or a task if it stands at none. True if something happened."""
    row = threads[t, 0, PC]
    if row < 0:
        able = cores[t, ACTIVE] & ~cores[t, BLOCKED]
        if able == 0:
            return False
        task = 0
        while not able >> task & 1:
            task += 1
        cores[t, ACTIVE] &= ~(1 << task)
        row = entries[cores[t, PROGRAM], task]
        threads[t, 0, PC] = -1 if code[row, OP] == STOP else row
        threads[t, 0, READY] = NEVER
        return True
    op = code[row, OP]
    if op > FIRST_CONTROL:
        _control(t, row, op, code, constants, cores, threads, memory, entries)
        return True
    if not code[row, ASYNC]:
        _start(t, 0, row, now, code, threads)
        return True
    for u in range(1, shape[THREADS]):
        if threads[t, u, PC] < 0:
            _start(t, u, row, now, code, threads)
            threads[t, 0, PC] = -1 if code[row + 1, OP] == STOP else row + 1
            return True
    return False


@compiled("i8(i8,i8,I1,I1,I1,I1,I1,F1,I2,F1,I2,I3,F2,I2,I2)")
def _core(t, now, shape, head, tail, stamp, cap, value, code, constants, cores, threads, memory, entries, counters):
    """One cycle of a core: the first of its threads, from a place that rotates, that can do something."""
    if cores[t, PROGRAM] < 0:
        return 0
    why, result = IDLE, 0
    count = shape[THREADS]
    for i in range(count):
        u = i + now % count
        u = u - count if u >= count else u
        if threads[t, u, PC] >= 0 and threads[t, u, READY] != NEVER:
            if threads[t, u, READY] > now:
                result = WAITING
                why = BUSY
                continue
            kept = _beat(t, u, now, shape, head, tail, stamp, cap, value, code, constants, cores, threads, memory)
            if kept in (BUSY, ON_MEMORY):
                why, result = kept, EVENT
                break
            if kept < 0:
                kept, result = -kept, WAITING
            why = kept if why == IDLE else why
        elif u == 0 and _issue(t, now, shape, code, constants, cores, threads, memory, entries):
            why, result = BUSY, EVENT
            break
    counters[t, why] += 1
    cores[t, STATE] = why
    if result == EVENT:
        cores[t, FINISHED] = now + 1
    return result


@compiled("UniTuple(i8,2)(i8,i8,I1,I1,I1,I1,I1,I1)")
def _router(t, now, shape, head, tail, stamp, cap, route):
    """The colours that a router passes on in this cycle, as bits, and whether one waits for the clock alone."""
    colours, ring, width = shape[COLOURS], shape[RING], shape[WIDTH]
    shift = shape[CORES] * colours
    grant, used, result = 0, 0, 0
    for i in range(colours):
        k = i + now % colours
        k = k - colours if k >= colours else k
        q = t * colours + k
        if head[q] == tail[q]:
            continue
        result |= KEPT
        if stamp[q * ring + (head[q] & (ring - 1))] > now:
            result |= WAITING
            continue
        outs = route[q] & 31
        if outs & used:
            continue
        p = shift + q
        free = not outs & 16 or tail[p] - head[p] < cap[p]
        if outs & 1:
            p = q - width * colours
            free = free and tail[p] - head[p] < cap[p]
        if outs & 2:
            p = q + colours
            free = free and tail[p] - head[p] < cap[p]
        if outs & 4:
            p = q + width * colours
            free = free and tail[p] - head[p] < cap[p]
        if outs & 8:
            p = q - colours
            free = free and tail[p] - head[p] < cap[p]
        if free:
            grant |= 1 << k
            used |= outs
            result |= EVENT
    return grant, result


@compiled("void(i8,f4,i8,i8,I1,I1,F1)")
def _push(p, v, ready, ring, tail, stamp, value):
    slot = p * ring + (tail[p] & (ring - 1))
    value[slot] = v
    stamp[slot] = ready
    tail[p] += 1


@compiled("i8(i8,i8,i8,I1,I1,I1,I1,F1,I1,I2)")
def _commit(t, grants, now, shape, head, tail, stamp, value, route, counters):
    """Move what a router passes on. Returns the directions in which something went, as bits."""
    colours, ring, width = shape[COLOURS], shape[RING], shape[WIDTH]
    shift = shape[CORES] * colours
    went = 0
    for k in range(colours):
        if not grants >> k & 1:
            continue
        q = t * colours + k
        outs, source = route[q] & 31, route[q] >> 5
        v = value[q * ring + (head[q] & (ring - 1))]
        went |= outs
        if outs & 16:
            _push(shift + q, v, now + shape[RAMP_CYCLES], ring, tail, stamp, value)
            counters[t, LINKS + 4] += 1
        for d in range(4):
            if outs >> d & 1:
                step = -width if d == 0 else (1 if d == 1 else (width if d == 2 else -1))
                turns = source < 4 and (source ^ d) & 1
                ready = now + shape[HOP_CYCLES] + (shape[TURN_CYCLES] if turns else 0)
                _push(q + step * colours, v, ready, ring, tail, stamp, value)
                counters[t, LINKS + d] += 1
        head[q] += 1
    return went


@compiled("i8(i8,i8,I1,I1,I1,I1,I1,F1,I1,I2,I2,F1,I2,I3,F2,I2,I1)")
def _decide(
    t,
    now,
    shape,
    head,
    tail,
    stamp,
    cap,
    value,
    route,
    code,
    entries,
    constants,
    cores,
    threads,
    memory,
    counters,
    grants,
):
    grant, result = _router(t, now, shape, head, tail, stamp, cap, route)
    grants[t] = grant
    return result | _core(
        t, now, shape, head, tail, stamp, cap, value, code, constants, cores, threads, memory, entries, counters
    )


@compiled("i8(i8,i8,i8,I1,I1,I1,I1,F1,I1,I2,I1,I2,I1,I2)")
def _commit_list(here, size, now, shape, head, tail, stamp, value, route, counters, grants, cores, awake, lists):
    """Phase 2 over a list; the other list becomes what is awake in the next cycle. Returns its size."""
    there, width = 1 - here, shape[WIDTH]
    count = 0
    for i in range(size):
        t = lists[here, i]
        if awake[t] == now + 1:
            lists[there, count] = t
            count += 1
    for i in range(size):
        t = lists[here, i]
        if grants[t] == 0:
            continue
        went = _commit(t, grants[t], now, shape, head, tail, stamp, value, route, counters)
        for d in range(4):
            if went >> d & 1:
                n = t + (-width if d == 0 else (1 if d == 1 else (width if d == 2 else -1)))
                if awake[n] != now + 1:
                    awake[n] = now + 1
                    lists[there, count] = n
                    count += 1
    return count


@njit(_signature(f"i8({_STATE},I1,I2,i8,i8)"), cache=True, parallel=True)
def run_list(
    shape, head, tail, stamp, cap, value, route, code, entries, constants, cores, threads, memory, counters, grants,
    awake, lists, now, most,
):  # fmt: skip
    """Run on one thread, visiting only cores that can do something. Returns the cycle at which nothing can any more.

    The single parallel iteration is there for its arrays: inside it they are not counted as references, and serial code
    that counts them takes three times as long.
    """
    last = np.zeros(1, np.int64)
    for _ in prange(1):
        clock = now
        size = grants.shape[0]
        for t in range(size):
            lists[0, t] = t
            awake[t] = clock
        here = 0
        while clock < most:
            result = 0
            for i in range(size):
                t = lists[here, i]
                if cores[t, SLEEPS] > 0 and cores[t, PROGRAM] >= 0:
                    counters[t, cores[t, STATE]] += clock - cores[t, SLEEPS]
                cores[t, SLEEPS] = 0
                one = _decide(
                    t, clock, shape, head, tail, stamp, cap, value, route, code, entries, constants, cores, threads,
                    memory, counters, grants,
                )  # fmt: skip
                result |= one
                if one:
                    awake[t] = clock + 1
                else:
                    cores[t, SLEEPS] = clock + 1
            if result & (EVENT | WAITING) == 0:
                break
            size = _commit_list(
                here, size, clock, shape, head, tail, stamp, value, route, counters, grants, cores, awake, lists
            )
            here = 1 - here
            clock += 1
        for t in range(grants.shape[0]):
            if cores[t, SLEEPS] > 0 and cores[t, PROGRAM] >= 0:
                counters[t, cores[t, STATE]] += max(0, min(clock + 1, most) - cores[t, SLEEPS])
                cores[t, SLEEPS] = 0
        last[0] = clock
    return last[0]


@njit(_signature(f"i8({_STATE},i8,i8,i8)"), cache=True, parallel=True)
def run_scan(
    shape, head, tail, stamp, cap, value, route, code, entries, constants, cores, threads, memory, counters, grants,
    now, most, bands,
):  # fmt: skip
    """Run on all cores in every cycle, cut into `bands` that run at once. Returns as `run_list`."""
    size = grants.shape[0]
    results = np.zeros((bands, 16), np.int64)
    while now < most:
        for band in prange(bands):
            b = np.int64(band)
            results[b, 0] = 0
            for t in range(size * b // bands, size * (b + 1) // bands):
                results[b, 0] |= _decide(
                    t, now, shape, head, tail, stamp, cap, value, route, code, entries, constants, cores, threads,
                    memory, counters, grants,
                )  # fmt: skip
        stands = True
        for i in range(bands):
            stands = stands and results[i, 0] & (EVENT | WAITING) == 0
        if stands:
            break
        for band in prange(bands):
            b = np.int64(band)
            for t in range(size * b // bands, size * (b + 1) // bands):
                if grants[t]:
                    _commit(t, grants[t], now, shape, head, tail, stamp, value, route, counters)
        now += 1
    return now
