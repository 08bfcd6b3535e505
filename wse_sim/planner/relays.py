"""Relays: routes that pass a shared tensor from stage to stage instead of sending it to each reader separately.

Normally a tensor that skips stages has a separate route to each reader, and its gradients have as many routes back. If
every layer reads a position bias, a mask or an encoder output, no mesh has enough colours for these routes. In a relay
one route leads from the maker to the nearest reader, the next one from there to the following reader, and so on.
Routers on the way forward the data and deliver it to their core at no cost in cycles.

Partial sums use the same scheme in reverse: each maker adds its part to the sum that it receives and passes it on, from
the farthest maker to the nearest. The total path is as long as that to the farthest reader only, but links between
neighbours carry more data.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from lazytensor.ir.nest import Access, Nest
from wse_sim.planner.dataflow import EXTERNAL_SOURCE, BufferVersion, Dataflow
from wse_sim.planner.stages import Stage, sample_bytes

StageFlows = Mapping[tuple[int, int], int]
"""(source stage, target stage) -> bytes for each sample."""


def relay_flows(dataflow: Dataflow, stages: Sequence[Stage]) -> StageFlows:
    """Return (source stage, target stage) -> bytes for each sample if shared tensors and sums are relayed.

    The result has the form of `routing.stage_flows`. Each relay has two lines of stages: those after the maker, and
    those before it, nearest first.
    """
    number = {i: n for n, stage in enumerate(stages) for layer in stage.layers for i in layer.every_kernel}
    between: dict[tuple[int, int], int] = defaultdict(int)
    sums = list(_find_sums(dataflow, number))
    for target, makers, size in sums:
        for side in _stages_by_side(target, makers):
            for ends in pairwise([*reversed(side), target]):
                between[ends] += size
    added = {version for _, makers, _ in sums for version in makers.values()}
    for version, users in ((BufferVersion(*ends), users) for ends, users in dataflow.users.items()):
        if _is_flow(dataflow, version) and version not in added:
            source, size = number[version.source], sample_bytes(dataflow, version.buffer)
            for side in _stages_by_side(source, {number[i] for i in users}):
                for ends in pairwise([source, *side]):
                    between[ends] += size
    return dict(between)


def _is_flow(dataflow: Dataflow, version: BufferVersion) -> bool:
    """Return whether a version is a per-sample tensor that a kernel of the program made."""
    return version.source != EXTERNAL_SOURCE and version.buffer in dataflow.per_sample


def _stages_by_side(stage: int, others: Collection[int]) -> list[list[int]]:
    """Return the stages of `others` after `stage` and those before it as two lists, nearest first.

    Empty lists, and `stage` itself, are left out.
    """
    behind, before = (n for n in sorted(others) if n > stage), (n for n in sorted(others, reverse=True) if n < stage)
    return [side for side in (list(behind), list(before)) if side]


def _find_sums(dataflow: Dataflow, number: Mapping[int, int]) -> Iterator[tuple[int, Mapping[int, BufferVersion], int]]:
    """Yield (stage, maker stage -> part, bytes of a part per sample) for each sum whose parts can be relayed.

    A part is made in another stage than that of the sum, and only its own stage may read it too. Parts of a sum have to
    be of equal size and be accessed alike. Of several parts from one stage only the first is included. Sums of one part
    are left out.
    """
    for i in dataflow.kernels:
        nest, operands = dataflow.program.instrs[i].nest, dataflow.operands[i]
        # Duplicate operands are listed once, so positions would not match the nest's inputs.
        if nest is None or len(operands) != len(nest.inputs):
            continue
        for slots in _find_sum_operands(nest):
            # A maker can only add parts that have the same layout as its own.
            parts: dict[tuple[int, Access], dict[int, BufferVersion]] = defaultdict(dict)
            for slot in slots:
                version = operands[slot]
                if not _is_flow(dataflow, version):
                    continue
                maker = number[version.source]
                # The stage that makes a part may read it too.
                if {i} == {user for user in dataflow.users[version] if number[user] != maker}:
                    # Of two parts from one stage, the second keeps its separate route.
                    parts[sample_bytes(dataflow, version.buffer), nest.reads[slot]].setdefault(maker, version)
            for (size, _), makers in parts.items():
                if len(makers) > 1:
                    yield number[i], makers, size


def _find_sum_operands(nest: Nest) -> Iterator[Sequence[int]]:
    """Yield, for each sum in the body of a nest, the numbers of its operands that are used only in this sum.

    Nested additions count as one sum. Sums with fewer than two such operands are left out.
    """
    uses = Counter([a for scalar in nest.body for a in scalar.args] + [store.value for store in nest.stores])
    loads = Counter(scalar.attr for scalar in nest.body if scalar.op == "load")
    # For each scalar, the operands that it sums, unless another sum includes it.
    sums: dict[int, list[int]] = {}
    for n, scalar in enumerate(nest.body):
        if scalar.op == "load" and loads[scalar.attr] == 1:
            sums[n] = [scalar.attr]
        elif scalar.op == "add":
            sums[n] = [slot for a in scalar.args if uses[a] == 1 for slot in sums.pop(a, ())]
    yield from (slots for slots in sums.values() if len(slots) > 1)
