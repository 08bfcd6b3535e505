"""Layers: the kernels of a step folded by the weight that they share, as the vendor's compiler lists them.

A layer holds the forward kernels of a weight, those of both gradients, the update, and what is computed element by
element behind them. Products of activations alone, with the softmax between them, are a layer too: an attention block.
It goes over tiles of rows and computes scores again in the backward sweep, so that what it makes for itself is never
held whole. What comes before any weight is a layer by itself, and what belongs to no weight, such as the norm of all
gradients, is the layer "whole step". A block that `attention_blocks` has as one kernel each way is called "attention";
of one that stays as it is, "attention in parts", forward kernels run again in the backward sweep.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lazytensor.ir.program import Instr
from lazytensor.ir.types import Where
from wse_sim.planner.attention_blocks import ATTENTION_KERNELS
from wse_sim.planner.dataflow import BufferVersion, Dataflow, Sweep

SWEEPS: tuple[Sweep, ...] = ("forward", "backward", "update")
WHOLE_STEP = "whole step"
"""The layer of what belongs to no weight."""


@dataclass(frozen=True)
class Layer:
    """Kernels with one place: instructions by sweep, in the order of the program, and the states that lie with them.

    `inner` are tensors that an attention block makes for itself: tiles of them exist, one after the other. `recomputed`
    are its forward kernels that run again in the backward sweep, as that reads such tensors.
    """

    name: str
    where: Where | None
    kernels: Mapping[Sweep, tuple[int, ...]]
    parameters: tuple[int, ...] = ()
    states: tuple[int, ...] = ()
    inner: frozenset[int] = frozenset()
    recomputed: tuple[int, ...] = ()
    has_product: bool = True
    is_attention: bool = False

    @cached_property
    def every_kernel(self) -> tuple[int, ...]:
        """Its instructions, sweep after sweep."""
        return tuple(i for sweep in SWEEPS for i in self.kernels[sweep])


def fold(dataflow: Dataflow) -> tuple[Layer, ...]:
    """The layers of a program in the order in which samples come to them. Every kernel is in exactly one."""
    return _LayerGrouping(dataflow).layers()


def operation_name(instr: Instr) -> str:
    """The operation that an instruction computes: its kernel, or what the kernel of last resort was called for."""
    return str(instr.attrs.get("op", instr.kernel)) if instr.kernel == "call" else instr.kernel


def is_product_of_tensors(instr: Instr) -> bool:
    """Whether it multiplies two tensors; where neither is a weight it is part of an attention block."""
    operation = operation_name(instr)
    # Convolutions and their gradients share the beginning of their names.
    return operation == "matmul" or operation in ATTENTION_KERNELS or operation.startswith("conv")


_LayerKey = tuple[str, int]


class _LayerGrouping:
    """Gives each kernel a key, in the order of the program; keys that share a kernel become one."""

    def __init__(self, dataflow: Dataflow):
        self.dataflow, self.sweeps = dataflow, dataflow.sweeps
        self.keys: dict[int, _LayerKey] = {}
        self._same: dict[_LayerKey, _LayerKey] = {}
        self._products: set[_LayerKey] = set()
        self._anchors: set[int] = set()
        self._used: set[_LayerKey] = set()
        self._asked_for = {version.buffer for version in dataflow.final.values()}
        self._starts = {end: start for start, end in dataflow.program.state.values()}
        self._roots: dict[int, frozenset[int]] = {}
        self._readers: dict[int, list[int]] = defaultdict(list)
        self._fed: set[int] = set()  # kernels of what is made of the batch
        for i in dataflow.kernels:
            if any(o.source in self._fed or dataflow.kind(o.buffer) == "batch" for o in dataflow.operands[i]):
                self._fed.add(i)
            self._roots[i] = self._find_parameters(i)
            for o in dataflow.operands[i]:
                self._readers[o.buffer].append(i)

    def layers(self) -> tuple[Layer, ...]:
        waiting: list[int] = []
        aside = {i for i in self.dataflow.kernels if self._is_weight_preparation(i)}
        for i in self.dataflow.kernels:
            if i in aside:
                continue
            if own := self._key(i):
                self.keys[i] = own
                self._used.add(own)
            else:
                waiting.append(i)
        for i in sorted(aside):
            self.keys[i] = self._weight_key(self._roots[i])
        # What has no operand from a layer, such as zeros to add to, lies with its first reader.
        for i in reversed(waiting):
            users = (u for b in self.dataflow.results[i] for u in self.dataflow.users.get((b, i), ()))
            self.keys[i] = next((self.keys[u] for u in users if u in self.keys), (WHOLE_STEP, 0))
        # Keys that became one along the way are one layer, in the order in which samples come to them: masks of random
        # bits and moving averages of weights are made before the first layer, and tell nothing of the order.
        members: dict[_LayerKey, list[int]] = {}
        for i in sorted(self.dataflow.kernels, key=lambda i: i not in self._fed):
            members.setdefault(self._find(self.keys[i]), []).append(i)
        products = {self._find(key) for key in self._products}
        states: dict[_LayerKey, list[int]] = defaultdict(list)
        for buffer, parameter in self.dataflow.groups.items():
            states[self._find(("weight", parameter))].append(buffer)
        return tuple(
            self._layer(key, sorted(members[key]), tuple(states[key]), key in products)
            for key in self._in_order(members)
        )

    def _in_order(self, members: Mapping[_LayerKey, Sequence[int]]) -> list[_LayerKey]:
        """Keys as they are, but for attention blocks: each comes right behind the last layer that it reads from."""
        # One that layers come to a second time, with other samples, would lie behind all of these else.
        places = {key: n for n, key in enumerate(members)}
        behind: dict[_LayerKey, int] = {}
        for key in (key for key in members if key[0] == "attention"):
            forward = [i for i in members[key] if self.sweeps[i] == "forward"]
            sources = (o.source for i in forward for o in self.dataflow.operands[i])
            makers = {self._find(self.keys[s]) for s in sources if s in self.keys}
            behind[key] = max((places[m] for m in makers if m[0] == "weight"), default=places[key])
        return sorted(members, key=lambda key: (behind.get(key, places[key]), key in behind, places[key]))

    def _is_weight_preparation(self, i: int) -> bool:
        """Whether a kernel makes something of weights alone, such as a copy or an average: it lies where they do.

        Their layers are those of what reads them with samples, and are known by then.
        """
        if i in self._fed or self.sweeps[i] == "update" or not self._roots[i]:
            return False
        # A product of weights alone, as of two factors, is a layer.
        is_nest = self.sweeps[i] == "forward" and self.dataflow.program.instrs[i].kernel == "nest"
        return is_nest or i in self.dataflow.preparing

    def _key(self, i: int) -> _LayerKey | None:
        dataflow, instr, roots = self.dataflow, self.dataflow.program.instrs[i], self._roots[i]
        versions = [BufferVersion(b, i) for b in dataflow.results[i]]
        if gradients := {dataflow.gradients[v] for v in versions if v in dataflow.gradients}:
            return self._weight_key(gradients)
        if self.sweeps[i] == "update":
            return self._update_key(i)
        is_product = is_product_of_tensors(instr)
        if is_product or (roots and instr.kernel != "nest"):
            key = self._weight_key(roots) if roots else self._attention_key(i)
            self._anchors.add(i)
            if is_product:
                self._products.add(key)
            return key
        near = self._neighbour(i)
        # A bias that is added, or a scale, lies where the elements are that it is for.
        for p in roots if self.sweeps[i] == "forward" else ():
            own = ("weight", p)
            near = near or own
            if own not in self._same and own not in self._used:
                self._same[own] = self._find(near)
        if near is None and any(self.dataflow.kind(o.buffer) == "batch" for o in self.dataflow.operands[i]):
            return "kernel", i
        return near

    def _update_key(self, i: int) -> _LayerKey | None:
        dataflow = self.dataflow
        operands = dataflow.operands[i]
        touched = [self._starts.get(b, b) for b in (*dataflow.results[i], *[o.buffer for o in operands])]
        groups = {dataflow.groups[b] for b in touched if b in dataflow.groups and dataflow.type(b).size > 1}
        groups |= {dataflow.gradients[o] for o in operands if o in dataflow.gradients}
        groups |= {p for o in operands if o.source in self._roots for p in self._roots[o.source]}
        # One parameter: its layer's own. Several, or none: the step's.
        return ("weight", next(iter(groups))) if len(groups) == 1 else (WHOLE_STEP, 0)

    def _weight_key(self, groups: Iterable[int]) -> _LayerKey:
        first, *others = (self._find(("weight", g)) for g in sorted(groups))
        # A kernel that reads two parameters, such as a norm, ties them together for good.
        for other in others:
            if other != first:
                self._same[other] = first
        return first

    def _attention_key(self, i: int) -> _LayerKey:
        """That of a block around the tensors it reads: their maker's or, in the backward sweep, another reader's."""
        operands = self.dataflow.operands[i]
        if operation_name(self.dataflow.program.instrs[i]) in ATTENTION_KERNELS:
            # All blocks of a step may share a mask, and the state of a generator: queries are a block's own.
            operands = operands[:1]
        for o in operands:
            around = [o.source, *(r for r in self._readers[o.buffer] if r in self.keys)]
            keys = [self.keys[s] for s in around if s in self.keys and self.sweeps[s] == "forward"]
            if key := next((k for k in keys if k[0] == "attention"), None):
                return key
        # A product of gradients alone: it lies where its first operand came from.
        if self.sweeps[i] == "backward" and (key := self._neighbour(i)):
            return key
        return "attention", i

    def _neighbour(self, i: int) -> _LayerKey | None:
        """The layer of what made its operands: the last of them, or in the backward sweep that of what was saved."""
        # The last maker, not the first: a sum with a residual stream belongs to the layer that it ends.
        sources = [o.source for o in self.dataflow.operands[i] if o.source in self.keys]
        if self.sweeps[i] == "backward":
            sources = [
                s for s in sources if self.sweeps[s] == "forward" and s not in self.dataflow.preparing
            ] or sources
        # What was made of the batch alone, such as the labels of a loss, comes to where the rest is.
        sources = [s for s in sources if self.keys[s][0] != "kernel"] or sources
        return self.keys[max(sources)] if sources else None

    def _find(self, key: _LayerKey) -> _LayerKey:
        while key in self._same and self._same[key] != key:
            key = self._same[key]
        return key

    def _find_parameters(self, i: int) -> frozenset[int]:
        """Parameters of floating point that a kernel reads, itself or as a copy that was prepared of them."""
        roots: set[int] = set()
        for o in self.dataflow.operands[i]:
            kind = self.dataflow.type(o.buffer)
            # A scalar is a scale or a rate, and no weight.
            if not kind.shape:
                continue
            if o.source in self.dataflow.preparing:
                roots |= self._roots[o.source]
            elif o.buffer in self.dataflow.groups and kind.dtype.is_floating_point:
                roots.add(self.dataflow.groups[o.buffer])
        return frozenset(roots)

    def _layer(self, key: _LayerKey, kernels: list[int], states: tuple[int, ...], has_product: bool) -> Layer:
        dataflow, program = self.dataflow, self.dataflow.program
        # The kernel that reads the weight names the layer; a cast before it may stand on another line.
        first = next((i for i in kernels if i in self._anchors), min(kernels, key=lambda i: i not in self._fed))
        where = program.instrs[first].where
        is_attention = key[0] == "attention"
        inner = self._inner(kernels) if is_attention else frozenset[int]()
        return Layer(
            name=WHOLE_STEP
            if key[0] == WHOLE_STEP
            else _layer_name(
                where.scope if where else "", program.instrs[first].label, self._attention_name(kernels, key)
            ),
            where=where,
            kernels={s: tuple(i for i in kernels if self.sweeps[i] == s) for s in SWEEPS},
            parameters=tuple(b for b in states if dataflow.groups[b] == b),
            states=states,
            inner=inner,
            recomputed=self._recomputed(kernels, inner),
            has_product=has_product,
            is_attention=is_attention,
        )

    def _attention_name(self, kernels: list[int], key: _LayerKey) -> str:
        """Whether a block is one kernel, or what it consists of; "" for other layers."""
        if key[0] != "attention":
            return ""
        operations = {operation_name(self.dataflow.program.instrs[i]) for i in kernels}
        return "attention" if operations.intersection(ATTENTION_KERNELS) else "attention in parts"

    def _inner(self, kernels: list[int]) -> frozenset[int]:
        """Tensors that only this block's kernels read, other than what it hands on."""
        # What is fetched, or read by the next layer, has to be whole.
        own = set(kernels)
        results = {b: self._readers[b] for i in kernels for b in self.dataflow.results[i]}
        return frozenset(
            b for b, readers in results.items() if readers and own.issuperset(readers) and b not in self._asked_for
        )

    def _recomputed(self, kernels: list[int], inner: frozenset[int]) -> tuple[int, ...]:
        """From the last forward kernel back: those of inner tensors that backward kernels, or these again, read."""
        needed = {o.buffer for i in kernels if self.sweeps[i] == "backward" for o in self.dataflow.operands[i]} & inner
        again: list[int] = []
        for i in reversed(kernels):
            if self.sweeps[i] == "forward" and needed.intersection(self.dataflow.results[i]):
                again.append(i)
                needed |= {o.buffer for o in self.dataflow.operands[i]} & inner
        return tuple(reversed(again))


def _layer_name(scope: str, label: str, attention: str) -> str:
    if attention:
        return f"{scope}/{attention}" if scope else attention
    return scope or label
