"""Group the kernels of a step into layers, one for each weight, as the vendor's compiler lists them.

A layer contains the forward kernels of a weight, the kernels of its two gradients, its update, and the elementwise
kernels that follow. Products of activations with the softmax between them form a layer too: an attention block. It
works on tiles of rows and recomputes scores in the backward sweep, so that its inner tensors never exist as a whole. It
is called "attention" if `attention_blocks` fused it, else "attention in parts". Kernels before the first weight form
layers by themselves. Kernels that belong to no weight, such as the norm of all gradients, form the layer "whole step".
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
"""The name of the layer for kernels that belong to no weight."""


@dataclass(frozen=True)
class Layer:
    """The kernels that are placed together.

    - `name`: the layer's name, its module scope if there is one
    - `where`: the script line of its first main kernel
    - `kernels`: for each sweep, its instructions in program order
    - `parameters`: buffers of its parameters
    - `states`: buffers of its parameters and their optimizer slots
    - `inner`: tensors that only this attention block reads, of which only tiles exist at a time
    - `recomputed`: forward kernels that run again in the backward sweep, because it reads inner tensors
    - `has_product`: whether it multiplies two tensors
    - `is_attention`: whether it is an attention block
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
        """Return the indices of all its instructions: those of the forward sweep, then backward, then update."""
        return tuple(i for sweep in SWEEPS for i in self.kernels[sweep])


def fold(dataflow: Dataflow) -> tuple[Layer, ...]:
    """Return the layers of a program in the order in which samples reach them. Every kernel is in exactly one layer."""
    return _LayerGrouping(dataflow).layers()


def operation_name(instr: Instr) -> str:
    """Return the operation of an instruction: its kernel name, or the operation that a "call" kernel was made for."""
    return str(instr.attrs.get("op", instr.kernel)) if instr.kernel == "call" else instr.kernel


def is_product_of_tensors(instr: Instr) -> bool:
    """Return whether an instruction is a matmul, a fused attention block, or a convolution or its gradient."""
    operation = operation_name(instr)
    return operation == "matmul" or operation in ATTENTION_KERNELS or operation.startswith("conv")


_LayerKey = tuple[str, int]


class _LayerGrouping:
    """Assigns a layer key to each kernel in program order, and merges keys that share a kernel.

    - `keys`: the key of each kernel
    - `_same`: for each merged key, the key that replaces it
    - `_products`: keys with a product of two tensors
    - `_anchors`: kernels that determine the name and the line of a layer
    - `_roots`: for each kernel, the parameters that it reads
    - `_fed`: kernels whose operands depend on the batch
    """

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
        self._fed: set[int] = set()
        for i in dataflow.kernels:
            if any(o.source in self._fed or dataflow.kind(o.buffer) == "batch" for o in dataflow.operands[i]):
                self._fed.add(i)
            self._roots[i] = self._find_parameters(i)
            for o in dataflow.operands[i]:
                self._readers[o.buffer].append(i)

    def layers(self) -> tuple[Layer, ...]:
        """Return the layers of the program, ordered as in `_in_order`. Call it once, because it fills `keys`.

        A kernel without a layer joins that of its first reader, or else "whole step".
        """
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
        # Kernels without a layer, such as zeros to add to, join the layer of their first reader.
        for i in reversed(waiting):
            users = (u for b in self.dataflow.results[i] for u in self.dataflow.users.get((b, i), ()))
            self.keys[i] = next((self.keys[u] for u in users if u in self.keys), (WHOLE_STEP, 0))
        # Merged keys are one layer, ordered by its first kernel that depends on the batch. Random masks and moving
        # averages of weights come before the first layer and do not determine the order.
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
        """Return the keys of `members` in its order, which is that of first use, but with attention blocks moved.

        Each attention block comes directly after the last weight layer whose results its forward kernels read.
        """
        # Otherwise a layer that is used again with other samples would move the block after all of them.
        places = {key: n for n, key in enumerate(members)}
        behind: dict[_LayerKey, int] = {}
        for key in (key for key in members if key[0] == "attention"):
            forward = [i for i in members[key] if self.sweeps[i] == "forward"]
            sources = (o.source for i in forward for o in self.dataflow.operands[i])
            makers = {self._find(self.keys[s]) for s in sources if s in self.keys}
            behind[key] = max((places[m] for m in makers if m[0] == "weight"), default=places[key])
        return sorted(members, key=lambda key: (behind.get(key, places[key]), key in behind, places[key]))

    def _is_weight_preparation(self, i: int) -> bool:
        """Return whether a kernel computes something from weights only, such as a copy or an average.

        It is a loop nest of the forward sweep, or a cast or transpose of weights. Updates and kernels that depend on
        the batch are none. It joins the layer of its weight, which is determined after the kernels that read samples.
        """
        if i in self._fed or self.sweeps[i] == "update" or not self._roots[i]:
            return False
        # A product of weights only, such as two low-rank factors, is a layer.
        is_nest = self.sweeps[i] == "forward" and self.dataflow.program.instrs[i].kernel == "nest"
        return is_nest or i in self.dataflow.preparing

    def _key(self, i: int) -> _LayerKey | None:
        """Return the layer key of kernel `i`, or None if no operand determines one. May merge keys of weights.

        - kernels that compute a weight gradient, and products and other kernels than loop nests that read weights: the
          layer of the weight
        - products without weights: an attention block; updates: see `_update_key`
        - others: the layer of the maker of an operand. In the forward sweep a weight that such a kernel is the first to
          read, such as a bias, is merged with this layer
        - kernels of the batch only: a new key
        """
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
        # A bias or a scale belongs to the layer whose elements it is applied to.
        for p in roots if self.sweeps[i] == "forward" else ():
            own = ("weight", p)
            near = near or own
            if own not in self._same and own not in self._used:
                self._same[own] = self._find(near)
        if near is None and any(self.dataflow.kind(o.buffer) == "batch" for o in self.dataflow.operands[i]):
            return "kernel", i
        return near

    def _update_key(self, i: int) -> _LayerKey | None:
        """Return the key of an update: its parameter's, or "whole step" if it touches several parameters or none.

        Parameters count through their states of more than one element, and through gradients and tensors made from
        parameters.
        """
        dataflow = self.dataflow
        operands = dataflow.operands[i]
        touched = [self._starts.get(b, b) for b in (*dataflow.results[i], *[o.buffer for o in operands])]
        groups = {dataflow.groups[b] for b in touched if b in dataflow.groups and dataflow.type(b).size > 1}
        groups |= {dataflow.gradients[o] for o in operands if o in dataflow.gradients}
        groups |= {p for o in operands if o.source in self._roots for p in self._roots[o.source]}
        return ("weight", next(iter(groups))) if len(groups) == 1 else (WHOLE_STEP, 0)

    def _weight_key(self, groups: Iterable[int]) -> _LayerKey:
        """Return the common key of the parameters `groups` after merging their layers into that of the first one."""
        first, *others = (self._find(("weight", g)) for g in sorted(groups))
        # A kernel that reads several parameters, such as a norm, merges their layers.
        for other in others:
            if other != first:
                self._same[other] = first
        return first

    def _attention_key(self, i: int) -> _LayerKey:
        """Return the key of the attention block that a product of activations belongs to, or a new key.

        The block is that of the kernel which made an operand, or of another forward reader of it. A fused block is
        assigned by its first operand only. A backward product without such a block joins the layer that made an
        operand, if there is one.
        """
        operands = self.dataflow.operands[i]
        if operation_name(self.dataflow.program.instrs[i]) in ATTENTION_KERNELS:
            # All blocks may share a mask and the state of a generator, but queries belong to one block.
            operands = operands[:1]
        for o in operands:
            around = [o.source, *(r for r in self._readers[o.buffer] if r in self.keys)]
            keys = [self.keys[s] for s in around if s in self.keys and self.sweeps[s] == "forward"]
            if key := next((k for k in keys if k[0] == "attention"), None):
                return key
        # A product of gradients only belongs to the layer that made its first operand.
        if self.sweeps[i] == "backward" and (key := self._neighbour(i)):
            return key
        return "attention", i

    def _neighbour(self, i: int) -> _LayerKey | None:
        """Return the layer key of the last kernel that made an operand of kernel `i`, or None if no maker has a key.

        In the backward sweep forward makers that read samples are preferred. Makers that only process the batch are
        used last.
        """
        # Use the last maker: a sum with a residual stream belongs to the layer that ends with it.
        sources = [o.source for o in self.dataflow.operands[i] if o.source in self.keys]
        if self.sweeps[i] == "backward":
            sources = [
                s for s in sources if self.sweeps[s] == "forward" and s not in self.dataflow.preparing
            ] or sources
        # Kernels of the batch only, such as preprocessing of labels, are used if there is no other maker.
        sources = [s for s in sources if self.keys[s][0] != "kernel"] or sources
        return self.keys[max(sources)] if sources else None

    def _find(self, key: _LayerKey) -> _LayerKey:
        """Return the key that represents `key` after merging: `key` itself if it was not merged."""
        while key in self._same and self._same[key] != key:
            key = self._same[key]
        return key

    def _find_parameters(self, i: int) -> frozenset[int]:
        """Return the parameters that a kernel reads, directly or as prepared copies such as casts.

        Scalars and integer tensors are left out. An optimizer slot counts as its parameter.
        """
        roots: set[int] = set()
        for o in self.dataflow.operands[i]:
            kind = self.dataflow.type(o.buffer)
            # A scalar is a scale or a learning rate and no weight.
            if not kind.shape:
                continue
            if o.source in self.dataflow.preparing:
                roots |= self._roots[o.source]
            elif o.buffer in self.dataflow.groups and kind.dtype.is_floating_point:
                roots.add(self.dataflow.groups[o.buffer])
        return frozenset(roots)

    def _layer(self, key: _LayerKey, kernels: list[int], states: tuple[int, ...], has_product: bool) -> Layer:
        """Return the layer of a key with its kernels, in program order, and its state buffers.

        Its name and line are those of the first kernel that reads the weight, else of the first that depends on the
        batch.
        """
        dataflow, program = self.dataflow, self.dataflow.program
        # The kernel that reads the weight names the layer. A cast before it may be on another line.
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
        """Return "attention" for a fused block, "attention in parts" for an unfused one, and "" for other layers."""
        if key[0] != "attention":
            return ""
        operations = {operation_name(self.dataflow.program.instrs[i]) for i in kernels}
        return "attention" if operations.intersection(ATTENTION_KERNELS) else "attention in parts"

    def _inner(self, kernels: list[int]) -> frozenset[int]:
        """Return the buffers that these kernels compute and only these kernels read, except fetched and unread ones."""
        # Tensors that are fetched or read by another layer have to exist as a whole.
        own = set(kernels)
        results = {b: self._readers[b] for i in kernels for b in self.dataflow.results[i]}
        return frozenset(
            b for b, readers in results.items() if readers and own.issuperset(readers) and b not in self._asked_for
        )

    def _recomputed(self, kernels: list[int], inner: frozenset[int]) -> tuple[int, ...]:
        """Return the forward kernels among `kernels` that make `inner` tensors which backward needs, directly or not.

        They are in program order. Only needs through other `inner` tensors count.
        """
        needed = {o.buffer for i in kernels if self.sweeps[i] == "backward" for o in self.dataflow.operands[i]} & inner
        again: list[int] = []
        for i in reversed(kernels):
            if self.sweeps[i] == "forward" and needed.intersection(self.dataflow.results[i]):
                again.append(i)
                needed |= {o.buffer for o in self.dataflow.operands[i]} & inner
        return tuple(reversed(again))


def _layer_name(scope: str, label: str, attention: str) -> str:
    """Return the layer's name: "scope/attention" with both, else the one that is not empty, else `label`."""
    if attention:
        return f"{scope}/{attention}" if scope else attention
    return scope or label
