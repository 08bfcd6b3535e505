"""Relays: what many stages read is handed on, what one stage adds up is added up on the way, and nothing is lost."""

import sys
from collections import Counter, defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor import nn
from lazytensor.core import abstract_step
from lazytensor.ir.nest import Access, Loop, Nest, NestStore, Scalar
from lazytensor.ir.types import Type
from lazytensor.nn import functional as F
from tests.recorded_steps import recorded
from tests.wse_sim.programs import quick
from wse_sim import WSE2, plan
from wse_sim.planner.modes.mode_plan import ProgramAnalysis
from wse_sim.planner.relays import _find_sum_operands, relay_flows
from wse_sim.planner.routing import stage_flows


class Shared(nn.Module):
    """Layers each of which reads what one of the first made, beside what comes from the layer before."""

    def __init__(self, width: int, readings: list[int]):
        super().__init__()
        self.readings = readings
        self.first = nn.ModuleList(nn.Linear(width, width) for _ in range(max(readings) + 1))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in readings)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        shared = [F.relu(layer(x)) for layer in self.first]
        for layer, n in zip(self.layers, self.readings, strict=True):
            x = F.relu(layer(x) + shared[n])
        return x


def step_of(width: int, readings: list[int]):
    with abstract_step.mode():
        model = Shared(width, readings)
    return recorded(model, (width,))


def read(readings: list[int]) -> ProgramAnalysis:
    return ProgramAnalysis(step_of(16, readings).program(8), 1)


def received(flows):
    sizes = Counter()
    for (_, target), size in flows.items():
        sizes[target] += size
    return sizes


@quick
@given(readings=st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_all_that_is_read_comes_to_its_readers_and_no_byte_more_is_sent(readings):
    reading = read(readings)
    direct, relayed = (flows(reading.dataflow, reading.stages) for flows in (stage_flows, relay_flows))
    assert sum(relayed.values()) == sum(direct.values())
    # Whoever reads is reached from whoever makes.
    onward = defaultdict(set)
    for source, target in relayed:
        onward[source].add(target)
    for source, target in direct:
        reached, rest = set(), [source]
        while rest:
            for n in onward[rest.pop()] - reached:
                reached.add(n)
                rest.append(n)
        assert target in reached
    # And what nobody adds up for it comes in whole.
    own, on_the_way = received(direct), received(relayed)
    fewer = [n for n in own if on_the_way[n] < own[n]]
    assert all(sum(target == n for _, target in direct) > 2 for n in fewer)


def test_a_tensor_goes_from_reader_to_reader_and_its_gradients_are_added_up_on_the_way_back():
    reading = read([0, 0, 0, 0])
    direct, relayed = (flows(reading.dataflow, reading.stages) for flows in (stage_flows, relay_flows))
    # Stage 1 makes what it and the three behind it read: 16 numbers of four bytes for each sample.
    assert {(1, 2), (1, 3), (1, 4), (2, 1), (3, 1), (4, 1)} <= set(direct)
    onward = {(0, 1): 64, (1, 2): 128, (2, 3): 128, (3, 4): 128}
    assert relayed == onward | {(target, source): size for (source, target), size in onward.items()}


@pytest.mark.parametrize(
    ("body", "sums"),
    [
        ((("load", 0), ("load", 1), ("add", 0, 1), ("load", 2), ("add", 2, 3)), [[0, 1, 2]]),
        ((("load", 0), ("load", 1), ("mul", 0, 1), ("load", 2), ("add", 2, 3)), []),
        ((("load", 0), ("load", 1), ("add", 0, 1), ("mul", 2, 2)), [[0, 1]]),
        # What is read for something else too has to come alone: by one load or by two.
        ((("load", 0), ("load", 1), ("add", 0, 1), ("mul", 1, 2)), []),
        ((("load", 0), ("load", 1), ("add", 0, 1), ("load", 1), ("mul", 2, 3)), []),
        # And of a sum that is read twice nothing is added up further.
        ((("load", 0), ("load", 1), ("add", 0, 1), ("load", 2), ("add", 2, 3), ("mul", 2, 4)), [[0, 1]]),
    ],
)
def test_a_sum_is_of_operands_that_are_loaded_for_it_alone(body, sums):
    scalars = tuple(
        Scalar("load", lt.float32, (), rest[0]) if op == "load" else Scalar(op, lt.float32, rest) for op, *rest in body
    )
    vector, access = Type((4,), lt.float32), Access((1,))
    nest = Nest(
        name="sum",
        loops=(Loop("i", 4),),
        inputs=(vector,) * 3,
        outputs=(vector,),
        reads=(access,) * 3,
        writes=(access,),
        body=scalars,
        stores=(NestStore(0, len(scalars) - 1),),
    )
    assert list(_find_sum_operands(nest)) == sums


def test_a_tensor_that_each_stage_reads_alone_goes_straight_to_it():
    with abstract_step.mode():
        model = nn.Sequential(*(m for _ in range(5) for m in (nn.Linear(8, 8), nn.ReLU())))
    reading = ProgramAnalysis(recorded(model, (8,)).program(4), 1)
    assert relay_flows(reading.dataflow, reading.stages) == stage_flows(reading.dataflow, reading.stages)


SHARING = [n % 4 for n in range(27)]
MESH = replace(WSE2, width=120, height=80, reserved_columns=0, reserved_rows=0)


@pytest.fixture(scope="module")
def sharing():
    return step_of(24, SHARING)


@pytest.mark.slow
def test_what_many_stages_read_fits_in_relays_where_routes_to_all_of_them_find_no_colours(sharing, monkeypatch):
    relayed = plan(sharing, MESH, "pipelined", 64, other=False).pipelined
    assert relayed.report.fits and relayed.report.router_colours <= MESH.colours
    ends = {(route.source, route.target) for route in relayed.routes.routes}
    reading = ProgramAnalysis(sharing.program(64), 1)
    assert ends == set(relay_flows(reading.dataflow, reading.stages))

    monkeypatch.setattr(sys.modules["wse_sim.planner.modes.pipelined"]._PricedPipeline, "relayed", lambda line: None)
    assert (
        "no colour is free on the whole route" in plan(sharing, MESH, "pipelined", 64, other=False).report.chosen.reason
    )


@pytest.mark.slow
def test_a_stage_that_adds_up_on_the_way_takes_in_what_comes_to_it(sharing):
    line_of = sys.modules["wse_sim.planner.modes.pipelined"]._PricedPipeline
    seen = []

    def relayed(line, own=line_of.relayed):
        seen.append((line, own(line)))
        return seen[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_of, "relayed", relayed)
        plan(sharing, MESH, "pipelined", 64, other=False)
    line, other = seen[0]
    came, comes = ([stage.bytes_in for stage in each.stages] for each in (line, other))
    assert sum(came) == sum(comes) and came != comes and min(comes) > 0
    assert [two.held_bytes - one.held_bytes for one, two in zip(line.stages, other.stages, strict=True)] == [
        two - one for one, two in zip(came, comes, strict=True)
    ]
    slower = [n for n, (a, b) in enumerate(zip(came, comes, strict=True)) if b > a]
    assert slower
    for n in slower:
        assert other.stage_costs(n, 3, 3).steady.cycles >= line.stage_costs(n, 3, 3).steady.cycles
