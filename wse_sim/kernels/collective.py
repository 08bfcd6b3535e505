"""Collectives as programs run them: a launch, then the words."""

from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import AllReduce, Broadcast, Compute, Phase, Reduce, Seq, Shift

CHAIN_PES = 32
"""PEs of a line up to which sums are passed on in a chain: each core has one operation, which nothing holds up."""


def sum_algorithm(line: int) -> str:
    """Return the reduction by which sums of a product leave a line of so many PEs."""
    return "chain" if line <= CHAIN_PES else "two_phase"


def launch(rect: Rect, machine: Machine) -> Phase:
    """What passes in the tasks of a program before a collective starts."""
    return scalar(rect, 1, machine.launch_cycles)


def scalar(rect: Rect, times: int, cycles: float) -> Phase:
    """Scalar code of `cycles`, `times` over."""
    return Compute(rect, "move", vectors=times, length=0, itemsize=4, scalar_cycles=cycles)


def centred_all_reduce(rect: Rect, axis: str, count: int, machine: Machine) -> Phase:
    """Both halves of every line are reduced towards its middle in two phases, added, and given back to both halves.

    So the words of WaferLLM's two-level tree travel half the line each way (OSDI 2025), as do those of the solver on
    the WSE-1 (Rocki et al., SC20).
    """
    length = rect.width if axis == "x" else rect.height
    begin = launch(rect, machine)
    # Too short for two halves of two.
    if length < 4:
        return Seq((begin, AllReduce(rect, axis=axis, words=count)))
    # As a price: the halves end next to each other in the middle, so a shift by one PE brings the two sums together.
    halves = Reduce(rect, axis=axis, words=count, groups=2, algorithm="two_phase")
    return Seq(
        (
            begin,
            halves,
            Shift(rect, axis=axis, words=count, put=count),
            Broadcast(rect, axis=axis, words=count, groups=2),
        )
    )


def chain_all_reduce(rect: Rect, axis: str, count: int, machine: Machine) -> Phase:
    """A pipeline of additions along the whole line, and a broadcast back."""
    chain = Reduce(rect, axis=axis, words=count, algorithm="chain")
    return Seq((launch(rect, machine), chain, Broadcast(rect, axis=axis, words=count)))
