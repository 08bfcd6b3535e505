"""Group layers into stages for pipelined mode, and compute the memory and the transfers of each stage.

A layer without a product (a norm, an embedding, a dropout) is small. It shares the rectangle of the next layer with a
product. Activations are kept in the stage that made them until backward reads them. The number of samples in flight is
counted in stages: while a sample passes forward from its stage to the last one and back, one more sample enters for
each stage that it passes.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lazytensor.ir.types import Where
from wse_sim.planner.dataflow import EXTERNAL_SOURCE, BufferVersion, Dataflow, Sweep, is_elementwise
from wse_sim.planner.layers import Layer


@dataclass(frozen=True)
class Stage:
    """Layers on one rectangle. Byte counts are totals over all its PEs.

    - `layers`: the layers
    - `recomputed`: forward kernels that run again in the backward sweep
    - `state_bytes`: weights, their prepared copies, optimizer slots and gradients
    - `waiting_bytes`: activations of all samples in flight
    - `working_bytes`: what the current sample needs
    - `bytes_in`, `bytes_out`: bytes that enter and leave for each sample
    """

    layers: tuple[Layer, ...]
    recomputed: tuple[int, ...]
    state_bytes: int
    waiting_bytes: int
    working_bytes: int
    bytes_in: int
    bytes_out: int

    @property
    def name(self) -> str:
        """Return the name of its first layer with a product, else of its first layer."""
        return next((layer.name for layer in self.layers if layer.has_product), self.layers[0].name)

    @property
    def where(self) -> Where | None:
        """Return the script line of that layer, if it has one."""
        return next((layer.where for layer in self.layers if layer.has_product), self.layers[0].where)

    @property
    def held_bytes(self) -> int:
        """Return the sum of `state_bytes`, `waiting_bytes` and `working_bytes`."""
        return self.state_bytes + self.waiting_bytes + self.working_bytes

    def with_input_bytes(self, more: int) -> "Stage":
        """Return the stage with `more` additional bytes of input for each sample. `more` may be negative.

        The bytes are added to `bytes_in` and to `working_bytes`.
        """
        return replace(self, bytes_in=self.bytes_in + more, working_bytes=self.working_bytes + more)

    def kernels(self, sweep: Sweep) -> tuple[int, ...]:
        """Return the indices of the kernels of a sweep in all its layers, without recomputed ones."""
        return tuple(i for layer in self.layers for i in layer.kernels[sweep])


def computed_again(dataflow: Dataflow, layers: tuple[Layer, ...]) -> frozenset[BufferVersion]:
    """Return the elementwise forward results that the backward sweep recomputes instead of reading a saved copy.

    A per-sample result is recomputed if backward reads it, and if backward reads or recomputes all per-sample operands
    of its kernel. Results stay saved if their kernel reads a batch tensor or has no operand, and inside attention
    blocks. Examples of recomputed results are the output of an activation function, whose gradient needs the input too,
    and a cast. Recomputing costs vector operations. Saving would cost memory for as long as the sample is in flight.
    """
    sweeps = dataflow.sweeps
    inner = {b for layer in layers for b in layer.inner}
    # Compare versions, not buffers: a kernel may overwrite a buffer that it reads.
    backward = {o for i, sweep in sweeps.items() if sweep == "backward" for o in dataflow.operands[i]}
    again: set[BufferVersion] = set()
    for i, sweep in sweeps.items():
        if sweep != "forward" or not is_elementwise(dataflow.program.instrs[i]):
            continue
        versions = (BufferVersion(b, i) for b in dataflow.results[i])
        wanted = [v for v in versions if v in backward and v.buffer in dataflow.per_sample and v.buffer not in inner]
        # Every operand has to be available anyway: a weight, or a saved or recomputed tensor.
        kept = all(
            o.buffer not in dataflow.per_sample or (o.source != EXTERNAL_SOURCE and (o in backward or o in again))
            for o in dataflow.operands[i]
        )
        if wanted and kept and dataflow.operands[i]:
            again.update(wanted)
    return frozenset(again)


def stages_of(dataflow: Dataflow, layers: Sequence[Layer], again: frozenset[BufferVersion]) -> tuple[Stage, ...]:
    """Return the stages of a program with their memory and transfers, in the order of its layers.

    A stage ends with a layer that has a product. `again` are the results that backward recomputes.
    """
    census = _StageAnalysis(dataflow, tuple(_group_layers(layers)), again)
    return tuple(census.stage(n) for n in range(len(census.groups)))


def _group_layers(layers: Sequence[Layer]) -> Iterator[tuple[Layer, ...]]:
    """Yield the layers of each stage, in program order.

    A stage ends with a layer that has a product. The last stage includes all layers after it. Layers without any
    product form a single stage.
    """
    # Keep program order, so that successive layers are neighbours on the mesh.
    group: list[Layer] = []
    rest: list[tuple[Layer, ...]] = []
    for layer in layers:
        group.append(layer)
        if layer.has_product:
            rest.append(tuple(group))
            group = []
    # Layers after the last product join its stage.
    if group and rest:
        rest[-1] = (*rest[-1], *group)
    elif group:
        rest.append(tuple(group))
    yield from rest


def stage_depths(dataflow: Dataflow, number: dict[int, int]) -> dict[int, int]:
    """Return, for each kernel, the number of stages on the longest path of a sample up to it, including its own stage.

    `number` maps each kernel to its stage. Each step of a path to a kernel of another stage counts as one more stage.
    """
    depths: dict[int, int] = {}
    for i in dataflow.kernels:
        # A sample leaves when the slowest of its operands has arrived.
        own, depth = number[i], 1
        for _, s in dataflow.operands[i]:
            if s != EXTERNAL_SOURCE and (passed := depths[s] + (number[s] != own)) > depth:
                depth = passed
        depths[i] = depth
    return depths


def sample_bytes(dataflow: Dataflow, buffer: int) -> int:
    """Return the bytes of a tensor for one sample, rounded up, or all its bytes if it is not per sample."""
    size = dataflow.nbytes[buffer]
    return -(-size // dataflow.batch_size) if buffer in dataflow.per_sample else size


class _StageAnalysis:
    """Facts about a program that all its stages share.

    - `bytes`: bytes of each per-sample buffer for one sample
    - `made_again`: kernels that backward runs again
    - `number`: the stage of each kernel
    - `depths`: the number of stages on the longest path to each kernel
    - `middle`: the largest depth of a forward kernel
    - `gradient_bytes`: bytes of the largest gradient of each parameter
    """

    def __init__(self, dataflow: Dataflow, groups: tuple[tuple[Layer, ...], ...], again: frozenset[BufferVersion]):
        self.dataflow, self.groups, self.again = dataflow, groups, again
        self.bytes = {b: sample_bytes(dataflow, b) for b in dataflow.per_sample}
        self.made_again = {version.source for version in again}
        self.number = {i: n for n, group in enumerate(groups) for layer in group for i in layer.every_kernel}
        self.depths = stage_depths(dataflow, self.number)
        sweeps = dataflow.sweeps
        self.middle = max((d for i, d in self.depths.items() if sweeps[i] == "forward"), default=0)
        # A cast of a gradient replaces it, so only the largest one counts.
        self.gradient_bytes: dict[int, int] = {}
        for version, parameter in dataflow.gradients.items():
            size = dataflow.nbytes[version.buffer]
            self.gradient_bytes[parameter] = max(self.gradient_bytes.get(parameter, 0), size)

    def stage(self, n: int) -> Stage:
        """Return stage `n` with its memory and transfers.

        Its `working_bytes` are those of its largest kernel plus the inputs of the next sample, which arrive meanwhile.
        """
        group = self.groups[n]
        inner = frozenset(b for layer in group for b in layer.inner)
        kernels = [i for layer in group for i in layer.every_kernel]
        working, bytes_in = self._touched_bytes(n, kernels, inner)
        waiting, bytes_out = self._waiting(n, kernels, inner)
        # The next sample is received while the current one is processed.
        return Stage(
            layers=group,
            recomputed=self._recomputed(kernels),
            state_bytes=self._state_bytes(group),
            waiting_bytes=waiting,
            working_bytes=working + bytes_in,
            bytes_in=bytes_in,
            bytes_out=bytes_out,
        )

    def _touched_bytes(self, n: int, kernels: Sequence[int], inner: frozenset[int]) -> tuple[int, int]:
        """Return the bytes of a sample that the largest kernel of stage `n` uses, and the bytes that enter the stage.

        Only per-sample tensors count. The first number leaves out the tensors `inner` of attention blocks. The second
        one counts each tensor once, from another stage or from the batch.
        """
        entering: set[int] = set()
        # Kernels of a stage run one after the other, so only the largest counts.
        working = 0
        sizes, number = self.bytes, self.number
        for i in kernels:
            operands = self.dataflow.operands[i]
            touched = {*self.dataflow.results[i], *[buffer for buffer, _ in operands]}
            entering.update([buffer for buffer, source in operands if source == EXTERNAL_SOURCE or number[source] != n])
            working = max(working, sum([sizes[b] for b in touched if b in sizes and b not in inner]))
        return working, sum([sizes[b] for b in entering if b in sizes])

    def _recomputed(self, kernels: Sequence[int]) -> tuple[int, ...]:
        """Return the forward kernels of a stage that run again: first those in attention blocks, then elementwise ones.

        `kernels` are all kernels of the stage.
        """
        inside = (i for layer in self.groups[self.number[kernels[0]]] for i in layer.recomputed)
        return (*inside, *(i for i in kernels if i in self.made_again))

    def _waiting(self, n: int, kernels: Sequence[int], inner: frozenset[int]) -> tuple[int, int]:
        """Return (bytes of activations that stage `n` keeps for samples in flight, bytes that it sends per sample).

        A result is kept once for each stage that a sample passes from its maker to its last reader. For a recomputed
        result only forward readers count. A result is sent once if any other stage reads it. Only per-sample tensors
        that are not `inner` to an attention block count.
        """
        waiting = bytes_out = 0
        results, users_of, depths, number = self.dataflow.results, self.dataflow.users, self.depths, self.number
        sizes, again, middle = self.bytes, self.again, self.middle
        for i in kernels:
            depth = depths[i]
            for b in results[i]:
                size = sizes.get(b)
                if size is None or b in inner:
                    continue
                # A tensor that only this stage reads, at the same depth, is not kept for further samples. Only readers
                # of this version count, because another kernel may overwrite the buffer afterwards.
                version, last = (b, i), depth
                users, is_again = users_of.get(version, ()), version in again
                for at in [depths[r] for r in users]:
                    # A recomputed tensor is kept for its forward readers only.
                    if at > last and not (is_again and at > middle):
                        last = at
                waiting += (last - depth) * size
                bytes_out += size if [r for r in users if number[r] != n] else 0
        return waiting, bytes_out

    def _state_bytes(self, group: Sequence[Layer]) -> int:
        """Return the bytes of states, of prepared copies of them, and of one gradient for each parameter.

        A prepared copy is a cast or a transpose. If a gradient exists in several types, the largest one counts.
        """
        dataflow = self.dataflow
        nbytes, preparing = dataflow.nbytes, dataflow.preparing
        states = sum([nbytes[b] for layer in group for b in layer.states])
        # A half-precision copy exists in addition to the weight that the update works on.
        copies = {b for layer in group for i in layer.every_kernel if i in preparing for b in dataflow.results[i]}
        gradients = sum(self.gradient_bytes.get(p, 0) for layer in group for p in layer.parameters)
        return states + sum([nbytes[b] for b in copies]) + gradients


def unique_stage_names(stages: Sequence[Stage]) -> list[str]:
    """Return a name for each stage. Stages with the same name get " 1", " 2" and so on appended, in order."""
    total = Counter(stage.name for stage in stages)
    so_far = Counter[str]()
    lanes = []
    for stage in stages:
        so_far[stage.name] += 1
        lanes.append(f"{stage.name} {so_far[stage.name]}" if total[stage.name] > 1 else stage.name)
    return lanes
