"""Planning: order the calls, assign buffers to values, and update state in place if that is safe.

Order: a call follows the makers of its operands. If there is a choice, a call that makes new state waits until all
readers of the old state have run, so that it may overwrite it (donation). A result may reuse the buffer of an operand
whose last use is this call, if the loops read and write it at the same elements. State that cannot be overwritten is
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
"""For each call, the calls that have to run before it."""
AFTER_LAST_CALL = 1 << 60  # the time of reads after the last call


def plan(graph: Graph, calls: list[KernelCall]) -> Program:
    """Return the program of a graph, given its calls."""
    return _Planner(graph, order(graph, calls)).program()


def order(graph: Graph, calls: list[KernelCall]) -> list[KernelCall]:
    """Return the calls in an order in which operands come first, and readers of old state come first where possible.

    Otherwise they are in the order of the graph. Raise CompileError for a cycle.
    """
    maker = {value: c for c in calls for value in c.results}
    rank = {n: k for k, n in enumerate(graph.nodes())}
    # The rank of a call is that of its last result in the graph, so that ties follow the order of tracing.
    place = {c: max(rank[n] for n, _ in c.results) for c in calls}
    inputs = {c: {maker[v] for v in map(stored_value, c.operands) if v in maker} for c in calls}
    waits = _readers_of_old_state(graph, calls, maker)
    users: dict[KernelCall, list[KernelCall]] = defaultdict(list)
    for c in calls:
        for i in inputs[c] | waits[c]:
            users[i].append(c)
    return _schedule(calls, place, inputs, waits, users)


def _readers_of_old_state(graph: Graph, calls: list[KernelCall], maker: dict[StoredValue, KernelCall]) -> Edges:
    """Return for each call that makes new state the other calls that read the old state of the same id."""
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
    """Return the calls in an order that always takes the first ready call, in the order of the graph.

    `place` is the rank of each call in the graph. `inputs` are the calls that have to run before it, `waits` those that
    should, and `users` the reverse of both. A call that waits only for readers of old state runs if no other call is
    ready. Raise CompileError for a cycle.
    """
    ordered: list[KernelCall] = []
    # Hard dependencies are operands that are not computed yet. Soft ones are readers of the state that the call would
    # overwrite; if it runs before them, the state is copied at the end instead.
    hard = {c: len(inputs[c]) for c in calls}
    soft = {c: len(waits[c] - inputs[c]) for c in calls}
    ready = [(soft[c] > 0, place[c], k, c) for k, c in enumerate(calls) if hard[c] == 0]
    heapq.heapify(ready)
    number = {c: k for k, c in enumerate(calls)}
    finished: set[KernelCall] = set()
    while ready:
        *_, c = heapq.heappop(ready)
        # A call is pushed again whenever a dependency finishes; its older entries are stale.
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
        raise CompileError(
            f"the kernel calls depend on each other in a cycle that includes {stuck.kernel}",
            where=stuck.where,
            hint="Report it as a bug of the compiler, with the output of LT_DEBUG=2.",
        )
    return ordered


class _Planner:
    """Visits the ordered calls once and assigns buffers."""

    def __init__(self, graph: Graph, calls: list[KernelCall]):
        self.graph, self.calls = graph, calls
        self.buffers: list[ProgramBuffer] = []
        self.instrs: list[Instr] = []
        self.holder: dict[StoredValue, int] = {}
        self.views: dict[int, dict[Type, int]] = defaultdict(dict)  # the views of each buffer, by type
        # The order matters: `_last_reads` uses `kept`, and donation uses `last`.
        self.kept = self._fetched_old_state()
        self.last = self._last_reads()
        self.updates_of: dict[StoredValue, list[StateId]] = {}
        for state, update in graph.updates.items():
            self.updates_of.setdefault(stored_value(update), []).append(state)
        self.donated: set[StateId] = set()
        self.update_only = self._update_calls()

    def _fetched_old_state(self) -> set[StoredValue]:
        """Return state that the step changes and whose old value is fetched. It is copied at the start."""
        changed = {
            stored_value(self.graph.state[s]) for s, n in self.graph.updates.items() if n is not self.graph.state[s]
        }
        return changed & {stored_value(n) for n in self.graph.outputs}

    def _last_reads(self) -> dict[StoredValue, int]:
        """Return the position of the last call that reads each value; AFTER_LAST_CALL for results of the step.

        Values that are not read are missing. New state counts as read at the end only if it is a leaf, which is copied.
        """
        last: dict[StoredValue, int] = {}
        for time, c in enumerate(self.calls):
            for n in c.operands:
                last[stored_value(n)] = time
        for n in self.graph.outputs:
            if stored_value(n) not in self.kept:
                last[stored_value(n)] = AFTER_LAST_CALL
        for state, update in self.graph.updates.items():
            value = stored_value(update)
            # A new value that is a leaf is copied, and so read, at the end.
            if is_leaf(value[0]) and update is not self.graph.state[state]:
                last[value] = AFTER_LAST_CALL
        return last

    def _update_calls(self) -> set[KernelCall]:
        """Return the calls that make new state and whose results are not read by other calls and are no outputs."""
        needed = {stored_value(n) for n in self.graph.outputs}
        only: set[KernelCall] = set()
        # Backwards, so that all readers of a value are visited before its maker.
        for c in reversed(self.calls):
            # Results without readers, which merged groups may have, do not count.
            if needed.isdisjoint(c.results) and any(v in self.updates_of for v in c.results):
                only.add(c)
            needed.update(map(stored_value, c.operands))
        return only

    def program(self) -> Program:
        """Return the program: assign buffers to state, batch and calls, then to new state and fetches.

        Call it once. Raise CompileError if a value is read that no call computes, or if the program's check fails.
        """
        for name, n in self.graph.state.items():
            self.holder[stored_value(n)] = self._buffer(n.type, "state", name)
        batch = tuple(self._batch(n) for n in self.graph.inputs)
        # Copied before any call, because later calls overwrite the state.
        copies = {value: self._copy(value) for value in self.kept}
        for time, c in enumerate(self.calls):
            self._place(time, c)
        new_state = {s: self._new_state(s) for s in self.graph.state}
        # Only after the calls, which read the live buffers.
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
        """Return the buffer that holds the elements of `n`, perhaps in another shape.

        A constant gets a buffer at its first use. Raise CompileError if no call computes `n`.
        """
        value = stored_value(n)
        if value not in self.holder:
            owner = value[0]
            if owner.value is None:
                raise CompileError(
                    f"no kernel call computes {owner}",
                    where=owner.where,
                    hint="Report it as a bug of the compiler, with the output of LT_DEBUG=2.",
                )
            self.holder[value] = self._buffer(owner.type, "const", "", owner.value)
        return self.holder[value]

    def _copy(self, value: StoredValue) -> int:
        """Add an instruction that copies the current elements of `value` to a new buffer, and return that buffer."""
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
        """Return the buffer of `n` in the shape of `n`: the stored buffer, or a view of it, added if needed."""
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
        """Assign buffers to the results of a call and add its instruction. `time` is the position of the call.

        A result gets the buffer of the state that it becomes, or of an operand that is read for the last time, or a new
        one.
        """
        # A nest reads flat arrays, so any shape will do; a library kernel needs the operand's shape.
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
            # The buffer has new elements, so views of the old ones are invalid.
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
        """Return the buffer of the state that `value`, result `k` of call `c`, becomes, if the call may overwrite it;
        else None.

        The old value must have the same size and no later readers. `time` is the position of the call. The state is
        marked, so that it is donated once.
        """
        # A value that becomes two states overwrites one of them; the other is copied at the end of the step.
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
        """Return the buffer of an operand of call `c` whose last use is this call, if result `k` may overwrite it; else
        None.

        It must be a temporary buffer of the same size that is not new state. Buffers in `targets` are used by other
        results already.
        """
        for old in dict.fromkeys(map(stored_value, c.operands)):
            if old in self.updates_of:
                continue  # new state that is not in its state's buffer is copied at the end
            buffer = self.holder[old]
            fits = self.buffers[buffer].kind == "temp" and _has_same_bytes(stored_type(value), stored_type(old))
            if fits and buffer not in targets and self.last[old] == time and _can_overwrite(c, k, old):
                return buffer
        return None

    def _new_state(self, state: StateId) -> int:
        update = self.graph.updates.get(state, self.graph.state[state])
        return self._stored(update)


def copy_nest(type: Type) -> Nest:
    """Return the nest that copies a value of this type."""
    return elementwise_nest("copy", type, (Scalar("load", type.dtype, (), 0),), Work(0, type.nbytes, type.nbytes))


def _has_same_bytes(a: Type, b: Type) -> bool:
    return a.size == b.size and a.dtype is b.dtype


def _can_overwrite(c: KernelCall, k: int, old: StoredValue) -> bool:
    """Return whether result `k` of call `c` may overwrite `old`: each iteration must write the one element that
    it reads.

    Only elementwise stores of nests may; library kernels and reductions may not.
    """
    if c.nest is None or c.nest.stores[k].reduce:
        return False
    target = c.nest.writes[k]
    accesses = [a for n, a in zip(c.operands, c.nest.reads, strict=True) if stored_value(n) == old]
    # If a loop does not move the target, it would overwrite an element that later iterations read again.
    moves = all(s for s, loop in zip(target.strides, c.nest.loops, strict=True) if loop.extent > 1)
    return moves and all(a == target for a in accesses)
