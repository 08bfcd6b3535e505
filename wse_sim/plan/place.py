"""Placement: a rectangle for each kernel, and the memory of a PE that it takes.

Pipelined mode puts all kernels side by side. The mesh is cut in two, again and again, each time in proportion to the
shares of the two halves of the list, so that rectangles never overlap; shares start as the cycles on equal rectangles
and are corrected by the cycles that the stages then take. A kernel whose rectangle is too large (hops cost) uses a
part of it.
Streaming mode gives each kernel the whole mesh in turn, of which it again uses the best part.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lazytensor.errors import PlacementError
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.plan.wiring import Wiring
from wse_sim.price.cost import Cost

ROUNDS = 5
"""Rounds of cutting and correcting; 16 made the slowest stage of MLPs of 20 to 2,000 kernels at most 4 % faster."""
# A full correction would take cycles as inverse to the area; hops and whole tiles make them less than that.
_DAMPING = 0.7
_STREAM_HINT = "Use weight-streaming mode, a smaller batch or a larger machine."

Price = Callable[[int, int, int], Cost]
"""(instruction, width, height) -> cost of its stage on a rectangle of that size."""


@dataclass(frozen=True)
class Placement:
    """For each instruction its rectangle, its stage's cost, and bytes on a PE (None and zero where there is none)."""

    mode: str
    rects: tuple[Rect | None, ...]
    costs: tuple[Cost, ...]
    bytes_per_pe: tuple[int, ...]

    @property
    def peak_bytes_per_pe(self) -> int:
        """Bytes on the fullest PE."""
        return max(self.bytes_per_pe, default=0)


@dataclass(frozen=True)
class _Case:
    """What a pipelined placement starts from."""

    wiring: Wiring
    demand_bytes: Sequence[int]
    price: Price
    machine: Machine

    def least_area(self, i: int) -> int:
        """PEs that kernel `i` needs for its memory."""
        return _least_area(self.demand_bytes[i], self.machine)

    def has_room(self, slots: Mapping[int, Rect]) -> bool:
        return all(rect.area >= self.least_area(i) for i, rect in slots.items())

    def parts(self, slots: Mapping[int, Rect]) -> dict[int, Rect]:
        """The best part of each slot."""
        return {i: best_part(i, r, self.demand_bytes[i], self.price, self.machine) for i, r in slots.items()}

    def slowest_cycles(self, rects: Mapping[int, Rect]) -> int:
        return max((self.price(i, r.width, r.height).cycles for i, r in rects.items()), default=0)


def place_pipelined(wiring: Wiring, demand_bytes: Sequence[int], price: Price, machine: Machine) -> Placement:
    """Rectangles side by side, the slowest stage as fast as the rounds get it.

    `demand_bytes` says how much each instruction holds, over all its PEs. Raises PlacementError if that does not fit,
    or if the mesh is so full that no round cuts it into large enough rectangles.
    """
    case = _Case(wiring, demand_bytes, price, machine)
    _require_room(case)
    tried = list(_attempts(case)) if wiring.kernels else [{}]
    # Rounds are tried and the best is kept: corrections do not always get better from one to the next.
    roomy = [case.parts(slots) for slots in tried if case.has_room(slots)]
    if not roomy:
        _refuse_tight(case, tried[-1])
    return _placement("pipelined", wiring, min(roomy, key=case.slowest_cycles), demand_bytes, price)


def _attempts(case: _Case) -> Iterator[dict[int, Rect]]:
    """Slots for all kernels: by shares of time, corrected from round to round, and at last by memory alone."""
    mesh, kernels = Rect.whole(case.machine), case.wiring.kernels
    # Memory comes first: a kernel gets the PEs that hold its data, and only what is left over is shared out by time.
    least = {i: case.least_area(i) for i in kernels}
    shares = _first_shares(kernels, case.price, mesh)
    for _ in range(ROUNDS):
        slots = cut(mesh, kernels, _areas(shares, least, mesh.area), least)
        yield slots
        _correct(case, shares, least, slots)
    # Last resort for full meshes: areas by memory alone, without regard to time.
    yield cut(mesh, kernels, {i: float(max(1, case.demand_bytes[i])) for i in kernels})


def place_streaming(wiring: Wiring, on_wafer: Sequence[int], price: Price, machine: Machine) -> Placement:
    """Each kernel `on_wafer` on the part of the whole mesh where it is fastest; memory is the mode's business."""
    mesh = Rect.whole(machine)
    rects = {i: best_part(i, mesh, 0, price, machine) for i in on_wafer}
    return _placement("streaming", wiring, rects, [0] * len(wiring.program.instrs), price)


def _placement(
    mode: str, wiring: Wiring, rects: dict[int, Rect], demand_bytes: Sequence[int], price: Price
) -> Placement:
    every = range(len(wiring.program.instrs))
    return Placement(
        mode,
        tuple(rects.get(i) for i in every),
        tuple(price(i, rects[i].width, rects[i].height) if i in rects else Cost() for i in every),
        tuple(ceil_div(demand_bytes[i], rects[i].area) if i in rects else 0 for i in every),
    )


def _least_area(demand: int, machine: Machine) -> int:
    return max(1, ceil_div(demand, machine.usable_bytes_per_pe))


def _require_room(case: _Case) -> None:
    kernels, machine = case.wiring.kernels, case.machine
    needed = sum(case.least_area(i) for i in kernels)
    if needed <= machine.usable_pes:
        return
    largest = max(kernels, key=lambda i: case.demand_bytes[i])
    instr = case.wiring.program.instrs[largest]
    raise PlacementError(
        f"the program needs {needed:,} PEs for its memory and {machine.name} has {machine.usable_pes:,}; the largest "
        f"kernel, {instr.label}, holds {case.demand_bytes[largest]:,} bytes at {machine.usable_bytes_per_pe:,} usable "
        "bytes a PE",
        where=instr.where,
        hint=_STREAM_HINT,
    )


def _refuse_tight(case: _Case, slots: Mapping[int, Rect]) -> None:
    worst = max(slots, key=lambda i: case.demand_bytes[i] / slots[i].area)
    instr = case.wiring.program.instrs[worst]
    needed = ceil_div(case.demand_bytes[worst], slots[worst].area)
    raise PlacementError(
        f"{instr.label} needs {needed:,} bytes a PE on {slots[worst]} and the limit is "
        f"{case.machine.usable_bytes_per_pe:,}: the mesh of {case.machine.name} is too full to cut it into rectangles",
        where=instr.where,
        hint=_STREAM_HINT,
    )


def _first_shares(kernels: Sequence[int], price: Price, mesh: Rect) -> dict[int, float]:
    """The cycles of each kernel on an equal part of the mesh: its work, with what it sends."""
    # As many equal cells as a square needs to hold all kernels.
    parts = math.isqrt(max(1, len(kernels) - 1)) + 1
    width, height = max(1, mesh.width // parts), max(1, mesh.height // parts)
    return {i: float(max(1, price(i, width, height).cycles)) for i in kernels}


def _areas(shares: dict[int, float], least: dict[int, int], area: int) -> dict[int, float]:
    """What memory needs, and the rest of the mesh by shares."""
    # Nothing to spare means that memory has taken all; then the cut follows the least areas.
    spare = max(0, area - sum(least.values()))
    total = sum(shares.values())
    return {i: least[i] + spare * share / total for i, share in shares.items()}


def _correct(case: _Case, shares: dict[int, float], least: dict[int, int], slots: Mapping[int, Rect]) -> None:
    """Give slow stages more and fast ones less; give a slot that was cut too small for its memory some more."""
    cycles = {i: max(1, case.price(i, r.width, r.height).cycles) for i, r in slots.items()}
    mean = sum(cycles.values()) / len(cycles)
    for i, own_cycles in cycles.items():
        shares[i] *= (own_cycles / mean) ** _DAMPING
        # Cuts are whole rows and columns, so a slot may come out smaller than asked for: ask for a tenth more next
        # time.
        if slots[i].area < case.least_area(i):
            least[i] += math.ceil(least[i] / 10)


def best_part(i: int, slot: Rect, demand: int, price: Price, machine: Machine) -> Rect:
    """Halve the sides of `slot` as long as that makes kernel `i` faster and leaves room for its `demand` bytes."""
    least = _least_area(demand, machine)
    width, height = slot.width, slot.height
    # Greedy and not exhaustive: every size looked at is a phase program to be priced, and this is asked for each kernel
    # in each round.
    while True:
        halves = [(ceil_div(width, 2), height), (width, ceil_div(height, 2))]
        # Smaller rectangles have fewer bytes in all, so memory bounds the halving.
        roomy = [(w, h) for w, h in halves if w * h >= least]
        best = min(((price(i, w, h).cycles, w, h) for w, h in roomy), default=None)
        if best is None or best[0] >= price(i, width, height).cycles:
            return Rect(slot.x, slot.y, width, height)
        _, width, height = best


def cut(
    mesh: Rect, items: Sequence[int], areas: Mapping[int, float], least: Mapping[int, int] | None = None
) -> dict[int, Rect]:
    """Rectangles without overlap that fill `mesh`, one for each item, roughly in proportion to `areas`.

    Needs at least one PE for each item. Areas below `least` are avoided, but possible where it is tight.
    """
    least = least or dict.fromkeys(items, 1)
    rects: dict[int, Rect] = {}
    waiting = [(mesh, tuple(items))] if items else []
    while waiting:
        rect, group = waiting.pop()
        if len(group) == 1:
            rects[group[0]] = rect
        else:
            waiting += _halve(rect, group, areas, least)
    return rects


_Half = tuple[Rect, tuple[int, ...]]


def _halve(
    rect: Rect, group: tuple[int, ...], areas: Mapping[int, float], least: Mapping[int, int]
) -> tuple[_Half, _Half]:
    """Cut across the longer side, or across the shorter if only that leaves every half its least area."""
    one_each = dict.fromkeys(group, 1)
    is_wide = rect.width >= rect.height
    # Across the longer side first: near-squares keep collectives short. At worst every kernel gets a PE, and memory is
    # checked later.
    for needed, cuts_x in ((least, is_wide), (least, not is_wide), (one_each, is_wide)):
        length, across = (rect.width, rect.height) if cuts_x else (rect.height, rect.width)
        if place := _best_cut(group, areas, needed, length, across):
            at, n = place
            return (_part(rect, cuts_x, 0, at), group[:n]), (_part(rect, cuts_x, at, length), group[n:])
    raise PlacementError(f"{len(group)} kernels do not fit on {rect}", hint=_STREAM_HINT)


def _best_cut(
    group: tuple[int, ...], areas: Mapping[int, float], needed: Mapping[int, int], length: int, across: int
) -> tuple[int, int] | None:
    """Where to cut a side of `length`, and how many items go before the cut: nearest to half of the area."""
    total, total_needed = sum(areas[i] for i in group), sum(needed[i] for i in group)
    best: tuple[float, int, int] | None = None
    ahead, ahead_needed = 0.0, 0
    # Kernels keep the order of the program, so neighbours in it stay neighbours on the mesh.
    for n, i in enumerate(group[:-1], 1):
        ahead += areas[i]
        ahead_needed += needed[i]
        # Where a cut leaves both sides enough whole rows for the least areas of their kernels.
        low, high = ceil_div(ahead_needed, across), length - ceil_div(total_needed - ahead_needed, across)
        off = abs(ahead - total / 2)
        if low <= high and (best is None or off < best[0]):
            best = off, min(max(round(length * ahead / total), low), high), n
    return best[1:] if best else None


def _part(rect: Rect, cuts_x: bool, start: int, end: int) -> Rect:
    if cuts_x:
        return Rect(rect.x + start, rect.y, end - start, rect.height)
    return Rect(rect.x, rect.y + start, rect.width, end - start)
