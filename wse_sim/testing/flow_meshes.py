"""Hypothesis strategies for random valid meshes: flows of wavelets, each on a separate colour.

A flow follows a path that does not cross itself. Several cores of the path may send, one after another by switches.
Several may receive, since routers copy wavelets. A control wavelet may follow the words and may start a task at the
receivers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wse_sim.fabric import RAMP, Builder, Memory, Mesh, Received, Sent
from wse_sim.fabric.mesh import DIRECTION_OFFSETS
from wse_sim.isa.core_program import CoreProgram
from wse_sim.machine import WSE2, WSE3, Machine

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as e:
    raise ModuleNotFoundError(
        "wse_sim.testing needs Hypothesis: pip install 'lazywafer[testing]'", name="hypothesis"
    ) from e

REGION_WORDS = 64
"""Words of memory for each flow; the last one is written by the task of a control wavelet."""
FLOW_DTYPES = ("float32", "float32", "float16", "bfloat16", "uint16")
TURNED_DIRECTIONS = (3, 2, 1, 0, 4)
"""For each direction, its counterpart in a mesh with columns and rows exchanged."""
CoreCoordinates = tuple[int, int]
"""The column and row of a core."""


@dataclass(frozen=True)
class Flow:
    """Wavelets on one colour along a path.

    - `colour`: the colour
    - `path`: cores in order
    - `moves`: the direction from each core of the path to the next
    - `words`: elements that each sender sends
    - `dtype`: their type
    - `senders`: cores that send; the last one on the path sends first
    - `takes`: receiver -> number of elements that it waits for
    - `ends_with`: "" for nothing, "nothing" for a control wavelet without a task, "task" for one that starts a task
    - `by_control`: True if control wavelets advance the switches, False if the sends do
    """

    colour: int
    path: tuple[CoreCoordinates, ...]
    moves: tuple[int, ...]
    words: int
    dtype: str
    senders: tuple[CoreCoordinates, ...]
    takes: dict[CoreCoordinates, int]
    ends_with: str = ""
    by_control: bool = False

    @property
    def per_wavelet(self) -> int:
        """Elements in one wavelet."""
        return 1 if self.dtype == "float32" else 2

    @property
    def wavelets(self) -> int:
        """Data wavelets of one sender."""
        return -(-self.words // self.per_wavelet)

    def data(self, sender: CoreCoordinates) -> np.ndarray:
        """Return the elements that a sender sends: small whole numbers, exact in every type, and other ones
        for each sender.
        """
        first = 1 + 20 * self.senders.index(sender)
        return np.arange(first, first + self.words) % 200

    def arriving(self) -> np.ndarray:
        """Return all elements in the order of arrival: those of the last sender first, since it is nearest to the end.

        Each sender's elements are padded with a zero to whole wavelets.
        """
        parts = []
        # A router first forwards the words of its own core, so those of the last sender on the path arrive first.
        for sender in reversed(self.senders):
            part = np.zeros(self.wavelets * self.per_wavelet)
            part[: self.words] = self.data(sender)
            parts.append(part)
        return np.concatenate(parts)


@st.composite
def paths(draw: st.DrawFn, width: int, height: int) -> tuple[tuple[CoreCoordinates, ...], tuple[int, ...]]:
    """Draw a path over the mesh that does not cross itself; return (cores, directions).

    It has 1 to 13 cores, and a direction from each core but the last to the next one.
    """
    cells = [(draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1)))]
    moves = []
    for move in draw(st.lists(st.integers(0, 3), max_size=12)):
        # A path that crosses itself would have two sources at one router, which a mesh rejects.
        x, y = cells[-1][0] + DIRECTION_OFFSETS[move][0], cells[-1][1] + DIRECTION_OFFSETS[move][1]
        if 0 <= x < width and 0 <= y < height and (x, y) not in cells:
            cells.append((x, y))
            moves.append(move)
    return tuple(cells), tuple(moves)


@st.composite
def flows(draw: st.DrawFn, width: int, height: int, even: bool) -> list[Flow]:
    """Draw up to four flows over a mesh of `width` x `height` cores, each on another colour; the list may be empty.

    If `even` is true, every receiver waits for exactly the number of elements that arrive. Otherwise some wait for a
    wavelet more or less.
    """
    listed = []
    for colour in draw(st.lists(st.integers(0, 23), min_size=1, max_size=4, unique=True)):
        path, moves = draw(paths(width, height))
        if not moves:
            continue
        # The last core of a path only receives: it has no route for words that it sends.
        more_senders = draw(st.lists(st.sampled_from(path[:-1]), max_size=2))
        senders = tuple(cell for cell in path if cell in {path[0], *more_senders})
        after = path[path.index(senders[-1]) + 1 :]
        words, dtype = draw(st.integers(1, 12)), draw(st.sampled_from(FLOW_DTYPES))
        # After the last sender on the path all words share the route, so all receivers get the same words.
        taps = set(draw(st.lists(st.sampled_from(after), max_size=3))) | {path[-1]}
        flow = Flow(colour, path, moves, words, dtype, senders, {}, *draw(flow_ends(len(senders))))
        total = len(flow.arriving())
        # Sometimes a receiver waits for one element too many or too few: engines have to agree on such runs too.
        surplus = st.just(0) if even else st.sampled_from([0, 0, 0, 0, 0, 0, 1, -1])
        takes = {cell: max(flow.per_wavelet, total + flow.per_wavelet * draw(surplus)) for cell in sorted(taps)}
        listed.append(Flow(**{**vars(flow), "takes": takes}))
    return listed


def flow_ends(senders: int) -> st.SearchStrategy[tuple[str, bool]]:
    """Return a strategy for how a flow ends and what advances its switches: (`Flow.ends_with`, `Flow.by_control`).

    With one sender no switch advances, and the second is False.
    """
    # With a single sender no switch has to advance.
    turned = st.booleans() if senders > 1 else st.just(False)
    return st.tuples(st.sampled_from(["", "", "nothing", "task"]), turned)


@st.composite
def meshes(draw: st.DrawFn, even: bool) -> "FlowMesh":
    """Draw a `FlowMesh` on a mesh of up to 5 x 5 cores.

    If `even` is true, every operation is asynchronous and receivers wait for exactly the elements that arrive.
    """
    width, height = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    machine, drawn = draw(st.sampled_from([WSE2, WSE3])), draw(flows(width, height, even))
    orders = {c: draw(st.permutations(a)) for c, a in _core_actions(drawn).items()}
    is_async = {c: [even or draw(st.booleans()) for _ in actions] for c, actions in orders.items()}
    return FlowMesh(machine=machine, width=width, height=height, flows=tuple(drawn), orders=orders, is_async=is_async)


@dataclass(frozen=True)
class FlowMesh:
    """A description of a random mesh; `mesh` builds it.

    - `machine`, `width`, `height`: the machine and the cores
    - `flows`: the flows of wavelets
    - `orders`: core -> its actions as pairs (flow, "send" or "take"), in program order
    - `is_async`: core -> for each action, whether it is asynchronous
    """

    machine: Machine
    width: int
    height: int
    flows: tuple[Flow, ...]
    orders: dict[CoreCoordinates, list[tuple[Flow, str]]]
    is_async: dict[CoreCoordinates, list[bool]]

    def mesh(self, copies: int = 1, is_turned: bool = False) -> Mesh:
        """Return the mesh with its routes, data and programs, with `copies` of it one below the other.

        If `is_turned` is true, columns and rows are exchanged, so the copies are side by side.
        """
        shape = (self.width, self.height * copies)
        mesh = Mesh(self.machine, *(shape[::-1] if is_turned else shape))
        # Copies are independent: tests compare one with many of them.
        rows = self.height * np.arange(copies)

        def places(cell: CoreCoordinates) -> tuple[Any, Any]:
            return (cell[1] + rows, cell[0]) if is_turned else (cell[0], cell[1] + rows)

        for i, flow in enumerate(self.flows):
            for cell, source, targets, position in _flow_routes(flow):
                turned = [TURNED_DIRECTIONS[d] if is_turned else d for d in (source, *targets)]
                mesh.route(flow.colour, *places(cell), turned[0], turned[1:], position)
            for cell in flow.senders:
                # Addresses count elements, and 16-bit types have two in a word.
                first = i * REGION_WORDS * 4 // {"float32": 4}.get(flow.dtype, 2)
                mesh.load(flow.data(cell), *places(cell), first, flow.dtype)
        for cell, actions in self.orders.items():
            mesh.run(self._program(cell, actions), *places(cell))
        return mesh

    def _program(self, cell: CoreCoordinates, actions: list[tuple[Flow, str]]) -> CoreProgram:
        """Return the program of a core: its `actions` in order, and tasks for control wavelets and for the
        ends of its sends.
        """
        builder = Builder(f"at {cell}", REGION_WORDS * len(self.flows))
        called = []
        for (flow, verb), is_async in zip(actions, self.is_async[cell], strict=True):
            i = self.flows.index(flow)
            memory = Memory(i * REGION_WORDS * (1 if flow.dtype == "float32" else 2), dtype=flow.dtype)
            if verb == "take":
                builder.move(memory, Received(flow.colour, flow.dtype), flow.takes[cell], asynchronous=is_async)
                called += [i] if flow.ends_with == "task" else []
            elif verb == "send":
                self._send(builder, flow, memory, cell, is_async)
        # The main task comes first and starts; the others are started by a control wavelet or by the end of a send.
        for i in called:
            builder.task(f"task {i}")
            builder.move(Memory((i + 1) * REGION_WORDS - 1), 1.0, 1)
        for i, flow in enumerate(self.flows):
            if cell in flow.senders:
                builder.task(f"behind {i}")
                _send_flow_end(builder, flow, cell, i)
        return builder.build()

    def _send(self, builder: Builder, flow: Flow, memory: Memory, cell: CoreCoordinates, is_async: bool) -> None:
        """Append the send of a flow's words; on completion it activates a task that sends the end of the flow.

        The send also advances the switch, except at the first sender of the path or if control wavelets advance it.
        """
        turns = cell != flow.senders[0] and not flow.by_control
        task = f"behind {self.flows.index(flow)}"
        builder.move(
            Sent(flow.colour, flow.dtype), memory, flow.words, asynchronous=is_async, advance=turns, activate=task
        )


def _send_flow_end(builder: Builder, flow: Flow, cell: CoreCoordinates, i: int) -> None:
    """Append what follows the words of a sender, which may be nothing.

    At the first sender of the path, whose words arrive last, it is the control wavelet of `ends_with`. At the others it
    is an advance of the switch, if `by_control` is true.
    """
    if cell != flow.senders[0]:
        if flow.by_control:
            builder.control(flow.colour, ["advance"])
    elif flow.ends_with:
        builder.control(flow.colour, task=f"task {i}" if flow.ends_with == "task" else "")


def _core_actions(flows: Sequence[Flow]) -> dict[CoreCoordinates, list[tuple[Flow, str]]]:
    """Return the actions of each core as pairs (flow, "send" or "take"), for cores that have any."""
    todo: dict[CoreCoordinates, list[tuple[Flow, str]]] = {}
    for flow in flows:
        for cell in flow.senders:
            todo.setdefault(cell, []).append((flow, "send"))
        for cell in flow.takes:
            todo.setdefault(cell, []).append((flow, "take"))
    return todo


def _flow_routes(flow: Flow) -> Iterator[tuple[CoreCoordinates, int, list[int], int]]:
    """Yield (core, source, targets, switch position) for each route of a flow; source and targets are directions or
    RAMP.

    A sender's router first (position 0) forwards the words of its own core, and then (position 1) those of the cores
    before it on the path. All other routers have position 0 only.
    """
    for i, cell in enumerate(flow.path):
        targets = [flow.moves[i]] if i < len(flow.moves) else []
        if cell in flow.takes:
            targets.append(RAMP)
        behind = (flow.moves[i - 1] + 2) % 4 if i else RAMP
        sources = [RAMP, behind] if cell in flow.senders[1:] else [behind]
        for position, source in enumerate(sources):
            yield cell, source, targets, position
