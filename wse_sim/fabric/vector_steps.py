"""One step of a vector operation, as compiled leaves: its sources, its result, and where that goes."""

import numpy as np

from wse_sim.fabric.compiled import Int, Pointers, Real, bits_of, float_of, leaf
from wse_sim.fabric.elements import decode, encode, one_source, rounded, two_sources
from wse_sim.fabric.router import count_push, pop, push, slot_of_head
from wse_sim.isa.record import (
    ADD,
    ADVANCE_FLAG,
    ADVANCES,
    BASE,
    BASES,
    EXTRA,
    FLOAT32,
    FMAC,
    INNER,
    LENGTH,
    MAX,
    MEMORY,
    MOVE,
    MUL,
    OP,
    OPERAND,
    OPERAND_AT,
    OPERANDS,
    OUTER,
    RECEIVED,
    SENT,
    STEP,
    STRIDE,
    SUB,
    TO,
    TYPE,
)

TARGET, FIRST, SECOND, THIRD = (np.int64(i) for i in range(4))
"""Operands of an instruction. As plain constants each would make a version of what takes it."""


@leaf
def operand_at(row: Int, i: Int) -> Int:
    """Where the columns of operand `i` of an instruction begin."""
    return row + OPERANDS + i * OPERAND


@leaf
def _plain_source(m: Pointers, t: Int, h: Int, row: Int, i: Int, element: Int) -> Real:
    """One float32 of source `i`; takes it from the queue if it comes on a colour."""
    o = operand_at(row, i)
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
def send(m: Pointers, t: Int, lane: Int, value: Int, stamp: Int) -> None:
    """Give the router a wavelet and count it."""
    push(m, t, lane, value, stamp)
    count_push(m, t, lane)


@leaf
def plain_element(m: Pointers, t: Int, h: Int, row: Int, element: Int, now: Int) -> None:
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
    o = operand_at(row, TARGET)
    if m.code[o + OPERAND_AT] == MEMORY:
        m.floats[t * m.words_per_core + m.ints[h + BASES] + element * m.code[o + STRIDE]] = a
        return
    send(m, t, np.int64(m.code[row + TO]), np.int64(bits_of(a)), _stamp(m, row, element, now))


@leaf
def _place(m: Pointers, h: Int, row: Int, i: Int, element: Int) -> Int:
    """Where an element of a memory operand lies, in elements of its type from the core's first."""
    o = operand_at(row, i)
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
    o = operand_at(row, i)
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
    o = operand_at(row, i)
    if m.code[o + OPERAND_AT] != MEMORY and m.code[o + OPERAND_AT] != RECEIVED:
        return m.constants[m.code[o + BASE]]
    dtype, to = m.code[o + TYPE], m.code[operand_at(row, TARGET) + TYPE]
    raw = _raw_source(m, t, h, row, i, element)
    value = float_of(np.int32(raw)) if dtype == FLOAT32 else decode(raw, dtype)
    return value if dtype == to else rounded(value, to)


@leaf
def _computed(m: Pointers, t: Int, h: Int, row: Int, element: Int) -> Int:
    """The bits of one element of the result."""
    op, dtype = m.code[row + OP], m.code[operand_at(row, TARGET) + TYPE]
    # A move carries bits, not values: a signalling NaN or an index must not pass through float32.
    if op == MOVE and m.code[operand_at(row, FIRST) + OPERAND_AT] != 0:
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
def general_step(m: Pointers, t: Int, h: Int, row: Int, done: Int, now: Int) -> Int:
    """The elements of one step: one, or the two that one wavelet of a 16-bit type carries."""
    o = operand_at(row, TARGET)
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
        send(m, t, np.int64(m.code[row + TO]), sent, _stamp(m, row, last, now))
    return last + 1
