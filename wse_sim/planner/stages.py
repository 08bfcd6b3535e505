"""Stages: layers as pipelined mode places them, with what each holds and what flows between them.

A layer without a product (a norm, an embedding, a dropout) is tiny beside one with: it shares the rectangle of the next
layer that has one. Activations wait in the stage that made them. How long is counted in stages: while a sample goes
from its forward stage to the last one and back, one more sample enters with each stage that it passes.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lazytensor.ir.types import Where
from wse_sim.planner.dataflow import EXTERNAL_SOURCE, BufferVersion, Dataflow, Sweep, is_elementwise
from wse_sim.planner.layers import Layer


@dataclass(frozen=True)
class Stage:
    """Layers on one rectangle. Bytes are of all its PEs together.

    `recomputed` are forward kernels that run again in the backward sweep. `state_bytes` are weights, the copies
    prepared of them, what the optimizer keeps, and gradients; `waiting_bytes` are activations of all samples in flight;
    `working_bytes` is what the sample that is worked on needs; `bytes_in` and `bytes_out` cross its border for each
    sample.
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
        """That of its layer with a product."""
        return next((layer.name for layer in self.layers if layer.has_product), self.layers[0].name)

    @property
    def where(self) -> Where | None:
        """The line of that layer."""
        return next((layer.where for layer in self.layers if layer.has_product), self.layers[0].where)

    @property
    def held_bytes(self) -> int:
        """All that its PEs hold."""
        return self.state_bytes + self.waiting_bytes + self.working_bytes

    def with_input_bytes(self, more: int) -> "Stage":
        """The stage where so many bytes more come in for each sample, or fewer."""
        return replace(self, bytes_in=self.bytes_in + more, working_bytes=self.working_bytes + more)

    def kernels(self, sweep: Sweep) -> tuple[int, ...]:
        """The kernels of a sweep."""
        return tuple(i for layer in self.layers for i in layer.kernels[sweep])


def computed_again(dataflow: Dataflow, layers: tuple[Layer, ...]) -> frozenset[BufferVersion]:
    """What forward kernels make once more for the backward sweep: results of one element of kept tensors each.

    The output of an activation function is such a result, as its gradient keeps the input; so is a cast. It costs
    vector operations where keeping it would cost memory for as long as a sample is on its way.
    """
    sweeps = dataflow.sweeps
    inner = {b for layer in layers for b in layer.inner}
    # A kernel may write over what it reads: that the backward sweep reads a buffer says nothing of what was there
    # before.
    backward = {o for i, sweep in sweeps.items() if sweep == "backward" for o in dataflow.operands[i]}
    again: set[BufferVersion] = set()
    for i, sweep in sweeps.items():
        if sweep != "forward" or not is_elementwise(dataflow.program.instrs[i]):
            continue
        versions = (BufferVersion(b, i) for b in dataflow.results[i])
        wanted = [v for v in versions if v in backward and v.buffer in dataflow.per_sample and v.buffer not in inner]
        # Every operand has to be there: a weight, or what the backward sweep reads, or makes again, in any case.
        kept = all(
            o.buffer not in dataflow.per_sample or (o.source != EXTERNAL_SOURCE and (o in backward or o in again))
            for o in dataflow.operands[i]
        )
        if wanted and kept and dataflow.operands[i]:
            again.update(wanted)
    return frozenset(again)


def stages_of(dataflow: Dataflow, layers: Sequence[Layer], again: frozenset[BufferVersion]) -> tuple[Stage, ...]:
    """The stages of a program, in the order of its layers; `again` is what the backward sweep computes again."""
    census = _StageAnalysis(dataflow, tuple(_group_layers(layers)), again)
    return tuple(census.stage(n) for n in range(len(census.groups)))


def _group_layers(layers: Sequence[Layer]) -> Iterator[tuple[Layer, ...]]:
    # In the order of the program, so that neighbours in it stay neighbours on the mesh.
    group: list[Layer] = []
    rest: list[tuple[Layer, ...]] = []
    for layer in layers:
        group.append(layer)
        if layer.has_product:
            rest.append(tuple(group))
            group = []
    # What comes after the last product lies with it.
    if group and rest:
        rest[-1] = (*rest[-1], *group)
    elif group:
        rest.append(tuple(group))
    yield from rest


def stage_depths(dataflow: Dataflow, number: dict[int, int]) -> dict[int, int]:
    """The number of stages that a sample has passed when it leaves each kernel, on the longest path."""
    depths: dict[int, int] = {}
    for i in dataflow.kernels:
        # Longest path, not shortest: a sample leaves when the slowest of its operands has come.
        own, depth = number[i], 1
        for _, s in dataflow.operands[i]:
            if s != EXTERNAL_SOURCE and (passed := depths[s] + (number[s] != own)) > depth:
                depth = passed
        depths[i] = depth
    return depths


def sample_bytes(dataflow: Dataflow, buffer: int) -> int:
    """Bytes of a tensor for one sample, or of all of it if it is not cut into samples."""
    size = dataflow.nbytes[buffer]
    return -(-size // dataflow.batch_size) if buffer in dataflow.per_sample else size


class _StageAnalysis:
    """Who reads and who made each tensor, looked up once for all stages."""

    def __init__(self, dataflow: Dataflow, groups: tuple[tuple[Layer, ...], ...], again: frozenset[BufferVersion]):
        self.dataflow, self.groups, self.again = dataflow, groups, again
        # Of what flows through the stages, for each sample.
        self.bytes = {b: sample_bytes(dataflow, b) for b in dataflow.per_sample}
        self.made_again = {version.source for version in again}
        self.number = {i: n for n, group in enumerate(groups) for layer in group for i in layer.every_kernel}
        self.depths = stage_depths(dataflow, self.number)
        # Where the way back begins: the depth of the last kernel that only knows what is before it.
        sweeps = dataflow.sweeps
        self.middle = max((d for i, d in self.depths.items() if sweeps[i] == "forward"), default=0)
        # The largest of a parameter's gradients: a cast of it takes the place of what it was made from.
        self.gradient_bytes: dict[int, int] = {}
        for version, parameter in dataflow.gradients.items():
            size = dataflow.nbytes[version.buffer]
            self.gradient_bytes[parameter] = max(self.gradient_bytes.get(parameter, 0), size)

    def stage(self, n: int) -> Stage:
        """Stage `n`, with what it holds."""
        group = self.groups[n]
        inner = frozenset(b for layer in group for b in layer.inner)
        kernels = [i for layer in group for i in layer.every_kernel]
        working, bytes_in = self._touched_bytes(n, kernels, inner)
        waiting, bytes_out = self._waiting(n, kernels, inner)
        # What comes in is received while the sample before is worked on.
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
        """Bytes that the kernels of stage `n` work on for a sample, and bytes that come into it."""
        entering: set[int] = set()
        # Kernels of a stage follow one another on a sample, so that the largest alone counts.
        working = 0
        sizes, number = self.bytes, self.number
        for i in kernels:
            operands = self.dataflow.operands[i]
            touched = {*self.dataflow.results[i], *[buffer for buffer, _ in operands]}
            entering.update([buffer for buffer, source in operands if source == EXTERNAL_SOURCE or number[source] != n])
            working = max(working, sum([sizes[b] for b in touched if b in sizes and b not in inner]))
        return working, sum([sizes[b] for b in entering if b in sizes])

    def _recomputed(self, kernels: Sequence[int]) -> tuple[int, ...]:
        inside = (i for layer in self.groups[self.number[kernels[0]]] for i in layer.recomputed)
        return (*inside, *(i for i in kernels if i in self.made_again))

    def _waiting(self, n: int, kernels: Sequence[int], inner: frozenset[int]) -> tuple[int, int]:
        """Bytes of activations that wait in stage `n`, and bytes that leave it for each sample."""
        waiting = bytes_out = 0
        results, users_of, depths, number = self.dataflow.results, self.dataflow.users, self.depths, self.number
        sizes, again, middle = self.bytes, self.again, self.middle
        for i in kernels:
            depth = depths[i]
            for b in results[i]:
                size = sizes.get(b)
                if size is None or b in inner:
                    continue
                # What only this stage reads, before the next sample comes, waits for nothing.
                # Readers of this version: another kernel may write over the buffer when they are done.
                version, last = (b, i), depth
                users, is_again = users_of.get(version, ()), version in again
                for at in [depths[r] for r in users]:
                    # Kept for those that come before the way back, and computed again for the others.
                    if at > last and not (is_again and at > middle):
                        last = at
                waiting += (last - depth) * size
                bytes_out += size if [r for r in users if number[r] != n] else 0
        return waiting, bytes_out

    def _state_bytes(self, group: Sequence[Layer]) -> int:
        """Bytes of states, of the copies prepared of them, and of one gradient for each parameter."""
        dataflow = self.dataflow
        nbytes, preparing = dataflow.nbytes, dataflow.preparing
        states = sum([nbytes[b] for layer in group for b in layer.states])
        # A half-precision copy lies beside the weight that the update works on.
        copies = {b for layer in group for i in layer.every_kernel if i in preparing for b in dataflow.results[i]}
        gradients = sum(self.gradient_bytes.get(p, 0) for layer in group for p in layer.parameters)
        return states + sum([nbytes[b] for b in copies]) + gradients


def unique_stage_names(stages: Sequence[Stage]) -> list[str]:
    """A name for each stage: its own, with a number where several have the same, as in a step without modules."""
    total = Counter(stage.name for stage in stages)
    so_far = Counter[str]()
    lanes = []
    for stage in stages:
        so_far[stage.name] += 1
        lanes.append(f"{stage.name} {so_far[stage.name]}" if total[stage.name] > 1 else stage.name)
    return lanes
