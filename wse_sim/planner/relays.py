"""Relays: what many stages read is handed on from one to the next, and what one stage adds up is added up on the way.

A tensor that skips stages has a route of its own to each reader, and the gradients that come back of it have as many:
where a position bias, a mask or what an encoder gives is read by every layer behind, no mesh has the colours for that.
In a relay a route goes from the maker to the nearest reader, from there to the next, and so on: routers there pass on
what they give to their own cores, which takes these no time. A sum of tensors that no other stage reads comes the same
way, from the farthest maker to the nearest; each adds its own part, and takes in what comes to it for that. Ways
are as long as the farthest one alone, and links between neighbours pass more.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from lazytensor.ir.nest import Access, Nest
from wse_sim.planner.dataflow import EXTERNAL_SOURCE, BufferVersion, Dataflow
from wse_sim.planner.stages import Stage, sample_bytes

StageFlows = Mapping[tuple[int, int], int]
"""(stage, stage) -> bytes for each sample."""


def relay_flows(dataflow: Dataflow, stages: Sequence[Stage]) -> StageFlows:
    """Bytes for each sample from stage to stage, as `routing.stage_flows` has them, but in relays."""
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
    return version.source != EXTERNAL_SOURCE and version.buffer in dataflow.per_sample


def _stages_by_side(stage: int, others: Collection[int]) -> list[list[int]]:
    """Other stages before one and those behind it, the nearest first."""
    behind, before = (n for n in sorted(others) if n > stage), (n for n in sorted(others, reverse=True) if n < stage)
    return [side for side in (list(behind), list(before)) if side]


def _find_sums(dataflow: Dataflow, number: Mapping[int, int]) -> Iterator[tuple[int, Mapping[int, BufferVersion], int]]:
    """(stage, maker of each part -> part, bytes of a part for each sample) of sums of what no other stage reads."""
    for i in dataflow.kernels:
        nest, operands = dataflow.program.instrs[i].nest, dataflow.operands[i]
        # Operands that are one tensor stand there once, and then their places tell nothing.
        if nest is None or len(operands) != len(nest.inputs):
            continue
        for slots in _find_sum_operands(nest):
            # Makers add up what lies as their own part does.
            parts: dict[tuple[int, Access], dict[int, BufferVersion]] = defaultdict(dict)
            for slot in slots:
                version = operands[slot]
                if not _is_flow(dataflow, version):
                    continue
                maker = number[version.source]
                # Who makes a part may read it too.
                if {i} == {user for user in dataflow.users[version] if number[user] != maker}:
                    # Of two that one stage makes the second keeps its own way.
                    parts[sample_bytes(dataflow, version.buffer), nest.reads[slot]].setdefault(maker, version)
            for (size, _), makers in parts.items():
                if len(makers) > 1:
                    yield number[i], makers, size


def _find_sum_operands(nest: Nest) -> Iterator[Sequence[int]]:
    """The operands of each sum in a body: those that are loaded for nothing else, and whose sums are."""
    uses = Counter([a for scalar in nest.body for a in scalar.args] + [store.value for store in nest.stores])
    loads = Counter(scalar.attr for scalar in nest.body if scalar.op == "load")
    # By scalar: the operands of which it is the sum, and of those that nothing has added up further.
    sums: dict[int, list[int]] = {}
    for n, scalar in enumerate(nest.body):
        if scalar.op == "load" and loads[scalar.attr] == 1:
            sums[n] = [scalar.attr]
        elif scalar.op == "add":
            sums[n] = [slot for a in scalar.args if uses[a] == 1 for slot in sums.pop(a, ())]
    yield from (slots for slots in sums.values() if len(slots) > 1)
