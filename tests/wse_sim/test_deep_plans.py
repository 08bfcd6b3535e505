"""Plans of deep nets: equal layers looked up once give what all of them give."""

from dataclasses import replace

import pytest

from lazytensor import abstract
from lazytensor.abstract import StepFamily
from lazytensor.compiler.pipeline import compile_graph
from lazytensor.ir import graph
from lazytensor.ir.graph_function import inlined
from lazytensor.ops import op
from tests.deep_nets import step_of
from wse_sim import plan
from wse_sim.plan.blocks import in_blocks
from wse_sim.plan.depth import depth_of
from wse_sim.plan.layers import fold
from wse_sim.plan.likes import MIDDLE, likes_of
from wse_sim.plan.modes.mode_plan import Readings
from wse_sim.plan.stages import computed_again
from wse_sim.plan.turns import Turns
from wse_sim.plan.wiring import is_alike, wire

SAMPLES = 4


@pytest.fixture(autouse=True)
def nothing_from_before(monkeypatch):
    """Equal nodes of other tests, with lines of their own, are not found again; afterwards they are."""
    monkeypatch.setattr(graph, "_table", {})
    monkeypatch.setattr(op, "_fulls", {})


def family(name, depth, program_of):
    """The family of a training step, of which `program_of(graph)` gives the programs."""
    step, batch = step_of(name, depth)

    def record(size):
        tensors = [abstract.tensor((size, *t.spec.shape[1:]), t.dtype) for t in batch]
        named = {str(k): t for k, t in enumerate(tensors)}
        return program_of(abstract.graph_of_step(lambda: step(*tensors), named))

    return StepFamily(SAMPLES, record(SAMPLES), record)


@pytest.mark.slow
def test_plan_of_a_deep_net_is_that_of_all_of_its_layers():
    # Of another batch than the recorded one: its program lies between two others.
    steps = (
        family("gpt", 16, abstract.program_of),
        family("gpt", 16, lambda g: compile_graph(inlined(g), abstract.PLANNED)),
    )
    reports = [plan(step, "tiny", "streaming", batch_size=64, other=False).report for step in steps]
    assert reports[0].streaming.fits
    assert reports[0].as_dict() == reports[1].as_dict()


@pytest.mark.slow
@pytest.mark.parametrize("name, depth", [("gpt", 16), ("windows", 29)])
@pytest.mark.parametrize("first, other, is_in_proportion", [(SAMPLES, 20, False), (12, 28, True)])
def test_deep_nets_are_wired_and_folded_alike_at_every_batch(name, depth, first, other, is_in_proportion):
    steps = family(name, depth, abstract.program_of)
    readings = Readings()
    readings.of(steps.program(first), 1)
    reading = readings.of(steps.program(other), 1)
    whole = wire(in_blocks(reading.program))
    assert is_alike(reading.wiring, whole)
    assert reading.wiring.program == whole.program
    assert reading.layers == fold(whole)
    assert reading.other is not None
    # Nor does it show which batch was looked up first.
    turns, alone = reading.turns, Turns(reading.streamed, reading.layers, reading.again)
    # A table of 20 rows looks like samples to batches that divide 20, and does not grow with them.
    assert (turns._like is not None) == is_in_proportion
    assert alone._like is None
    assert turns.every == alone.every
    assert turns.memory() == alone.memory() and turns.memory_with_recompute() == alone.memory_with_recompute()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, depth, is_even",
    [("gpt", 16, True), ("bert", 19, True), ("shared", 16, True), ("odd one", 40, True), ("residual", 16, False)],
)
def test_what_is_told_from_a_shallow_net_is_what_is_looked_up_of_the_deep_one(name, depth, is_even):
    reading = Readings().of(family(name, depth, abstract.program_of).first, 1)
    # Layers of a residual net have norms over samples, of which more is repeated than there are layers.
    assert (reading._depth is not None) == is_even
    whole = wire(in_blocks(reading.program))
    assert is_alike(reading.wiring, whole)
    assert reading.wiring.program == whole.program
    assert reading.layers == fold(whole)
    assert reading.again == computed_again(whole, fold(whole))


def test_a_layer_that_the_next_ones_do_not_repeat_is_not_told_of_them():
    few = Readings().of(family("gpt", 16, abstract.program_of).first, 1)._shallow
    assert few is not None
    deep, wiring = family("gpt", 16, abstract.program_of).first, few.wiring
    zones = next(likes_of(deep, wiring, few._blocked)).instrs.zones
    middle = next(i for i in wiring.kernels if zones[i] == MIDDLE)
    assert depth_of(deep, few._blocked, wiring, few.layers, few.again) is not None
    for change in ({"settling": wiring.settling ^ {middle}}, {"results": _without(wiring.results, middle)}):
        assert depth_of(deep, few._blocked, replace(wiring, **change), few.layers, few.again) is None


def _without(results, i):
    return (*results[:i], (), *results[i + 1 :])


@pytest.mark.slow
def test_records_that_no_batch_changes_are_the_same_in_the_programs_of_all():
    steps = family("gpt", 16, abstract.program_of)
    first, other = steps.first, steps.program(20)
    pairs = list(zip(first.instrs, other.instrs, strict=True))
    assert all(a is b for a, b in pairs if a.direction == "update")
    assert all((a is b) == (a == b) for a, b in zip(first.buffers, other.buffers, strict=True) if a.kind != "const")
    assert any(a != b for a, b in pairs)


def test_segment_goes_back_through_its_own_layers_alone():
    # A weight used at both ends has two turns forward, so that there are more turns than layers.
    program = family("gpt", 3, abstract.program_of).first
    turns = Readings().of(program, 1).turns
    ends = range(len(turns.forward))
    assert len(ends) > len({turn.number for turn in turns.forward})
    for end in ends:
        own = {turn.number for turn in turns.forward[end:]} - {turn.number for turn in turns.forward[end + 1 :]}
        assert {turn.number for turn in turns.backward_of(end, end)} <= own
