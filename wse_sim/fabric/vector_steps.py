"""One step of a vector operation, as compiled functions: read the sources, compute the result, store or send it.

Common arguments: `m` pointers, `t` the core, `h` the offset of the thread's record, `row` the offset of the
instruction, `i` the number of an operand (0 is the destination), `element` the number of the element, `now` the cycle.
"""

import numpy as np

from wse_sim.fabric.compiled import Int, Pointers, Real, bits_to_float, compile_inlined, float_to_bits
from wse_sim.fabric.elements import apply_binary, apply_unary, decode, encode, round_to_dtype
from wse_sim.fabric.router import count_push, head_slot, pop_wavelet, push_wavelet
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
    TO_LANE,
    TYPE,
)

TARGET_OPERAND, FIRST_SOURCE, SECOND_SOURCE, THIRD_SOURCE = (np.int64(i) for i in range(4))
"""Numbers of an instruction's operands. Numba would compile a separate version for each plain integer constant."""


@compile_inlined
def operand_offset(row: Int, i: Int) -> Int:
    """Return the offset of the columns of operand `i` of the instruction at offset `row`."""
    return row + OPERANDS + i * OPERAND


@compile_inlined
def _read_plain_source(m: Pointers, t: Int, h: Int, row: Int, i: Int, element: Int) -> Real:
    """Return float32 element `element` of source `i` of the instruction at `row`, for core `t` and the thread at `h`.

    An element from a colour is the first wavelet of its queue, which is removed.
    """
    o = operand_offset(row, i)
    kind = m.code[o + OPERAND_AT]
    if kind == MEMORY:
        return m.floats[t * m.words_per_core + m.ints[h + BASES + i] + element * m.code[o + STRIDE]]
    if kind == RECEIVED:
        j = m.nlanes + m.code[o + BASE]
        wavelet = bits_to_float(m.ints[head_slot(m, t, j) + 1])
        pop_wavelet(m, t, j)
        return wavelet
    return m.constants[m.code[o + BASE]]


@compile_inlined
def _wavelet_stamp(m: Pointers, row: Int, element: Int, now: Int) -> Int:
    """Return the stamp of a wavelet that is sent in cycle `now`: the cycle in which it can leave its router, and a
    flag.

    The advance flag is set if `element` is the last one and the instruction at `row` advances the switch.
    """
    ready = now + 1 + m.ramp_up
    # The advance travels with the last wavelet: changing the switch immediately would overtake those still in the
    # queue.
    return ready | ADVANCE_FLAG if m.code[row + ADVANCES] and element == m.code[row + LENGTH] - 1 else ready


@compile_inlined
def send_wavelet(m: Pointers, t: Int, lane: Int, value: Int, stamp: Int) -> None:
    """Push a wavelet with the bits `value` to the queue of lane `lane` at the router of core `t`, and count it."""
    push_wavelet(m, t, lane, value, stamp)
    count_push(m, t, lane)


@compile_inlined
def run_plain_element(m: Pointers, t: Int, h: Int, row: Int, element: Int, now: Int) -> None:
    """Run element `element` of a float32 operation whose operands have one dimension, and store or send the result.

    `t` is the core, `h` the offset of the thread's record and `row` that of the instruction.
    """
    a = _read_plain_source(m, t, h, row, FIRST_SOURCE, element)
    op = m.code[row + OP]
    if op != MOVE:
        b = _read_plain_source(m, t, h, row, SECOND_SOURCE, element)
        if op == ADD:
            a = a + b
        elif op == SUB:
            a = a - b
        elif op == MUL:
            a = a * b
        elif op == MAX:
            # `np.maximum` returns NaN if either operand is NaN; a comparison would not.
            a = np.float32(np.maximum(a, b))
        else:
            # The cast prevents LLVM from fusing the two operations into one that rounds once.
            a = np.float32(a * b) + _read_plain_source(m, t, h, row, THIRD_SOURCE, element)
    o = operand_offset(row, TARGET_OPERAND)
    if m.code[o + OPERAND_AT] == MEMORY:
        m.floats[t * m.words_per_core + m.ints[h + BASES] + element * m.code[o + STRIDE]] = a
        return
    send_wavelet(
        m, t, np.int64(m.code[row + TO_LANE]), np.int64(float_to_bits(a)), _wavelet_stamp(m, row, element, now)
    )


@compile_inlined
def _element_address(m: Pointers, h: Int, row: Int, i: Int, element: Int) -> Int:
    """Return the address of element `element` of memory operand `i`, in elements of its type from the core's first
    word.
    """
    o = operand_offset(row, i)
    base, stride, extra = m.ints[h + BASES + i], m.code[o + STRIDE], m.code[o + EXTRA]
    if extra == 0:
        return base + element * stride
    # The element's number in mixed radix: the innermost dimension first, then the outer ones. Unused dimensions have
    # extent 1.
    inner = m.code[extra + INNER]
    at, left = base + element % inner * stride, element // inner
    for d in range(2, -1, -1):
        extent = m.code[extra + OUTER + 2 * d]
        at += left % extent * m.code[extra + OUTER + 2 * d + 1]
        left //= extent
    return at


@compile_inlined
def _read_source_bits(m: Pointers, t: Int, h: Int, row: Int, i: Int, element: Int) -> Int:
    """Return the bits of element `element` of source `i`, in memory or on a colour, in the source's own type.

    A wavelet is removed from its queue with its last element.
    """
    o = operand_offset(row, i)
    wide = m.code[o + TYPE] == FLOAT32
    if m.code[o + OPERAND_AT] == MEMORY:
        at = _element_address(m, h, row, i, element)
        if wide:
            return np.int64(m.words[t * m.words_per_core + at])
        return np.int64(m.halves[2 * t * m.words_per_core + at])
    j = m.nlanes + m.code[o + BASE]
    value = np.int64(m.ints[head_slot(m, t, j) + 1])
    # Two 16-bit elements share a wavelet, which is removed with the second of them, or with an odd last one.
    if wide or element & 1 or element == m.code[row + LENGTH] - 1:
        pop_wavelet(m, t, j)
    return value if wide else (value >> 16 if element & 1 else value) & 0xFFFF


@compile_inlined
def _read_source(m: Pointers, t: Int, h: Int, row: Int, i: Int, element: Int) -> Real:
    """Return element `element` of source `i` as a float32, rounded to the type of the destination.

    A wavelet is removed from its queue with its last element.
    """
    o = operand_offset(row, i)
    if m.code[o + OPERAND_AT] != MEMORY and m.code[o + OPERAND_AT] != RECEIVED:
        return m.constants[m.code[o + BASE]]
    dtype, to = m.code[o + TYPE], m.code[operand_offset(row, TARGET_OPERAND) + TYPE]
    raw = _read_source_bits(m, t, h, row, i, element)
    value = bits_to_float(np.int32(raw)) if dtype == FLOAT32 else decode(raw, dtype)
    return value if dtype == to else round_to_dtype(value, to)


@compile_inlined
def _compute_bits(m: Pointers, t: Int, h: Int, row: Int, element: Int) -> Int:
    """Return the bits of element `element` of the result of the instruction at `row`, in the destination's type.

    Elements from colours are removed from their queues, as in `_read_source_bits`. A move copies bits.
    """
    op, dtype = m.code[row + OP], m.code[operand_offset(row, TARGET_OPERAND) + TYPE]
    # A move copies bits: a signalling NaN or an index must not pass through float32.
    if op == MOVE and m.code[operand_offset(row, FIRST_SOURCE) + OPERAND_AT] != 0:
        return _read_source_bits(m, t, h, row, FIRST_SOURCE, element)
    value = _read_source(m, t, h, row, FIRST_SOURCE, element)
    if op == FMAC:
        # Rounded after each of the two operations, as in the NumPy reference.
        product = round_to_dtype(apply_binary(MUL, value, _read_source(m, t, h, row, SECOND_SOURCE, element)), dtype)
        value = product + _read_source(m, t, h, row, THIRD_SOURCE, element)
    elif ADD <= op < FMAC:
        value = apply_binary(op, value, _read_source(m, t, h, row, SECOND_SOURCE, element))
    elif op != MOVE:
        value = apply_unary(op, value)
    return np.int64(float_to_bits(value)) if dtype == FLOAT32 else encode(value, dtype)


@compile_inlined
def run_general_step(m: Pointers, t: Int, h: Int, row: Int, done: Int, now: Int) -> Int:
    """Run one step of any operation after `done` elements: one element, or the two elements of a wavelet of a 16-bit
    type.

    Returns the number of completed elements. `t` is the core, `h` the offset of the thread's record and `row` that of
    the instruction.
    """
    o = operand_offset(row, TARGET_OPERAND)
    wide = m.code[o + TYPE] == FLOAT32
    last = min(done + m.code[row + STEP], m.code[row + LENGTH]) - 1
    sent = np.int64(0)
    for element in range(done, last + 1):
        bits = _compute_bits(m, t, h, row, element)
        if m.code[o + OPERAND_AT] == SENT:
            sent = bits if wide else sent | bits << 16 * (element & 1)
        elif wide:
            m.words[t * m.words_per_core + _element_address(m, h, row, TARGET_OPERAND, element)] = bits
        else:
            m.halves[2 * t * m.words_per_core + _element_address(m, h, row, TARGET_OPERAND, element)] = bits
    if m.code[o + OPERAND_AT] == SENT:
        send_wavelet(m, t, np.int64(m.code[row + TO_LANE]), sent, _wavelet_stamp(m, row, last, now))
    return last + 1
