"""Random legal meshes for the laws of the fabric: flows of wavelets on colours of their own, who sends and who takes.

A flow goes along a path that does not meet itself. Several cores of the path may send, one after another by switches;
several may receive, since routers copy. Behind the words a control wavelet may go, which may start a task at receivers.
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
"""Words of memory for each flow; the last one is for the task of a control wavelet."""
FLOW_DTYPES = ("float32", "float32", "float16", "bfloat16", "uint16")
TURNED_DIRECTIONS = (3, 2, 1, 0, 4)
"""Each direction, where columns become rows."""
CoreCoordinates = tuple[int, int]


@dataclass(frozen=True)
class Flow:
    """A colour along a path. `senders` send `words` elements each, the last of them on the path first.

    `takes` says how many elements each of its receivers waits for; `ends_with` is "", "nothing" or "task": a control
    wavelet goes behind the words, and so on. `by_control` says whether control wavelets turn the switches.
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
        """Elements that travel in one wavelet."""
        return 1 if self.dtype == "float32" else 2

    @property
    def wavelets(self) -> int:
        """Data wavelets of one sender."""
        return -(-self.words // self.per_wavelet)

    def data(self, sender: CoreCoordinates) -> np.ndarray:
        """What a sender has: small whole numbers, exact in every type."""
        first = 1 + 20 * self.senders.index(sender)
        return np.arange(first, first + self.words) % 200

    def arriving(self) -> np.ndarray:
        """All elements as they come by, with what fills the last wavelet of a sender."""
        parts = []
        # A router first takes what its own core sends, so that the last sender on the path comes first.
        for sender in reversed(self.senders):
            part = np.zeros(self.wavelets * self.per_wavelet)
            part[: self.words] = self.data(sender)
            parts.append(part)
        return np.concatenate(parts)


@st.composite
def paths(draw: st.DrawFn, width: int, height: int) -> tuple[tuple[CoreCoordinates, ...], tuple[int, ...]]:
    """A walk over the mesh that never meets itself, and its directions."""
    cells = [(draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1)))]
    moves = []
    for move in draw(st.lists(st.integers(0, 3), max_size=12)):
        # A path that met itself would have two sources at one router, which a mesh refuses.
        x, y = cells[-1][0] + DIRECTION_OFFSETS[move][0], cells[-1][1] + DIRECTION_OFFSETS[move][1]
        if 0 <= x < width and 0 <= y < height and (x, y) not in cells:
            cells.append((x, y))
            moves.append(move)
    return tuple(cells), tuple(moves)


@st.composite
def flows(draw: st.DrawFn, width: int, height: int, even: bool) -> list[Flow]:
    """Flows over a mesh, each on a colour of its own."""
    listed = []
    for colour in draw(st.lists(st.integers(0, 23), min_size=1, max_size=4, unique=True)):
        path, moves = draw(paths(width, height))
        if not moves:
            continue
        # The last core of a path only takes: what it sent would have no way to go.
        more_senders = draw(st.lists(st.sampled_from(path[:-1]), max_size=2))
        senders = tuple(cell for cell in path if cell in {path[0], *more_senders})
        after = path[path.index(senders[-1]) + 1 :]
        words, dtype = draw(st.integers(1, 12)), draw(st.sampled_from(FLOW_DTYPES))
        # Behind the last sender everything has joined, so that all receivers see the same words.
        taps = set(draw(st.lists(st.sampled_from(after), max_size=3))) | {path[-1]}
        flow = Flow(colour, path, moves, words, dtype, senders, {}, *draw(flow_ends(len(senders))))
        total = len(flow.arriving())
        # Now and then a receiver waits for one too many or leaves one: runs have to end in the same way then too.
        surplus = st.just(0) if even else st.sampled_from([0, 0, 0, 0, 0, 0, 1, -1])
        takes = {cell: max(flow.per_wavelet, total + flow.per_wavelet * draw(surplus)) for cell in sorted(taps)}
        listed.append(Flow(**{**vars(flow), "takes": takes}))
    return listed


def flow_ends(senders: int) -> st.SearchStrategy[tuple[str, bool]]:
    """How a flow ends, and what turns its switches."""
    # A lone sender has no switch that would have to turn.
    turned = st.booleans() if senders > 1 else st.just(False)
    return st.tuples(st.sampled_from(["", "", "nothing", "task"]), turned)


@st.composite
def meshes(draw: st.DrawFn, even: bool) -> "FlowMesh":
    """A mesh with flows, and the flows. An `even` one gives every operation its own thread and matching counts."""
    width, height = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    machine, drawn = draw(st.sampled_from([WSE2, WSE3])), draw(flows(width, height, even))
    orders = {c: draw(st.permutations(a)) for c, a in _core_actions(drawn).items()}
    is_async = {c: [even or draw(st.booleans()) for _ in actions] for c, actions in orders.items()}
    return FlowMesh(machine=machine, width=width, height=height, flows=tuple(drawn), orders=orders, is_async=is_async)


@dataclass(frozen=True)
class FlowMesh:
    """A random mesh, from which one is built, or one with so many copies of it below each other."""

    machine: Machine
    width: int
    height: int
    flows: tuple[Flow, ...]
    orders: dict[CoreCoordinates, list[tuple[Flow, str]]]
    is_async: dict[CoreCoordinates, list[bool]]

    def mesh(self, copies: int = 1, is_turned: bool = False) -> Mesh:
        """The mesh. With `is_turned` columns are rows, and the copies lie beside each other."""
        shape = (self.width, self.height * copies)
        mesh = Mesh(self.machine, *(shape[::-1] if is_turned else shape))
        # Copies far apart must not know of each other: laws compare one with many of them.
        rows = self.height * np.arange(copies)

        def places(cell: CoreCoordinates) -> tuple[Any, Any]:
            return (cell[1] + rows, cell[0]) if is_turned else (cell[0], cell[1] + rows)

        for i, flow in enumerate(self.flows):
            for cell, source, targets, position in _flow_routes(flow):
                turned = [TURNED_DIRECTIONS[d] if is_turned else d for d in (source, *targets)]
                mesh.route(flow.colour, *places(cell), turned[0], turned[1:], position)
            for cell in flow.senders:
                # Addresses count elements, of which half types have two in a word.
                first = i * REGION_WORDS * 4 // {"float32": 4}.get(flow.dtype, 2)
                mesh.load(flow.data(cell), *places(cell), first, flow.dtype)
        for cell, actions in self.orders.items():
            mesh.run(self._program(cell, actions), *places(cell))
        return mesh

    def _program(self, cell: CoreCoordinates, actions: list[tuple[Flow, str]]) -> CoreProgram:
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
        # Tasks stand behind the main one, which begins; a control wavelet, or the end of a send, lets them run.
        for i in called:
            builder.task(f"task {i}")
            builder.move(Memory((i + 1) * REGION_WORDS - 1), 1.0, 1)
        for i, flow in enumerate(self.flows):
            if cell in flow.senders:
                builder.task(f"behind {i}")
                _send_flow_end(builder, flow, cell, i)
        return builder.build()

    def _send(self, builder: Builder, flow: Flow, memory: Memory, cell: CoreCoordinates, is_async: bool) -> None:
        """The words; then, when they are out, a task sends what goes behind them."""
        turns = cell != flow.senders[0] and not flow.by_control
        task = f"behind {self.flows.index(flow)}"
        builder.move(
            Sent(flow.colour, flow.dtype), memory, flow.words, asynchronous=is_async, advance=turns, activate=task
        )


def _send_flow_end(builder: Builder, flow: Flow, cell: CoreCoordinates, i: int) -> None:
    """What a sender lets follow: the turn of its switch, or, the last to send, the end of the flow."""
    if cell != flow.senders[0]:
        if flow.by_control:
            builder.control(flow.colour, ["advance"])
    elif flow.ends_with:
        builder.control(flow.colour, task=f"task {i}" if flow.ends_with == "task" else "")


def _core_actions(flows: Sequence[Flow]) -> dict[CoreCoordinates, list[tuple[Flow, str]]]:
    """What each core has to do."""
    todo: dict[CoreCoordinates, list[tuple[Flow, str]]] = {}
    for flow in flows:
        for cell in flow.senders:
            todo.setdefault(cell, []).append((flow, "send"))
        for cell in flow.takes:
            todo.setdefault(cell, []).append((flow, "take"))
    return todo


def _flow_routes(flow: Flow) -> Iterator[tuple[CoreCoordinates, int, list[int], int]]:
    """Cell, source, targets, position: the router of a sender first takes what that sends, then what is behind it."""
    for i, cell in enumerate(flow.path):
        targets = [flow.moves[i]] if i < len(flow.moves) else []
        if cell in flow.takes:
            targets.append(RAMP)
        behind = (flow.moves[i - 1] + 2) % 4 if i else RAMP
        sources = [RAMP, behind] if cell in flow.senders[1:] else [behind]
        for position, source in enumerate(sources):
            yield cell, source, targets, position
