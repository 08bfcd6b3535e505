"""Models of single mechanisms: vector operations of one PE, words between PEs, and reductions along a line."""

from collections.abc import Callable

from wse_sim.isa.core_program import Memory, Vector
from wse_sim.kernels.collective import scalar
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import WSE2, WSE3
from wse_sim.phase import Compute, Local, Phase, Reduce, Repeat, Seq, Shift
from wse_sim.validation.reading import CycleReading
from wse_sim.validation.rows import MeasuredRow

_SINGLE_PE = Rect(0, 0, 1, 1)
_LONG_VECTOR_ELEMENTS = 1 << 16


def vector_fma_cycles(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the cycles of a float32 multiply-add over two vectors on one PE of the WSE-2.

    The first words of the vectors are in the same pair of banks ("conflict") or in adjacent pairs. No core instruction
    processes two such elements at once, as `simd64` does, so that case is only priced at the rate of additions.
    """
    n = row.params["n"]
    if row.params["simd64"]:
        slowdown = WSE2.fma_f32_per_cycle / WSE2.add_f32_per_cycle
        return cycles(Compute(_SINGLE_PE, op="fma", vectors=1, length=n, itemsize=4, slowdown=slowdown), WSE2)
    pairs = WSE2.sram_banks // 2
    # The second vector follows the first, in the same pair of banks or in the next one.
    first, second = Memory(0), Memory(ceil_div(n, pairs) * pairs + (row.params["alignment"] != "conflict"))
    return cycles(Local(_SINGLE_PE, (Vector("fmac", operands=(first, second, 2.0, first), length=n),)), WSE2)


def _make_rate_model(op: str, itemsize: int) -> Callable[[MeasuredRow, CycleReading], float]:
    """Return a model of the elements per cycle of a long vector operation `op` on one PE of the WSE-3."""
    return lambda row, cycles: (
        _LONG_VECTOR_ELEMENTS
        / cycles(Compute(_SINGLE_PE, op=op, vectors=1, length=_LONG_VECTOR_ELEMENTS, itemsize=itemsize), WSE3)
    )


def local_fma_cycles(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the cycles of a multiply-add over 4,096 elements of 16 bits on one PE of the WSE-3."""
    return cycles(Compute(_SINGLE_PE, op="fma", vectors=1, length=4096, itemsize=2), WSE3)


def bank_conflict_ratio(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the time of a long float32 multiply-add with bank conflicts over that without, on the WSE-3."""
    slow = Compute(
        _SINGLE_PE, op="fma", vectors=1, length=_LONG_VECTOR_ELEMENTS, itemsize=4, slowdown=WSE3.conflict_slowdown
    )
    return cycles(slow, WSE3) / cycles(
        Compute(_SINGLE_PE, op="fma", vectors=1, length=_LONG_VECTOR_ELEMENTS, itemsize=4), WSE3
    )


def make_relay_phase(hops: int, words: int) -> Phase:
    """Return a store-and-forward program over `hops` hops: a PE receives all `words` and then sends them on.

    The last PE starts one more operation on the received words.
    """
    hop = Shift(Rect(0, 0, 2, 1), axis="x", words=words)
    return Seq((Repeat(hops, hop), scalar(Rect(0, 0, 2, 1), 1, WSE3.dsd_setup_cycles)))


def relay_word_cycles(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the cycles that each additional word adds to a store-and-forward relay."""
    # Use the slope of a line through times, as the campaign does, so that fixed costs cancel.
    return (cycles(make_relay_phase(1, 1001), WSE3) - cycles(make_relay_phase(1, 1), WSE3)) / 1000


def relay_hop_cycles(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the cycles that each additional PE adds to a store-and-forward relay, without those of its word."""
    return cycles(make_relay_phase(2, 1), WSE3) - cycles(make_relay_phase(1, 1), WSE3) - relay_word_cycles(row, cycles)


def relay_start_cycles(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the fixed cycles of a store-and-forward relay, extrapolated to no PE and no word."""
    return 2 * cycles(make_relay_phase(1, 1), WSE3) - cycles(make_relay_phase(2, 1), WSE3)


def reduction_cycles(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the cycles of a reduction on a line of the WSE-2, from its start to the last word at the root.

    It is a two-phase reduction in groups of S PEs or, without the parameter S, a chain. `cycles(phase, machine)`
    gives the number.
    """
    line, size = Rect(0, 0, row.params["P"], 1), row.params.get("S", 0)
    reduce = Reduce(line, axis="x", words=row.params["B"], algorithm="two_phase" if size else "chain", size=size)
    return cycles(reduce, WSE2)


MODELS = {
    "fmacs_": vector_fma_cycles,
    "wse3_copy_f16": _make_rate_model("move", 2),
    "wse3_copy_f32": _make_rate_model("move", 4),
    "wse3_fma_f16": _make_rate_model("fma", 2),
    "wse3_fma_f32": _make_rate_model("fma", 4),
    "wse3_f16_fma_4096_L0": local_fma_cycles,
    "wse3_bank_conflict": bank_conflict_ratio,
    "wse3_relay_slope_NB": relay_word_cycles,
    "wse3_relay_slope_N": relay_hop_cycles,
    "wse3_relay_const": relay_start_cycles,
    "reduce2p_": reduction_cycles,
    "reduce_chain_": reduction_cycles,
}
