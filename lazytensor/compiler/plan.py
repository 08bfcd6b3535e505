"""Plan: calls get an order, values get buffers, and new state overwrites old where that is proved safe.

Order: a call comes after the makers of its operands; where there is a choice, a call that makes new state waits until
all readers of the old state are done, so that it may overwrite it (donation). A value may take over the buffer of an
operand that dies in the same call, if the loops read and write it at the same places. What cannot be overwritten is
copied at the end of the step: `Program.state` then names two different buffers.
"""

import heapq
from collections import defaultdict

import numpy as np

from lazytensor.compiler.kernel_calls import KernelCall, StoredValue, is_leaf, stored_type, stored_value
from lazytensor.errors import CompileError
from lazytensor.ir.graph import Graph, Node
from lazytensor.ir.nest import Nest, Scalar, elementwise_nest
from lazytensor.ir.program import Instr, Program, ProgramBuffer
from lazytensor.ir.types import StateId, Type, Work

Edges = dict[KernelCall, set[KernelCall]]
"""For each call those that have to come before it."""
AFTER_LAST_CALL = 1 << 60  # the time of reads after the last call


def plan(graph: Graph, calls: list[KernelCall]) -> Program:
    """The program of a graph whose calls are known."""
    return _Planner(graph, order(graph, calls)).program()


def order(graph: Graph, calls: list[KernelCall]) -> list[KernelCall]:
    """The calls in an order that respects values always, and overwritten state where possible."""
    maker = {value: c for c in calls for value in c.results}
    rank = {n: k for k, n in enumerate(graph.nodes())}
    # A call ranks as late as its last result in the graph, so that ties follow the order in which it was traced.
    place = {c: max(rank[n] for n, _ in c.results) for c in calls}
    inputs = {c: {maker[v] for v in map(stored_value, c.operands) if v in maker} for c in calls}
    waits = _readers_of_old_state(graph, calls, maker)
    users: dict[KernelCall, list[KernelCall]] = defaultdict(list)
    for c in calls:
        for i in inputs[c] | waits[c]:
            users[i].append(c)
    return _schedule(calls, place, inputs, waits, users)


def _readers_of_old_state(graph: Graph, calls: list[KernelCall], maker: dict[StoredValue, KernelCall]) -> Edges:
    """For each call that makes new state, the other calls that read the old one."""
    readers: dict[StoredValue, set[KernelCall]] = defaultdict(set)
    for c in calls:
        for n in c.operands:
            readers[stored_value(n)].add(c)
    waits: Edges = defaultdict(set)
    for state, update in graph.updates.items():
        writer = maker.get(stored_value(update))
        if writer is not None:
            waits[writer] |= readers[stored_value(graph.state[state])] - {writer}
    return waits


def _schedule(
    calls: list[KernelCall],
    place: dict[KernelCall, int],
    inputs: Edges,
    waits: Edges,
    users: dict[KernelCall, list[KernelCall]],
) -> list[KernelCall]:
    """Always the first call that is ready; one that only waits for readers of old state goes if nothing else can."""
    ordered: list[KernelCall] = []
    # Hard: operands not computed yet, and without them a call cannot run. Soft: readers of state that it would
    # overwrite; if it runs before them, the state is copied at the end instead.
    hard = {c: len(inputs[c]) for c in calls}
    soft = {c: len(waits[c] - inputs[c]) for c in calls}
    ready = [(soft[c] > 0, place[c], k, c) for k, c in enumerate(calls) if hard[c] == 0]
    heapq.heapify(ready)
    number = {c: k for k, c in enumerate(calls)}
    finished: set[KernelCall] = set()
    while ready:
        *_, c = heapq.heappop(ready)
        # A call is pushed anew whenever it gets readier; the entries with its older rank are stale.
        if c in finished:
            continue
        finished.add(c)
        ordered.append(c)
        for u in users[c]:
            if c in inputs[u]:
                hard[u] -= 1
            else:
                soft[u] -= 1
            if hard[u] == 0 and u not in finished:
                heapq.heappush(ready, (soft[u] > 0, place[u], number[u], u))
    if len(ordered) != len(calls):
        stuck = next(c for c in calls if c not in finished)
        raise CompileError(f"the calls form a cycle at {stuck.kernel}", where=stuck.where)
    return ordered


class _Planner:
    """Walks the ordered calls once and hands out buffers."""

    def __init__(self, graph: Graph, calls: list[KernelCall]):
        self.graph, self.calls = graph, calls
        self.buffers: list[ProgramBuffer] = []
        self.instrs: list[Instr] = []
        self.holder: dict[StoredValue, int] = {}
        self.views: dict[int, dict[Type, int]] = defaultdict(dict)  # of each buffer, in other shapes
        # The order of these matters: last reads know of kept values, donation of last reads.
        self.kept = self._fetched_old_state()
        self.last = self._last_reads()
        self.updates_of: dict[StoredValue, list[StateId]] = {}
        for state, update in graph.updates.items():
            self.updates_of.setdefault(stored_value(update), []).append(state)
        self.donated: set[StateId] = set()
        self.update_only = self._update_calls()

    def _fetched_old_state(self) -> set[StoredValue]:
        """State that is fetched as it was before the step, although the step changes it: it is copied at the start."""
        changed = {
            stored_value(self.graph.state[s]) for s, n in self.graph.updates.items() if n is not self.graph.state[s]
        }
        return changed & {stored_value(n) for n in self.graph.outputs}

    def _last_reads(self) -> dict[StoredValue, int]:
        """When each value is read for the last time."""
        last: dict[StoredValue, int] = {}
        for time, c in enumerate(self.calls):
            for n in c.operands:
                last[stored_value(n)] = time
        for n in self.graph.outputs:
            if stored_value(n) not in self.kept:
                last[stored_value(n)] = AFTER_LAST_CALL
        for state, update in self.graph.updates.items():
            value = stored_value(update)
            # A new value that is itself a leaf is copied at the end, and so is read then.
            if is_leaf(value[0]) and update is not self.graph.state[state]:
                last[value] = AFTER_LAST_CALL
        return last

    def _update_calls(self) -> set[KernelCall]:
        """Calls whose results go nowhere but into state."""
        needed = {stored_value(n) for n in self.graph.outputs}
        only: set[KernelCall] = set()
        # Backwards, so that the readers of a value are known when its maker is asked.
        for c in reversed(self.calls):
            # A result that nobody reads, as a value inside of merged loops may be, goes nowhere at all.
            if needed.isdisjoint(c.results) and any(v in self.updates_of for v in c.results):
                only.add(c)
            needed.update(map(stored_value, c.operands))
        return only

    def program(self) -> Program:
        for name, n in self.graph.state.items():
            self.holder[stored_value(n)] = self._buffer(n.type, "state", name)
        batch = tuple(self._batch(n) for n in self.graph.inputs)
        # Before any call: whatever overwrites the state comes later.
        copies = {value: self._copy(value) for value in self.kept}
        for time, c in enumerate(self.calls):
            self._place(time, c)
        new_state = {s: self._new_state(s) for s in self.graph.state}
        # Only now, since the calls themselves read the live buffer.
        self.holder |= copies
        fetches = tuple(self._operand(n) for n in self.graph.outputs)
        state = {b.name: (b.index, new_state[b.name]) for b in self.buffers if b.kind == "state"}
        return Program(
            buffers=tuple(self.buffers),
            instrs=tuple(self.instrs),
            state=state,
            batch=batch,
            fetches=fetches,
            fetch_names=self.graph.output_names,
        ).check()

    def _buffer(self, type: Type, kind: str, name: str = "", value: np.ndarray | None = None) -> int:
        self.buffers.append(ProgramBuffer(len(self.buffers), type, kind, name, value))
        return len(self.buffers) - 1

    def _batch(self, n: Node) -> int:
        self.holder[(n, 0)] = self._buffer(n.type, "batch", n.attrs.get("name", ""))
        return self.holder[(n, 0)]

    def _stored(self, n: Node) -> int:
        """The buffer that holds the elements of n, perhaps in another shape."""
        value = stored_value(n)
        if value not in self.holder:
            owner = value[0]
            if owner.value is None:
                raise CompileError(f"nothing makes {owner}", where=owner.where)
            self.holder[value] = self._buffer(owner.type, "const", "", owner.value)
        return self.holder[value]

    def _copy(self, value: StoredValue) -> int:
        """A new buffer with the elements that `value` has now."""
        type = stored_type(value)
        nest = copy_nest(type)
        target = self._buffer(type, "temp")
        self.instrs.append(
            Instr(
                "nest", reads=(self.holder[value],), writes=(target,), nest=nest, work=nest.work, where=value[0].where
            )
        )
        return target

    def _operand(self, n: Node) -> int:
        """The buffer of n in its own shape; a view of the stored one where that differs."""
        stored = self._stored(n)
        if self.buffers[stored].type.shape == n.type.shape:
            return stored
        if n.type not in self.views[stored]:
            view = self.views[stored][n.type] = self._buffer(n.type, "temp")
            self.instrs.append(
                Instr("reshape", reads=(stored,), writes=(view,), attrs={"shape": n.type.shape}, where=n.where)
            )
        return self.views[stored][n.type]

    def _place(self, time: int, c: KernelCall) -> None:
        # A nest addresses flat elements and does not care for shapes; a kernel of the library does.
        reads = tuple(self._stored(n) if c.nest else self._operand(n) for n in c.operands)
        targets: set[int] = set()
        writes = []
        for k, value in enumerate(c.results):
            target = self._find_donated_buffer(time, c, k, value)
            if target is None:
                target = self._find_dying_operand(time, c, k, value, targets)
            if target is None:
                target = self._buffer(stored_type(value), "temp")
            targets.add(target)
            writes.append(target)
        for value, target in zip(c.results, writes, strict=True):
            self.holder[value] = target
            # The buffer has new elements, so that views of the old ones may not be found again.
            self.views.pop(target, None)
        instr = Instr(
            kernel=c.kernel,
            reads=reads,
            writes=tuple(writes),
            attrs=dict(c.attrs),
            nest=c.nest,
            work=c.work,
            where=c.where,
            direction=self._direction(c),
        )
        self.instrs.append(instr)

    def _direction(self, c: KernelCall) -> str:
        if c in self.update_only:
            return "update"
        return "backward" if c.where is not None and c.where.scope.endswith(".bwd") else "forward"

    def _find_donated_buffer(self, time: int, c: KernelCall, k: int, value: StoredValue) -> int | None:
        """The buffer of the state that this value becomes, if nobody needs its old value any more."""
        # A value that is the new value of two states can overwrite one; the other is copied at the end of the step.
        for state in self.updates_of.get(value, ()):
            old = stored_value(self.graph.state[state])
            same = (
                stored_type(value) == stored_type(old)
                if c.nest is None
                else _has_same_bytes(stored_type(value), stored_type(old))
            )
            if not same or state in self.donated or old == value or self.last.get(old, -1) > time:
                continue
            if self.last.get(old, -1) == time and not _can_overwrite(c, k, old):
                continue
            self.donated.add(state)
            return self.holder[old]
        return None

    def _find_dying_operand(
        self, time: int, c: KernelCall, k: int, value: StoredValue, targets: set[int]
    ) -> int | None:
        """The buffer of an operand that dies here and has the same type, for loops that run in step."""
        for old in dict.fromkeys(map(stored_value, c.operands)):
            if old in self.updates_of:
                continue  # new state outside its own buffer is copied at the end
            buffer = self.holder[old]
            fits = self.buffers[buffer].kind == "temp" and _has_same_bytes(stored_type(value), stored_type(old))
            if fits and buffer not in targets and self.last[old] == time and _can_overwrite(c, k, old):
                return buffer
        return None

    def _new_state(self, state: StateId) -> int:
        update = self.graph.updates.get(state, self.graph.state[state])
        return self._stored(update)


def copy_nest(type: Type) -> Nest:
    """The nest that copies a value of this type."""
    return elementwise_nest("copy", type, (Scalar("load", type.dtype, (), 0),), Work(0, type.nbytes, type.nbytes))


def _has_same_bytes(a: Type, b: Type) -> bool:
    return a.size == b.size and a.dtype is b.dtype


def _can_overwrite(c: KernelCall, k: int, old: StoredValue) -> bool:
    """True if result k of a nest may overwrite `old`: each iteration writes the one element that it reads."""
    if c.nest is None or c.nest.stores[k].reduce:
        return False
    target = c.nest.writes[k]
    accesses = [a for n, a in zip(c.operands, c.nest.reads, strict=True) if stored_value(n) == old]
    # A loop along which the target stands still would write an element that later iterations read again.
    moves = all(s for s, loop in zip(target.strides, c.nest.loops, strict=True) if loop.extent > 1)
    return moves and all(a == target for a in accesses)
