"""Models of single mechanisms: vector operations of one PE, words between PEs, and collectives along a line."""

from wse_sim.isa.core_program import ITEM_BYTES, WORD_BYTES, LoopEnd, LoopStart, Memory, Vector
from wse_sim.kernels.collective import scalar
from wse_sim.layout import Rect, ceil_div
from wse_sim.phase import Broadcast, Compute, Local, Par, Phase, Reduce, Repeat, Seq, Shift
from wse_sim.validation.row_model import GRID, RowCase, RowModel, RowRefused, one_of, whole_number

_SINGLE_PE = Rect(0, 0, 1, 1)
_LONG_VECTOR_ELEMENTS = 1 << 16
_DTYPE = one_of("type of the elements", "float32", "float16", default="float32")


def vector_cycles(case: RowCase) -> float:
    """Return the cycles of one vector operation on one PE, over operands without bank conflicts."""
    return case.cycles(_vector_phase(case))


def vector_rate(case: RowCase) -> float:
    """Return the elements per cycle of one vector operation on one PE, over operands without bank conflicts."""
    return float(case["n"] / vector_cycles(case))


def _vector_phase(case: RowCase) -> Phase:
    return Compute(_SINGLE_PE, op=case["op"], vectors=1, length=case["n"], itemsize=ITEM_BYTES[case["dtype"]])


def _second_base(case: RowCase, dtype: str, apart_words: int) -> int:
    """Return the base of the second of two vectors of `n` elements, the first of which starts at 0.

    Their first words are `apart_words` apart, modulo the pairs of memory banks.
    """
    pairs, size = case.machine.bank_pairs, ITEM_BYTES[dtype]
    words = ceil_div(case["n"] * size, WORD_BYTES)
    return (ceil_div(words, pairs) * pairs + apart_words) * WORD_BYTES // size


def mapped_fma_cycles(case: RowCase) -> float:
    """Return the cycles of a multiply-add over vectors as a loop over operations of `operation_elements` elements.

    The sources start in adjacent pairs of banks. The last operation has as many elements as the others.
    """
    length, dtype = case["operation_elements"], case["dtype"]
    bases = 0, _second_base(case, dtype, 1)
    target, factor = (Memory(base, dtype=dtype, steps=(length,)) for base in bases)
    vector = Vector("fmac", operands=(target, factor, 2.0, target), length=length)
    return case.cycles(Local(_SINGLE_PE, (LoopStart(ceil_div(case["n"], length)), vector, LoopEnd())))


def aligned_operation_cycles(case: RowCase) -> float:
    """Return the cycles of a float32 operation over two vectors in the memory of one PE.

    The first words of the vectors are in the same pair of banks ("conflict"), in adjacent pairs ("fast"), or half of
    the pairs apart (`simd64`). The published program multiplies two vectors in the last case, and multiplies and adds
    in the others.
    """
    n = case["n"]
    apart = case.machine.bank_pairs // 2 if case["simd64"] else int(case["alignment"] != "conflict")
    first, second = Memory(0), Memory(_second_base(case, "float32", apart))
    vector = Vector("fmac", operands=(first, second, 2.0, first), length=n)
    if case["simd64"]:
        vector = Vector("mul", operands=(first, first, second), length=n)
    return case.cycles(Local(_SINGLE_PE, (vector,)))


def bank_conflict_ratio(case: RowCase) -> float:
    """Return the time of a long float32 multiply-add with bank conflicts over that without."""
    slow, fast = (
        Compute(_SINGLE_PE, op="fma", vectors=1, length=_LONG_VECTOR_ELEMENTS, itemsize=4, apart=apart)
        for apart in (0, 1)
    )
    return case.cycles(slow) / case.cycles(fast)


def _relay_cycles(case: RowCase, hops: int, words: int) -> float:
    """Return the cycles of a store-and-forward program over `hops` hops.

    A PE receives all words and then sends them on. The last PE starts one more operation on the received words.
    """
    hop = Shift(Rect(0, 0, 2, 1), axis="x", words=words)
    last = scalar(Rect(0, 0, 2, 1), 1, case.machine.loaded_setup_cycles)
    return case.cycles(Seq((Repeat(hops, hop), last)))


def relay_word_cycles(case: RowCase) -> float:
    """Return the cycles that each additional word adds to a store-and-forward relay."""
    # Use the slope of a line through times, as the campaign does, so that fixed costs cancel.
    return (_relay_cycles(case, 1, 1001) - _relay_cycles(case, 1, 1)) / 1000


def relay_hop_cycles(case: RowCase) -> float:
    """Return the cycles that each additional PE adds to a store-and-forward relay, without those of its word."""
    return _relay_cycles(case, 2, 1) - _relay_cycles(case, 1, 1) - relay_word_cycles(case)


def relay_start_cycles(case: RowCase) -> float:
    """Return the fixed cycles of a store-and-forward relay, extrapolated to no PE and no word."""
    return 2 * _relay_cycles(case, 1, 1) - _relay_cycles(case, 2, 1)


def reduction_cycles(case: RowCase) -> float:
    """Return the cycles of a reduction on a line, from its start to the last word at the root.

    It is a two-phase reduction in groups of `group_pes` PEs or, without this parameter, a chain.
    """
    pes, group = case["pes"], case["group_pes"]
    line = case.fit(Rect(0, 0, pes, 1), "pes")
    if group and group > pes:
        raise RowRefused(f"groups of {group} PEs are longer than the line of {pes} PEs")
    algorithm = "two_phase" if group else "chain"
    return case.cycles(Reduce(line, axis="x", words=case["words"], algorithm=algorithm, size=group or 0))


def two_broadcasts_cycles(case: RowCase) -> float:
    """Return the cycles of two broadcasts at the same time, one along each row and one along each column."""
    rect, words = case.rect(), case["words"]
    return case.cycles(Par((Broadcast(rect, axis="x", words=words), Broadcast(rect, axis="y", words=words, put=words))))


MODELS = {
    "vector_operation": RowModel(
        "a vector operation on one PE, without bank conflicts",
        {
            "op": one_of("operation", "fma", "add", "move"),
            "n": whole_number("elements", default=_LONG_VECTOR_ELEMENTS),
            "dtype": _DTYPE,
        },
        {"cycles": vector_cycles, "elem/cycle": vector_rate},
    ),
    "mapped_fma": RowModel(
        "a multiply-add on one PE as a loop over short vector operations, without bank conflicts",
        {
            "n": whole_number("elements"),
            "operation_elements": whole_number("elements of one operation"),
            "dtype": _DTYPE,
        },
        {"cycles": mapped_fma_cycles},
    ),
    "aligned_fma": RowModel(
        "a float32 multiply-add over two vectors in the memory of one PE, or with `simd64` a product of them",
        {
            "n": whole_number("elements"),
            "alignment": one_of("banks of the first words", "fast", "conflict", default="fast"),
            "simd64": one_of("a product of vectors that are half of the bank pairs apart", False, True, default=False),
        },
        {"cycles": aligned_operation_cycles},
    ),
    "bank_conflict": RowModel(
        "a long float32 multiply-add with bank conflicts, over one without", {}, {"x": bank_conflict_ratio}
    ),
    "relay": RowModel(
        "store-and-forward of words from PE to PE: a fixed time, a time per hop and a time per word and hop",
        {},
        {"cycles": relay_start_cycles, "cycles per hop": relay_hop_cycles, "cycles per word-hop": relay_word_cycles},
    ),
    "line_reduction": RowModel(
        "a reduction of float32 words along a line",
        {
            "pes": whole_number("PEs of the line"),
            "words": whole_number("words of each PE"),
            "group_pes": whole_number("PEs of a group of the two-phase reduction; a chain without it", default=None),
        },
        {"cycles": reduction_cycles},
    ),
    "two_broadcasts": RowModel(
        "a broadcast along each row and one along each column at the same time",
        {"grid": GRID, "words": whole_number("words of each broadcast")},
        {"cycles": two_broadcasts_cycles},
    ),
}
