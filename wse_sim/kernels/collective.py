"""Collectives as programs run them: a launch, then the moves."""

from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import AllReduce, Broadcast, Compute, Phase, Reduce, Seq, Shift

CHAIN_PES = 32
"""Lines of up to this many PEs are summed by a chain, in which each core has a single operation that nothing delays."""


def sum_algorithm(line: int) -> str:
    """Return the algorithm that sums the partial results of a product along a line of `line` PEs: "chain" or
    "two_phase".
    """
    return "chain" if line <= CHAIN_PES else "two_phase"


def launch(rect: Rect, machine: Machine) -> Phase:
    """Return a phase that takes the machine's `launch_cycles`, the time in a program's tasks before a collective
    starts.
    """
    return scalar(rect, 1, machine.launch_cycles)


def scalar(rect: Rect, times: int, cycles: float) -> Phase:
    """Return a phase in which every PE of `rect` runs `times` x `cycles` cycles of scalar code."""
    return Compute(rect, "move", vectors=times, length=0, itemsize=4, scalar_cycles=cycles)


def centred_all_reduce(rect: Rect, axis: str, count: int, machine: Machine) -> Phase:
    """Return an all-reduce of `count` words along `axis`, by way of the middle of every line.

    Both halves are reduced towards the middle by a two-phase reduction, the two sums are added, and the total is
    broadcast to both halves. So words travel half the line in each direction, as in WaferLLM's two-level tree (OSDI
    2025) and the solver on the WSE-1 (Rocki et al., SC20). Lines of fewer than 4 PEs use an `AllReduce`. The phase is
    only meant to be priced.
    """
    length = rect.width if axis == "x" else rect.height
    begin = launch(rect, machine)
    # Too short for two halves of two PEs.
    if length < 4:
        return Seq((begin, AllReduce(rect, axis=axis, words=count)))
    # For the price: the halves end next to each other in the middle, so a shift by one PE combines the two sums.
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
    """Return an all-reduce of `count` words along `axis`: a launch, a chain over the whole line, then a broadcast."""
    chain = Reduce(rect, axis=axis, words=count, algorithm="chain")
    return Seq((launch(rect, machine), chain, Broadcast(rect, axis=axis, words=count)))
