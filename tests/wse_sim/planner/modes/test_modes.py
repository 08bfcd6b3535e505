"""Modes: conservation of bytes and work, timelines, figures by hand, the laws of machines, and the choice."""

import importlib
import math
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lazytensor.core.dtype import float16, int32
from lazytensor.errors import LazyError
from lazytensor.ir.program import Instr, Program
from lazytensor.ir.types import Type
from tests.wse_sim.programs import Builder, machines, mlp, mlps, tiny_mlp
from wse_sim.cost_model.cost import cost
from wse_sim.cost_model.relayout import relayout_cycles
from wse_sim.host import APPLIANCE
from wse_sim.kernels.calls import call_of
from wse_sim.kernels.mesh_call import Cores
from wse_sim.layout import Rect
from wse_sim.machine import TINY, WSE1, WSE2
from wse_sim.planner.modes import MODE_PLANNERS, plan, simulate
from wse_sim.planner.timeline import Timeline, TimelineTask, TimeSpan, schedule_tasks
from wse_sim.viz import gantt

few = settings(deadline=None, max_examples=3, print_blob=False)
"""Each example is placed several times; the campaign draws more."""
FREE_HOST = replace(
    APPLIANCE,
    worker_bytes_per_s=1e18,
    worker_tokens_per_s=1e18,
    worker_picture_elements_per_s=1e18,
    stream_bits_per_s=1e18,
    weight_transfer_s=0,
    step_control_s=0,
)
"""A host that never limits, so that figures are the wafer's."""


def nbytes(program, indices):
    return sum(program.buffers[i].type.nbytes for i in indices)


def parameters(program):
    return [b.index for b in program.buffers if b.kind == "state" and "momentum" not in b.name]


def relu_program(batch=64, columns=64):
    b = Builder()
    b.fetches.append(b.pointwise("relu", (b.input((batch, columns)),)))
    return b.program()


def wafer(program, machine, mode="auto", **options):
    """The report of a mode on a host that never limits."""
    return plan(program, machine, mode, host=FREE_HOST, **options).report


@few
@given(mlps(), machines())
def test_pipelined_edge_carries_the_batch_and_the_fetches(program, machine):
    report = simulate(program, machine).pipelined
    assume(report.fits)
    assert report.edge_bytes_in == nbytes(program, program.batch)
    assert report.edge_bytes_out == nbytes(program, program.fetches)


@few
@given(mlps(), machines())
def test_streaming_moves_each_weight_in_for_each_use_and_each_gradient_out(program, machine):
    report = simulate(program, machine).streaming
    assume(report.fits and report.micro_batches == 1 and not report.has_recompute)
    used = [r for i in program.instrs if i.direction != "update" for r in i.reads if r in parameters(program)]
    assert report.edge_bytes_in == nbytes(program, used) + nbytes(program, program.batch)
    assert report.edge_bytes_out == nbytes(program, parameters(program)) + nbytes(program, program.fetches)


@few
@given(mlps(), machines())
def test_a_step_is_no_shorter_than_its_parts(program, machine):
    for mode in MODE_PLANNERS:
        report = wafer(program, machine, mode).chosen
        assume(report.fits)
        least = max(report.edge_bytes_in, report.edge_bytes_out) * 8 / machine.edge_bits_per_cycle
        rows = (row.forward_cycles + row.backward_cycles for row in report.rows)
        assert (
            report.step_cycles >= max(math.floor(least * (1 - 1 / simulate(program, machine).batch_size)), *rows) * 0.98
        )


@few
@given(mlps(), machines())
def test_sums_over_layers_are_the_totals(program, machine):
    for mode in MODE_PLANNERS:
        report = wafer(program, machine, mode).chosen
        assume(report.fits)
        assert sum(row.flops for row in report.rows) == program.work.flops
        assert sum(row.kernels for row in report.rows) == len(program.instrs)
        assert all(row.cycles == row.forward_cycles + row.backward_cycles + row.update_cycles for row in report.rows)


def test_rows_of_a_pipeline_count_what_is_computed_again(monkeypatch):
    """The activation is a function of what is kept anyhow, and the stage that makes it is the slowest."""
    b = Builder()
    x, first, second = b.input((64, 64)), b.weight("first", (16, 64)), b.weight("second", (4, 16))
    kept = b.matmul(x, first, transpose_b=True)
    activation = b.pointwise("exp", (kept,))
    gradient = b.pointwise("mul", (b.matmul(activation, second, transpose_b=True),) * 2, "backward")
    back = b.pointwise("mul", (b.matmul(gradient, second, "backward"), kept), "backward")
    gradients = {first: (back, x), second: (gradient, activation)}
    for weight, (g, entering) in gradients.items():
        step = b.matmul(g, entering, "backward", transpose_a=True)
        b.pointwise("sub", (weight, step), "update", into=weight)
    # Priced by its kernels, though cores could run all of it.
    monkeypatch.setattr(importlib.import_module("wse_sim.planner.modes.pipelined"), "MAX_SIMULATED_CORES", 0)
    machine = replace(TINY, width=4, height=4)
    outcome = wafer(b.program(), machine, "pipelined").chosen
    slowest = next(bound for bound in outcome.bounds if bound.kind == "compute")
    cycles = Counter()
    for row in outcome.rows:
        cycles[row.rect] += row.forward_cycles + row.backward_cycles
    assert max(cycles.values()) == pytest.approx(64 * machine.clock_hz / slowest.samples_per_s)


@few
@given(mlps(), machines())
def test_memory_is_never_above_what_a_pe_has(program, machine):
    for mode in MODE_PLANNERS:
        report = wafer(program, machine, mode).chosen
        assert report.peak_bytes_per_pe <= machine.usable_bytes_per_pe
        assert all(row.bytes_per_pe <= machine.usable_bytes_per_pe for row in report.rows)


@few
@given(st.lists(st.integers(1, 200), min_size=2, max_size=5), st.integers(1, 64), machines())
def test_twice_the_batch_never_fits_where_half_of_it_does_not(sizes, batch, machine):
    one, two = (wafer(mlp(tuple(sizes), n), machine) for n in (batch, 2 * batch))
    for mode in MODE_PLANNERS:
        assert getattr(one, mode).fits or not getattr(two, mode).fits


def both_meshes(program, machine, columns, rows, mode):
    """The reports of a mode on a mesh, if it fits there, and on one that is larger by so many columns and rows."""
    larger = replace(machine, width=machine.width + columns, height=machine.height + rows)
    before, after = (wafer(program, m, mode, other=False).chosen for m in (machine, larger))
    assume(before.fits)
    assert after.fits
    return before, after


@pytest.mark.slow
@settings(few, derandomize=True, database=None)
@given(mlps(), machines(), st.integers(0, 20), st.integers(0, 20), st.sampled_from([300, 2000, 44_976]))
def test_larger_mesh_is_at_most_5_percent_slower_when_streaming(program, machine, columns, rows, usable_bytes):
    """Also if it holds all samples at once and the smaller one does not."""
    machine = replace(machine, usable_bytes_per_pe=usable_bytes)
    before, after = both_meshes(program, machine, columns, rows, "streaming")
    assert after.step_cycles <= 1.05 * before.step_cycles


@pytest.mark.slow
@settings(few, derandomize=True, database=None)
@given(mlps(), machines(), st.integers(0, 20), st.integers(0, 20))
def test_larger_mesh_is_at_most_5_percent_slower_when_pipelined(program, machine, columns, rows):
    before, after = both_meshes(program, machine, columns, rows, "pipelined")
    assert after.step_cycles <= 1.05 * before.step_cycles


@pytest.mark.slow
def test_a_full_link_of_a_larger_mesh_lets_a_part_of_it_be_used():
    program = mlp((53, 1, 252, 1, 50), batch=81)
    before, after = (
        wafer(program, replace(TINY, width=width, height=height), "pipelined", other=False).pipelined
        for width, height in ((27, 30), (33, 47))
    )
    # The search for a floorplan finds another one on the larger mesh, which may be a few percent slower.
    assert after.step_cycles <= 1.05 * before.step_cycles


def test_a_part_of_the_mesh_has_any_side_that_a_smaller_mesh_has():
    program = mlp((107, 107), batch=1)
    before, after = (
        wafer(program, replace(TINY, width=width, height=5), "streaming").streaming.step_cycles for width in (23, 32)
    )
    assert after <= before


def test_activations_move_from_layer_to_layer_beside_the_work():
    """Of an MLP the activation between its layers: forward and back to the second, and its gradient to the first."""
    report = wafer(mlp((64, 4096, 64), batch=32), TINY, "streaming").streaming
    once = relayout_cycles(32 * 4096, 8, 8, TINY)
    assert [row.moving_cycles for row in report.rows] == [once, 2 * once]
    bound = next(b for b in report.bounds if b.kind == "moving")
    assert 32 * TINY.clock_hz / bound.samples_per_s == pytest.approx(3 * once)
    assert report.samples_per_s <= bound.samples_per_s


@pytest.mark.parametrize("line", [2, 5, 8])
def test_a_change_of_layout_takes_what_crosses_the_middle_of_a_line(line):
    pairs = [(a, b) for a in range(2 * line) for b in range(2 * line)]
    crossing = sum(3 for a, b in pairs if a < line <= b)
    across = (2 * line - 1) * TINY.hop_cycles
    assert relayout_cycles(3 * len(pairs), 2 * line, 1, TINY) == crossing + across


def test_few_long_rows_of_a_loss_are_cut_by_the_time_of_their_exponentials():
    rows = Type((13, 107), float16), Type((13,), int32)
    instr = Instr("softmax_cross_entropy", (0, 1), (2, 3))
    widths = [call_of(instr, rows, Cores(Rect(0, 0, width, 13), TINY)).kernel for width in (7, 8, 16, 31)]
    cycles = [cost(kernel.phase, TINY).cycles for kernel in widths]
    assert cycles == sorted(cycles, reverse=True)


@few
@given(mlps(), machines(), st.sampled_from([2, 4]))
def test_a_clock_scales_what_the_host_does_not_limit(program, machine, factor):
    faster = replace(machine, clock_hz=factor * machine.clock_hz, edge_bits_per_s=factor * machine.edge_bits_per_s)
    for mode in MODE_PLANNERS:
        before, after = (wafer(program, m, mode).chosen for m in (machine, faster))
        assert after.step_cycles == before.step_cycles
        assert after.samples_per_s == pytest.approx(factor * before.samples_per_s)


@few
@given(mlps(), machines())
def test_timelines_are_sound(program, machine):
    placed = plan(program, machine)
    for outcome in (placed.pipelined, placed.streaming):
        assume(outcome.timeline is not None)
        path = outcome.timeline.critical_path()
        assert path[0].start_cycles == 0
        assert path[-1].end_cycles == outcome.timeline.end_cycles
        assert all(a.end_cycles == b.start_cycles for a, b in pairwise(path))
        for lane, spans in outcome.timeline.lanes.items():
            assert all(a.end_cycles <= b.start_cycles for a, b in pairwise(spans))
            assert outcome.timeline.busy_cycles(lane) <= outcome.timeline.end_cycles


@few
@given(mlps(), machines())
def test_streaming_step_is_the_length_of_its_timeline(program, machine):
    placed = plan(program, machine).streaming
    assume(placed.timeline is not None and placed.report.micro_batches == 1)
    assert placed.report.step_cycles == placed.timeline.end_cycles


@few
@given(mlps(), machines(), st.integers(2, 8))
def test_streaming_is_monotone_in_edge_bandwidth(program, machine, factor):
    faster = replace(machine, edge_bits_per_s=machine.edge_bits_per_s * factor)
    before, after = (wafer(program, m, "streaming").step_cycles for m in (machine, faster))
    assert after <= before


def test_schedule_waits_for_lanes_and_for_tasks():
    tasks = [
        TimelineTask("a", "1", 5),
        TimelineTask("b", "2", 3),
        TimelineTask("a", "3", 2, after=(1,)),
        TimelineTask("b", "4", 4, after=(2,)),
    ]
    timeline = schedule_tasks(tasks)
    assert [(s.start_cycles, s.end_cycles) for s in timeline.spans] == [(0, 5), (0, 3), (5, 7), (7, 11)]
    assert [s.label for s in timeline.critical_path()] == ["1", "3", "4"]
    assert timeline.busy_cycles("b") == 7


def test_pipelined_figures_by_hand():
    """relu of 64 x 64 numbers on tiny, sample by sample: the rhythm is the slower of arithmetic and links, 63 times,
    and the first sample's way."""
    report = wafer(relu_program(), TINY).pipelined
    (row,) = report.rows
    _, _, width, height = row.rect
    assert row.forward_cycles == 6 + 64 * 64 // (width * height) // 2
    slowest = min(b.samples_per_s for b in report.bounds if b.kind in ("compute", "moving", "edge"))
    slowest_cycles = round(64 * TINY.clock_hz / slowest)
    assert report.step_cycles == max(slowest_cycles, math.ceil(63 * slowest_cycles / 64) + report.fill_cycles)
    assert report.samples_per_s == pytest.approx(64 * TINY.clock_hz / report.step_cycles)


@few
@given(mlps(), machines())
def test_every_stage_of_a_pipeline_is_a_lane_of_its_own(program, machine):
    """Stages of one name, too: what one waits for would otherwise hold up the updates of all."""
    larger = replace(machine, width=machine.width + 32, height=machine.height + 32)
    placed = plan(program, larger, "pipelined").pipelined
    assume(placed.timeline is not None)
    lanes = {name: spans for name, spans in placed.timeline.lanes.items() if name not in ("routes", "adapters")}
    sweeps = [[span.label for span in spans] for spans in lanes.values()]
    assert sweeps == [["forward", "backward", "update"]] * len(placed.placement.rects)


def test_updates_count_whole_after_the_drain():
    b = Builder()
    w = b.weight("w", (64, 64))
    b.pointwise("exp", (w,), "update", into=w)
    b.input((64,))
    report = simulate(b.program(), TINY).pipelined
    assert report.fill_cycles == report.step_cycles == 6 + 64 * 50


def test_streaming_figures_by_hand():
    """The same: its batch comes over the edge of the mesh while it computes, and its result goes out."""
    report = wafer(relu_program(), TINY).streaming
    over_the_edge = 64 * 64 * 4 * 8 / TINY.edge_bits_per_cycle
    assert report.fill_cycles == over_the_edge
    assert report.rows[0].cycles == 6 + 64 // 2
    assert report.step_cycles == math.ceil(64 * 64 * 4 * 8 / TINY.edge_bits_per_cycle)
    assert report.peak_bytes_per_pe == 64 * 64 * 4 // 64


def test_a_slow_edge_limits_the_pipeline():
    slow = replace(TINY, edge_bits_per_s=TINY.edge_bits_per_s / 100)
    report = wafer(relu_program(), slow).pipelined
    assert report.limit == "edge"
    assert report.step_cycles >= 51_200 * 63 // 64


def test_slow_arithmetic_is_named_as_the_limit():
    slow = replace(TINY, add_f32_per_cycle=0.001)
    for mode in MODE_PLANNERS:
        report = wafer(relu_program(), slow, mode)
        assert report.limit == "compute"
        assert report.verdict.startswith("Limited by wafer compute of relu")


@pytest.mark.slow
def test_large_weights_are_limited_by_their_stream():
    report = plan(mlp((4096, 4096), batch=1), WSE2).report
    assert report.streaming.limit == "weights"
    assert "larger batch" in report.streaming.verdict


@pytest.mark.slow
def test_a_slow_weight_host_is_named_though_the_batch_has_more_bytes():
    slow = replace(FREE_HOST, stream_bits_per_s=1e6)
    program = mlp((200, 200), batch=2048)
    outcome = plan(program, WSE2, "streaming", host=slow).report
    assert nbytes(program, program.batch) > nbytes(program, parameters(program))
    assert outcome.limit == "weights"


@pytest.mark.slow
def test_slow_input_workers_are_named_as_the_limit():
    slow = replace(APPLIANCE, worker_bytes_per_s=1000.0)
    report = plan(mlp(), WSE2, host=slow).report
    sample = 784 * 4 + 4
    assert report.samples_per_s == pytest.approx(5 * 1000 / sample)
    assert report.limit == "input"
    assert report.verdict.startswith("Limited by the input workers")


@pytest.mark.slow
def test_a_newer_wafer_has_other_figures():
    # Large enough to have a use for all of the newer one.
    one, two = (wafer(mlp((2048, 2048), batch=8192), m) for m in (WSE1, WSE2))
    for mode in MODE_PLANNERS:
        assert getattr(one, mode).step_cycles != getattr(two, mode).step_cycles


@pytest.mark.slow
def test_systems_share_the_batch_of_a_recorded_step():
    program = mlp((784, 2048, 2048, 10), batch=256)
    one, four = (wafer(program, WSE2, "streaming", systems=n) for n in (1, 4))
    assert one.samples_per_s < four.samples_per_s <= 4.01 * one.samples_per_s
    assert "the program has only this batch size" in four.pipelined.reason
    with pytest.raises(LazyError, match="number of systems is 0"):
        plan(program, WSE2, systems=0)


def test_a_program_is_known_for_one_batch_only():
    with pytest.raises(LazyError, match="has the batch size 64 and cannot be planned for 65"):
        plan(mlp(), WSE2, batch_size=65)


@pytest.mark.slow
def test_auto_takes_the_fastest_that_fits():
    report = wafer(tiny_mlp(), TINY)
    assert report.samples_per_s == max(report.pipelined.samples_per_s, report.streaming.samples_per_s)
    large = simulate(mlp((784, 512, 10)), TINY)
    assert large.mode == "streaming"
    assert large.fits
    assert not large.pipelined.fits
    assert simulate(mlp((784, 512, 10)), TINY, "pipelined").fits is False
    with pytest.raises(LazyError, match=r"'replica'[\s\S]*auto"):
        simulate(tiny_mlp(), TINY, "replica")


@pytest.mark.slow
def test_half_precision_shortens_the_step():
    for mode in MODE_PLANNERS:
        half, full = (wafer(mlp((784, 2048, 10), dtype=d), WSE2, mode) for d in (float16, Builder().dtype))
        assert half.step_cycles < full.step_cycles


def test_updates_and_prepared_weights_run_on_the_weight_host():
    b = Builder()
    w = b.weight("w", (16, 16))
    half = b.pointwise("cast", (w,))
    b.fetches.append(b.matmul(b.input((4, 16)), half))
    program = b.program()
    report = simulate(program, TINY)
    assert len(report.streaming.rows) == 1
    assert report.streaming.edge_bytes_in == nbytes(program, [half, *program.batch])


def test_large_tensors_made_of_state_are_made_on_the_wafer():
    """A random mask comes from a counter; streaming it in would be absurd."""
    b = Builder()
    counter, x = b.weight("counter", ()), b.input((32, 32))
    mask = b.call("random", (counter,), [(32, 32)], 1024)
    b.fetches.append(b.pointwise("mul", (x, mask)))
    program = b.program()
    report = simulate(program, TINY).streaming
    assert report.rows[0].rect is not None
    assert report.edge_bytes_in == nbytes(program, [counter, x])


@pytest.mark.parametrize("batch", [None, (), (0,)])
def test_programs_without_a_batch_size_count_one_sample(batch):
    b = Builder()
    if batch is not None:
        b.input(batch)
    b.pointwise("relu", (b.weight("w", (8, 8)),), "update")
    assert simulate(b.program(), TINY).batch_size == 1


def test_an_empty_program_takes_no_time():
    report = simulate(Program((), (), {}, (), ()), TINY)
    assert report.step_cycles == 0
    assert report.samples_per_s == 0
    assert report.limit == "nothing"


def test_plan_keeps_what_the_report_was_read_from():
    made = plan(tiny_mlp(), TINY, "pipelined")
    assert made.chosen is made.pipelined
    assert made.chosen.report is made.report.chosen
    assert made.chosen.timeline.end_cycles == made.report.fill_cycles


@dataclass(frozen=True)
class Sized:
    """A perceptron that is known for any batch."""

    sizes: tuple[int, ...]
    batch_size: int

    def program(self, batch_size):
        return mlp(self.sizes, batch_size)


@pytest.mark.slow
def test_samples_of_micro_batches_come_in_once_and_weights_for_each():
    program = mlp((64, 256, 256, 64), batch=50)
    small = replace(TINY, usable_bytes_per_pe=1200)
    whole, cut = (plan(program, machine, "streaming", other=False).report.streaming for machine in (WSE2, small))
    assert whole.micro_batches == 1 < cut.micro_batches
    assert not whole.has_recompute
    assert not cut.has_recompute
    batch_bytes = nbytes(program, program.batch)
    assert cut.edge_bytes_in - batch_bytes == cut.micro_batches * (whole.edge_bytes_in - batch_bytes)


@pytest.mark.slow
@pytest.mark.parametrize("bytes_per_pe", [700, 1200, 2000])
def test_micro_batches_that_are_alike_are_timed_once_and_take_as_long(bytes_per_pe, monkeypatch):
    streaming = importlib.import_module("wse_sim.planner.modes.streaming_timeline")
    small = replace(TINY, usable_bytes_per_pe=bytes_per_pe)
    program = mlp((64, 256, 256, 64), batch=997)
    waiting, asked = streaming._LaneClock.waiting, []
    monkeypatch.setattr(streaming._LaneClock, "waiting", lambda clock: asked.append(clock) or waiting(clock))
    once = plan(program, small, "streaming", other=False).report.streaming
    assert once.micro_batches > 5
    timed = len(asked)
    monkeypatch.setattr(streaming._LaneClock, "waiting", lambda clock: asked.append(clock) or (len(asked),))
    each = plan(program, small, "streaming", other=False).report.streaming
    assert timed < len(asked) - timed
    assert each.step_cycles == once.step_cycles


@pytest.mark.parametrize("batch", [33, 50, 66, 99, 130])
def test_whole_samples_make_micro_batches_that_fit(batch):
    small = replace(TINY, name="small", usable_bytes_per_pe=1200)
    report = plan(Sized((64, 256, 256, 64), batch), small, "streaming").report.streaming
    assert report.micro_batches > 1
    assert report.peak_bytes_per_pe <= small.usable_bytes_per_pe
    # The last micro-batch has fewer samples: counted whole, arithmetic alone would take longer than the step.
    rates = {bound.kind: bound.samples_per_s for bound in report.bounds}
    whole = batch * small.clock_hz / report.step_cycles
    assert rates["fill"] == pytest.approx(whole)
    assert rates["compute"] >= whole * (1 - 1e-4)
    assert report.samples_per_s == pytest.approx(min(whole, rates["input"], rates["control"]))


@pytest.mark.slow
def test_wider_sums_cost_more_cycles():
    program = mlp((784, 2048, 10), dtype=float16, batch=2048)
    wide, mixed, fast = (wafer(program, WSE2, "streaming", precision_level=n) for n in (0, 1, 2))
    # No document tells the sums of level 1 from those of level 2, and the report says so.
    assert fast.step_cycles == mixed.step_cycles < wide.step_cycles
    assert "its accumulation types are not published" in plan(program, WSE2, precision_level=1).report.precision
    with pytest.raises(LazyError, match="precision level 3"):
        plan(program, WSE2, precision_level=3)


@pytest.mark.slow
def test_energy_lies_between_idle_and_mean_power():
    report = plan(mlp(), WSE2).report
    for mode in (report.pipelined, report.streaming):
        watts = mode.joules_per_sample * mode.samples_per_s
        assert 16_100 <= watts <= 22_800 * (1 + 1e-9)
    assert plan(tiny_mlp(), TINY).report.chosen.joules_per_sample == 0


@few
@given(mlps(), machines())
def test_lanes_of_a_streamed_step_are_busy_only_while_they_transfer_or_compute(program, machine):
    """On a slow edge the mesh waits for weights, which is no work of the mesh."""
    slow = replace(machine, edge_bits_per_s=machine.edge_bits_per_s / 1000)
    fast, outcome = (plan(program, m, "streaming").streaming for m in (machine, slow))
    assume(outcome.timeline is not None and outcome.report.micro_batches == fast.report.micro_batches == 1)
    busy = [made.timeline.busy_cycles("mesh") for made in (fast, outcome)]
    assert busy[0] == busy[1]
    assert all(0 <= s.wait_cycles <= s.end_cycles - s.start_cycles for s in outcome.timeline.spans)


def test_gantt_chart_shows_waiting_apart_from_work():
    waits = TimeSpan("mesh", "fc forward", 0, 100, None, 60)
    (_, bar) = gantt(Timeline((waits,)), columns=10).splitlines()
    assert bar.split() == ["mesh", "------++++"]


def test_rate_never_rises_with_a_larger_model_at_the_same_batch():
    for batch in (4, 64):
        rates = [
            plan(Sized((64, *[256] * depth, 64), batch), TINY, "streaming").report.samples_per_s for depth in (1, 2, 4)
        ]
        assert rates == sorted(rates, reverse=True)


def test_rate_never_falls_with_twice_the_input_workers():
    for mode in ("streaming", "pipelined"):
        rates = [
            plan(Sized((64, 64, 64), 64), TINY, mode, host=replace(APPLIANCE, workers=n)).report.samples_per_s
            for n in (1, 2, 4, 8)
        ]
        assert rates == sorted(rates)


def test_fixed_times_of_a_step_lose_their_share_in_larger_batches():
    fixed = replace(FREE_HOST, step_control_s=1e-3, weight_transfer_s=1e-4)
    shares = []
    for batch in (8, 128, 2048):
        step = Sized((64, 64, 64), batch)
        free, slow = (plan(step, TINY, "streaming", host=host).report.samples_per_s for host in (FREE_HOST, fixed))
        shares.append(1 - slow / free)
    assert shares == sorted(shares, reverse=True) and shares[0] > 2 * shares[-1]
