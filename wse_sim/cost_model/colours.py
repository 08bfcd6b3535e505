"""Count the colours that a phase program needs within its rectangle: those that its moves have routes of on one router.

A barrier separates the parts of a sequence, and each part has new routes. Phases that run at the same time need all
their colours at once. `tests/wse_sim/cost_model/test_colours.py` compares each count with the routes of the lowering.
"""

from functools import lru_cache

from wse_sim.cost_model.collectives import shift_pairs
from wse_sim.cost_model.reduction_tree import choose_all_reduce, choose_plane, choose_reduce, generate_tree
from wse_sim.fabric.lowering.lines import colour_paths
from wse_sim.machine import Machine
from wse_sim.phase import AllReduce, Broadcast, Par, Phase, Reduce, Repeat, Rounds, Seq, Shift, Stream

RING, SNAKE = "ring", "snake"
STREAM_COLOURS = {"in": 2, "out": 1}
"""Colours of a stream by direction.

Into a rectangle cores forward words on two colours in turn. Out of it one colour is enough: switches let the words of
cores farther away pass.
"""


def count_colours(phase: Phase, machine: Machine) -> int:
    """Return an upper bound of the colours that `phase` needs on its fullest router.

    It is the maximum over parts that run one after another, and the sum over the parts of a `Par`, whether or not they
    share cores. Local work, and moves without words, need none.
    """
    match phase:
        # Routes of a part are set up after the previous part has finished, so its colours are free again.
        case Seq(parts):
            return max((count_colours(part, machine) for part in parts), default=0)
        case Rounds():
            return max((count_colours(part, machine) for part, _ in phase.priced_rounds), default=0)
        case Repeat(times, body):
            return count_colours(body, machine) if times else 0
        # Parts of a Par may be on the same cores; this bound assumes that they are.
        case Par(parts):
            return sum(count_colours(part, machine) for part in parts)
        case Stream():
            return STREAM_COLOURS[phase.direction] if phase.bytes else 0
        case Shift() | Broadcast() | Reduce() | AllReduce():
            return _move_colours(phase, machine) if phase.words else 0
        case _:
            return 0


def _move_colours(phase: Shift | Broadcast | Reduce | AllReduce, machine: Machine) -> int:
    """Return the colours of a shift, broadcast or reduction on its fullest router; 0 if its lines have one PE."""
    rect = phase.rect
    if isinstance(phase, Shift):
        return _shift_colours(rect.width if phase.axis == "x" else rect.height, phase.hops, phase.wrap)
    if phase.axis == "xy":
        return _plane_colours(phase, machine)
    pes = (rect.width if phase.axis == "x" else rect.height) // phase.groups
    # A line of one PE sends nothing.
    if pes == 1:
        return 0
    if isinstance(phase, Broadcast):
        return 1
    if isinstance(phase, Reduce):
        name = phase.algorithm or choose_reduce(pes, phase.words, machine)
        return _line_colours(pes, phase.words, name, machine, phase.size)
    name = phase.algorithm or choose_all_reduce(pes, phase.words, machine)
    # The broadcast of the sums needs one more colour.
    return _shift_colours(pes, 1, "folded") if name == RING else 1 + _line_colours(pes, phase.words, name, machine)


def _plane_colours(phase: Broadcast | Reduce | AllReduce, machine: Machine) -> int:
    """Return the colours of a move over a whole rectangle (`axis` "xy") on its fullest router; 0 for one PE.

    Reductions along rows and along a column count together, since no barrier separates them. The broadcast of an
    all-reduce needs one more. Of two rings the larger number counts.
    """
    rect, words = phase.rect, phase.words
    if rect.area == 1:
        return 0
    if isinstance(phase, Broadcast):
        return 1
    back = int(isinstance(phase, AllReduce))
    # Rings along rows, a barrier, and rings along columns.
    if phase.algorithm == RING:
        return max(_shift_colours(rect.width, 1, "folded"), _shift_colours(rect.height, 1, "folded"))
    if choose_plane(rect, words, phase.algorithm, machine) == SNAKE:
        return back + min(2, rect.area - 1)
    lines = [n for n in (rect.width, rect.height) if n > 1]
    # Rows first, and then a column: there is no barrier between them, so the routes of both exist at once.
    names = (phase.algorithm or choose_reduce(n, words, machine) for n in lines)
    return back + sum(_line_colours(n, words, name, machine) for n, name in zip(lines, names, strict=True))


@lru_cache(maxsize=1024)
def _shift_colours(pes: int, hops: int, wrap: str) -> int:
    return _path_colours(shift_pairs(pes, hops, wrap))


@lru_cache(maxsize=4096)
def _line_colours(pes: int, words: int, name: str, machine: Machine, size: int = 0) -> int:
    """Return the colours of a reduction along a line of `pes` PEs by the algorithm `name`.

    "two_phase" has groups of `size` PEs, or of the default size if it is 0. Results are cached.
    """
    if name == "star":
        return 1
    # The pairs of each level are twice as far apart, and their paths cross the routers of the previous level.
    if name == "tree":
        return (pes - 1).bit_length()
    # A core receives on one colour and sends on the other, in turn along the line.
    if name == "chain":
        return min(2, pes - 1)
    if name == "two_phase":
        size = size or max(1, round(pes**0.5))
        inside = min(2, size - 1)
        return inside + min(2, -(-pes // size) - 1)
    # A generated tree is irregular: its paths are coloured in the same way as in the lowering.
    parents = generate_tree(pes, words, machine)
    return _path_colours(tuple((i, p) for i, p in enumerate(parents) if p >= 0))


def _path_colours(pairs: tuple[tuple[int, int], ...]) -> int:
    return max(colour_paths(pairs), default=-1) + 1
