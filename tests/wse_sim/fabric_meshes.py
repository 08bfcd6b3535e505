"""Random legal meshes for the laws of the fabric: flows of wavelets on colours of their own, who sends and who takes.

A flow goes along a path that does not meet itself. Several cores of the path may send, one after another by switches;
several may receive, since routers copy. Behind the words a control wavelet may go, which may start a task at receivers.
"""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from wse_sim.fabric import RAMP, Builder, Memory, Mesh, Received, Sent
from wse_sim.fabric.mesh import STEPS
from wse_sim.machine import WSE2, WSE3

REGION = 64
"""Words of memory for each flow; the last one is for the task of a control wavelet."""
DTYPES = ("float32", "float32", "float16", "bfloat16", "uint16")
TURNED = (3, 2, 1, 0, 4)
"""Each direction, where columns become rows."""
Cell = tuple[int, int]


@dataclass(frozen=True)
class Flow:
    """A colour along a path. `senders` send `words` elements each, the last of them on the path first.

    `takes` says how many elements each of its receivers waits for; `ends_with` is "", "nothing" or "task": a control
    wavelet goes behind the words, and so on. `by_control` says whether control wavelets turn the switches.
    """

    colour: int
    path: tuple[Cell, ...]
    moves: tuple[int, ...]
    words: int
    dtype: str
    senders: tuple[Cell, ...]
    takes: dict[Cell, int]
    ends_with: str = ""
    by_control: bool = False

    @property
    def per_wavelet(self) -> int:
        return 1 if self.dtype == "float32" else 2

    @property
    def wavelets(self) -> int:
        """Data wavelets of one sender."""
        return -(-self.words // self.per_wavelet)

    def data(self, sender: Cell) -> np.ndarray:
        """What a sender has: small whole numbers, exact in every type."""
        first = 1 + 20 * self.senders.index(sender)
        return np.arange(first, first + self.words) % 200

    def arriving(self) -> np.ndarray:
        """All elements as they come by, with what fills the last wavelet of a sender."""
        parts = []
        for sender in reversed(self.senders):
            part = np.zeros(self.wavelets * self.per_wavelet)
            part[: self.words] = self.data(sender)
            parts.append(part)
        return np.concatenate(parts)


@st.composite
def paths(draw, width: int, height: int):
    """A walk over the mesh that never meets itself, and its directions."""
    cells = [(draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1)))]
    moves = []
    for move in draw(st.lists(st.integers(0, 3), max_size=12)):
        x, y = cells[-1][0] + STEPS[move][0], cells[-1][1] + STEPS[move][1]
        if 0 <= x < width and 0 <= y < height and (x, y) not in cells:
            cells.append((x, y))
            moves.append(move)
    return tuple(cells), tuple(moves)


@st.composite
def flows(draw, width: int, height: int, even: bool):
    found = []
    for colour in draw(st.lists(st.integers(0, 23), min_size=1, max_size=4, unique=True)):
        path, moves = draw(paths(width, height))
        if not moves:
            continue
        more_senders = draw(st.lists(st.sampled_from(path[:-1]), max_size=2))
        senders = tuple(cell for cell in path if cell in {path[0], *more_senders})
        after = path[path.index(senders[-1]) + 1 :]
        words, dtype = draw(st.integers(1, 12)), draw(st.sampled_from(DTYPES))
        taps = set(draw(st.lists(st.sampled_from(after), max_size=3))) | {path[-1]}
        flow = Flow(colour, path, moves, words, dtype, senders, {}, *draw(ends(len(senders))))
        total = len(flow.arriving())
        surplus = st.just(0) if even else st.sampled_from([0, 0, 0, 0, 0, 0, 1, -1])
        takes = {cell: max(flow.per_wavelet, total + flow.per_wavelet * draw(surplus)) for cell in sorted(taps)}
        found.append(Flow(**{**vars(flow), "takes": takes}))
    return found


def ends(senders: int):
    """How a flow ends, and what turns its switches."""
    turned = st.booleans() if senders > 1 else st.just(False)
    return st.tuples(st.sampled_from(["", "", "nothing", "task"]), turned)


@st.composite
def meshes(draw, even: bool):
    """A mesh with flows, and the flows. An `even` one gives every operation its own thread and matching counts."""
    width, height = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    machine, found = draw(st.sampled_from([WSE2, WSE3])), draw(flows(width, height, even))
    orders = {c: draw(st.permutations(a)) for c, a in _actions(found).items()}
    is_async = {c: [even or draw(st.booleans()) for _ in actions] for c, actions in orders.items()}
    return Made(machine, width, height, tuple(found), orders, is_async)


@dataclass(frozen=True)
class Made:
    """A random mesh, from which one is built, or one with so many copies of it below each other."""

    machine: object
    width: int
    height: int
    flows: tuple[Flow, ...]
    orders: dict[Cell, list[tuple[Flow, str]]]
    is_async: dict[Cell, list[bool]]

    def mesh(self, copies: int = 1, is_turned: bool = False) -> Mesh:
        """With `is_turned` columns are rows, and the copies lie beside each other."""
        shape = (self.width, self.height * copies)
        mesh = Mesh(self.machine, *(shape[::-1] if is_turned else shape))
        rows = self.height * np.arange(copies)

        def places(cell: Cell) -> tuple:
            return (cell[1] + rows, cell[0]) if is_turned else (cell[0], cell[1] + rows)

        for i, flow in enumerate(self.flows):
            for cell, source, targets, position in _routes(flow):
                turned = [TURNED[d] if is_turned else d for d in (source, *targets)]
                mesh.route(flow.colour, *places(cell), turned[0], turned[1:], position)
            for cell in flow.senders:
                first = i * REGION * 4 // {"float32": 4}.get(flow.dtype, 2)
                mesh.load(flow.data(cell), *places(cell), first, flow.dtype)
        for cell, actions in self.orders.items():
            mesh.run(self._program(cell, actions), *places(cell))
        return mesh

    def _program(self, cell: Cell, actions: list[tuple[Flow, str]]):
        builder = Builder(f"at {cell}", REGION * len(self.flows))
        called = []
        for (flow, verb), is_async in zip(actions, self.is_async[cell], strict=True):
            i = self.flows.index(flow)
            memory = Memory(i * REGION * (1 if flow.dtype == "float32" else 2), dtype=flow.dtype)
            if verb == "take":
                builder.move(memory, Received(flow.colour, flow.dtype), flow.takes[cell], asynchronous=is_async)
                called += [i] if flow.ends_with == "task" else []
            elif verb == "send":
                self._send(builder, flow, memory, cell, is_async)
        for i in called:
            builder.task(f"task {i}")
            builder.move(Memory((i + 1) * REGION - 1), 1.0, 1)
        for i, flow in enumerate(self.flows):
            if cell in flow.senders:
                builder.task(f"behind {i}")
                _send_behind(builder, flow, cell, i)
        return builder.build()

    def _send(self, builder: Builder, flow: Flow, memory: Memory, cell: Cell, is_async: bool) -> None:
        """The words; then, when they are out, a task sends what goes behind them."""
        turns = cell != flow.senders[0] and not flow.by_control
        task = f"behind {self.flows.index(flow)}"
        builder.move(
            Sent(flow.colour, flow.dtype), memory, flow.words, asynchronous=is_async, advance=turns, activate=task
        )


def _send_behind(builder: Builder, flow: Flow, cell: Cell, i: int) -> None:
    """What a sender lets follow: the turn of its switch, or, the last to send, the end of the flow."""
    if cell != flow.senders[0]:
        if flow.by_control:
            builder.control(flow.colour, ["advance"])
    elif flow.ends_with:
        builder.control(flow.colour, task=f"task {i}" if flow.ends_with == "task" else "")


def _actions(found: list[Flow]) -> dict[Cell, list[tuple[Flow, str]]]:
    """What each core has to do."""
    todo: dict[Cell, list[tuple[Flow, str]]] = {}
    for flow in found:
        for cell in flow.senders:
            todo.setdefault(cell, []).append((flow, "send"))
        for cell in flow.takes:
            todo.setdefault(cell, []).append((flow, "take"))
    return todo


def _routes(flow: Flow):
    """Cell, source, targets, position: the router of a sender first takes what that sends, then what is behind it."""
    for i, cell in enumerate(flow.path):
        targets = [flow.moves[i]] if i < len(flow.moves) else []
        if cell in flow.takes:
            targets.append(RAMP)
        behind = (flow.moves[i - 1] + 2) % 4 if i else RAMP
        sources = [RAMP, behind] if cell in flow.senders[1:] else [behind]
        for position, source in enumerate(sources):
            yield cell, source, targets, position
