"""Models of single mechanisms: vector operations of one PE, words between PEs, and collectives along a line."""

from wse_sim.isa.core_program import ITEM_BYTES, Memory, Vector
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


def _vector_phase(case: RowCase, slowdown: float = 1) -> Phase:
    itemsize = ITEM_BYTES[case["dtype"]]
    return Compute(_SINGLE_PE, op=case["op"], vectors=1, length=case["n"], itemsize=itemsize, slowdown=slowdown)


def aligned_fma_cycles(case: RowCase) -> float:
    """Return the cycles of a float32 multiply-add over two vectors in the memory of one PE.

    The first words of the vectors are in the same pair of banks ("conflict") or in adjacent pairs ("fast"). No core
    instruction processes two such elements at once, as `simd64` does, so that case is only priced at the rate of
    additions.
    """
    n, machine = case["n"], case.machine
    if case["simd64"]:
        slowdown = machine.fma_f32_per_cycle / machine.add_f32_per_cycle
        return case.cycles(Compute(_SINGLE_PE, op="fma", vectors=1, length=n, itemsize=4, slowdown=slowdown))
    pairs = max(1, machine.sram_banks // 2)
    # The second vector follows the first, in the same pair of banks or in the next one.
    first, second = Memory(0), Memory(ceil_div(n, pairs) * pairs + (case["alignment"] != "conflict"))
    return case.cycles(Local(_SINGLE_PE, (Vector("fmac", operands=(first, second, 2.0, first), length=n),)))


def bank_conflict_ratio(case: RowCase) -> float:
    """Return the time of a long float32 multiply-add with bank conflicts over that without."""
    slow, fast = (
        Compute(_SINGLE_PE, op="fma", vectors=1, length=_LONG_VECTOR_ELEMENTS, itemsize=4, slowdown=slowdown)
        for slowdown in (case.machine.conflict_slowdown, 1)
    )
    return case.cycles(slow) / case.cycles(fast)


def _relay_cycles(case: RowCase, hops: int, words: int) -> float:
    """Return the cycles of a store-and-forward program over `hops` hops.

    A PE receives all words and then sends them on. The last PE starts one more operation on the received words.
    """
    hop = Shift(Rect(0, 0, 2, 1), axis="x", words=words)
    last = scalar(Rect(0, 0, 2, 1), 1, case.machine.dsd_setup_cycles)
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
    "aligned_fma": RowModel(
        "a float32 multiply-add over two vectors in the memory of one PE",
        {
            "n": whole_number("elements"),
            "alignment": one_of("banks of the first words", "fast", "conflict", default="fast"),
            "simd64": one_of("two elements at once", False, True, default=False),
        },
        {"cycles": aligned_fma_cycles},
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
