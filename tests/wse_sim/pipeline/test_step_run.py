"""Whole steps of small pipelines on simulated cores, in one simulation each, give the numbers of the host."""

import os
from dataclasses import replace
from statistics import median
from types import SimpleNamespace

import numpy as np
import pytest

import lazytensor as lt
from lazytensor import nn
from lazytensor.config import override
from lazytensor.errors import LazyError, PlacementError
from lazytensor.runtime.host import HostBackend
from tests.wse_sim.kernels.kernel_rows import EPSILON
from tests.wse_sim.pipeline.small_pipelines import Case, drawn, shelved, step_of
from tests.wse_sim.programs import Builder
from tests.wse_sim.small_nets import Cells
from wse_sim.backends.pipeline_backend import PipelineBackend
from wse_sim.layout import Rect
from wse_sim.machine import TINY, WSE2
from wse_sim.pipeline import cost
from wse_sim.pipeline.cost import price_step
from wse_sim.pipeline.layer_chain import chain_of
from wse_sim.pipeline.layer_placement import sites_of
from wse_sim.pipeline.step_run import run_pipeline
from wse_sim.planner.modes import plan

SEEDS = range(50) if os.environ.get("CAMPAIGN") else (6, 8, 9)
"""The campaign runs all; the suite some of the quick ones, with two to five layers and two activations."""
LARGEST_ERROR = 0.1
LOSS_ULP, ARRAY_ULP = 4, 64
"""How far a loss may be off in units of its last place, and an array in those of its largest element, as in
`test_mesh_backend_nets`: sums run in another order on the cores.
"""


def hold_to_host(case: Case, rects, is_training: bool = True):
    """Run a case, and hold what it leaves to what the host computes."""
    program, store, batch = step_of(case, is_training)
    theirs = Cells(store, program.state)
    run = run_pipeline(program, Cells(store, program.state), batch, rects, WSE2, case.micro)
    with override(jit=False):
        expected = HostBackend().compile(program, theirs).step(batch)
    for ours, host in zip(run.fetches, expected, strict=True):
        ulp = ARRAY_ULP if host.shape else LOSS_ULP
        assert np.abs(ours - host).max() <= ulp * EPSILON["float32"] * np.abs(host).max()
    for name, array in run.state.items():
        host = theirs.cells[name]
        assert np.abs(array - host).max() <= ARRAY_ULP * EPSILON["float32"] * np.abs(host).max(), name
    return run


@pytest.mark.slow
def test_two_layers_forward_on_two_rectangles_give_the_hosts_numbers():
    run = hold_to_host(Case((12, 9, 7), batch=4, micro=2), [Rect(0, 0, 3, 4), Rect(4, 1, 4, 3)], is_training=False)
    assert run.cycles == run.result.finished.max()


@pytest.mark.slow
def test_training_steps_of_random_pipelines_give_the_hosts_numbers_in_the_time_of_their_price():
    errors = []
    for seed in SEEDS:
        run = hold_to_host(*drawn(seed))
        errors.append(price_step(run.sites, WSE2).cycles / run.cycles - 1)
    sizes = sorted(map(abs, errors))
    print(f"{len(errors)} pipelines: median {median(sizes):.2%}, largest {sizes[-1]:.2%}")
    assert sizes[-1] <= LARGEST_ERROR


@pytest.mark.slow
def test_default_report_of_a_small_pipeline_is_within_a_tenth_of_its_run():
    errors = []
    for seed in SEEDS[:1] if len(SEEDS) < 50 else SEEDS:
        case, _ = drawn(seed)
        side = 8 + seed % 3 * 4
        machine = replace(WSE2, width=WSE2.reserved_columns + side, height=WSE2.reserved_rows + side)
        pipelined = plan(step_of(case)[0], machine, "pipelined", other=False).pipelined
        assert pipelined.report.is_as_run, pipelined.report.not_run
        assert pipelined.timeline.end_cycles == pipelined.report.step_cycles
        micro = case.batch // pipelined.report.micro_batches
        run = hold_to_host(replace(case, micro=micro), pipelined.placement.rects)
        errors.append(pipelined.report.step_cycles / run.cycles - 1)
    sizes = sorted(map(abs, errors))
    print(f"{len(errors)} reports: median {median(sizes):.2%}, largest {sizes[-1]:.2%}")
    assert sizes[-1] <= LARGEST_ERROR


def test_report_of_what_is_no_chain_says_what_cores_do_not_run():
    b = Builder()
    x, weight = b.input((4, 8)), b.weight("w", (8, 8))
    b.fetches.append(b.call("softmax", [b.matmul(x, weight)], [(4, 8)], flops=32))
    program = b.program()
    report = plan(program, TINY, "pipelined").report
    assert report.pipelined.fits
    assert not report.pipelined.is_as_run
    assert report.pipelined.not_run.startswith("softmax is not a part of a chain of layers")
    assert "simulated cores do not run the step: softmax" in report.text()
    with pytest.raises(PlacementError, match="does not run on tiny: softmax is not a part of a chain of layers"):
        PipelineBackend(TINY).compile(program, Cells({}, {}))


class ScaledByElement(nn.Module):
    """Two layers with one element of a vector between them."""

    def __init__(self, at: int):
        super().__init__()
        self.at, self.first, self.second = at, nn.Linear(8, 6), nn.Linear(6, 4)
        self.scales = nn.Parameter(lt.arange(6.0))

    def forward(self, x):
        return self.second(self.first(x) * self.scales[self.at])


@pytest.mark.parametrize("at", [0, 3])
def test_element_of_a_vector_is_no_operand_of_a_chain(at):
    program = lt.trace(ScaledByElement(at), lt.ones(4, 8))
    with pytest.raises(PlacementError, match=rf"reads element {at} of \[6\]"):
        PipelineBackend(TINY).compile(program, Cells({}, {}))


@pytest.mark.slow
def test_samples_of_a_pipeline_overlap():
    rects = shelved([(4, 4)] * 3)
    whole = hold_to_host(Case((24, 24, 24, 4), batch=8, micro=8), rects)
    parts = hold_to_host(Case((24, 24, 24, 4), batch=8, micro=2), rects)
    assert parts.cycles < whole.cycles


@pytest.mark.slow
def test_two_steps_on_a_pipeline_backend_leave_the_hosts_state():
    case = Case((8, 6, 4), batch=4, micro=2, momentum=0.9)
    program, store, batch = step_of(case)
    ours, theirs = (Cells(store, program.state) for _ in range(2))
    executable = PipelineBackend(TINY).compile(program, ours)
    with override(jit=False):
        host = HostBackend().compile(program, theirs)
        for _ in range(2):
            (loss, *_), (expected, *_) = executable.step(batch), host.step(batch)
    np.testing.assert_allclose(loss, expected, rtol=LOSS_ULP * EPSILON["float32"])
    for name, array in theirs.cells.items():
        assert np.abs(ours.cells[name] - array).max() <= ARRAY_ULP * EPSILON["float32"] * np.abs(array).max(), name
    assert executable.cycles == pytest.approx(2 * executable.report.pipelined.step_cycles, rel=LARGEST_ERROR)
    assert executable.placement().count("layer") == len(case.sizes) - 1


@pytest.mark.slow
def test_a_long_step_is_told_from_the_rhythm_of_its_first_part(monkeypatch):
    # Eight of 24 micro-batches: the banks that they begin in repeat after four.
    sites = sites_of(chain_of(step_of(Case((6, 5, 4), batch=48, micro=2))[0]), shelved([(3, 3)] * 2), 2)
    whole = price_step(sites, WSE2)
    monkeypatch.setattr(cost, "MAX_SCHEDULED_MICRO_BATCHES", 8)
    told = price_step(sites, WSE2)
    assert told.cycles == pytest.approx(whole.cycles, rel=0.01)
    assert told.own_cycles("layer 1") == pytest.approx(whole.own_cycles("layer 1"), rel=0.01)
    assert max(span.end_cycles for span in told.spans) < told.cycles


@pytest.mark.slow
def test_pictures_are_rows_of_pixels():
    b = Builder()
    x, weight = b.input((4, 2, 3)), b.weight("w", (6, 5))
    b.fetches.append(b.matmul(b.view(x, (4, 6)), weight))
    rng = np.random.default_rng(0)
    pictures, weights = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, 2, 3), (6, 5)))
    store = SimpleNamespace(array={"w": weights}.__getitem__)
    (rows,) = run_pipeline(b.program(), store, [pictures], [Rect(0, 0, 3, 3)], TINY, 2).fetches
    np.testing.assert_allclose(rows, pictures.reshape(4, 6) @ weights, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_rectangles_and_parts_that_do_not_do_are_refused():
    program, store, batch = step_of(Case((4, 4), batch=2, micro=1), is_training=False)
    with pytest.raises(PlacementError, match="0 rectangles for 1 layers"):
        run_pipeline(program, store, batch, [], TINY)
    with pytest.raises(LazyError, match="2 samples cannot be cut into parts of 3"):
        run_pipeline(program, store, batch, [Rect(0, 0, 2, 2)], TINY, 3)
    with pytest.raises(PlacementError, match="no core is left to compute besides the ports"):
        run_pipeline(program, store, batch, [Rect(0, 0, 1, 2)], TINY)
