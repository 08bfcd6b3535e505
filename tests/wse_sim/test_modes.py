"""Modes: conservation of bytes, timelines, figures by hand, and the choice between the two."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from programs import Builder, machines, mlp, mlps, quick, tiny_mlp

from lazytensor.dtype import float16
from lazytensor.errors import LazyError
from lazytensor.ir.program import Program
from wse_sim.machine import TINY, WSE2, WSE3
from wse_sim.plan.modes import plan, simulate
from wse_sim.plan.modes.pipelined import pipelined
from wse_sim.plan.modes.streaming import edge_traffic, streaming
from wse_sim.plan.timeline import Task, schedule
from wse_sim.plan.wiring import OUTSIDE, flows, wire


def nbytes(program, indices):
    return sum(program.buffers[i].type.nbytes for i in indices)


def parameters(program):
    return [b.index for b in program.buffers if b.kind == "state" and "momentum" not in b.name]


def relu_program(batch=64, columns=64):
    b = Builder()
    b.fetches.append(b.pointwise("relu", (b.input((batch, columns)),)))
    return b.program()


@quick
@given(mlps(), machines())
def test_pipelined_edge_carries_the_batch_and_the_fetches(program, machine):
    report = pipelined(wire(program), machine).report
    assume(report.fits)
    assert report.edge_bytes_in == nbytes(program, program.batch)
    assert report.edge_bytes_out == nbytes(program, program.fetches)


@quick
@given(mlps(), machines())
def test_bytes_into_the_stages_are_bytes_out_of_stages_and_edge(program, machine):
    """What a stage reads of the batch and of other stages enters it; each result that someone needs leaves once."""
    wiring = wire(program)
    placement = pipelined(wiring, machine).placement
    assume(placement is not None)
    wanted: dict[int, set[int]] = {}
    for i, instr in enumerate(program.instrs):
        wanted[i] = {r for r in instr.reads if program.buffers[r].kind in ("batch", "temp")}
    new_weights = set(parameters(program))
    for i, instr in enumerate(program.instrs):
        refreshed = new_weights & set(instr.reads) if instr.direction != "update" else set()
        slots = [r for r in instr.reads if instr.nest and instr.nest.name == "sgd" and r not in new_weights]
        assert placement.costs[i].bytes_in == nbytes(program, wanted[i] | refreshed | set(slots))
        read_elsewhere = {r for j, other in wanted.items() if j != i for r in other} | new_weights
        momentum = [w for w in instr.writes if instr.nest and instr.nest.name == "momentum"]
        fetched = [w for w in instr.writes if w in program.fetches]
        leaving = [w for w in instr.writes if w in read_elsewhere]
        assert placement.costs[i].bytes_out == nbytes(program, [*leaving, *momentum, *fetched])


@quick
@given(mlps())
def test_every_flow_has_a_maker(program):
    wiring = wire(program)
    for flow in flows(wiring):
        made_by = wiring.program.batch if flow.source == OUTSIDE else wiring.program.instrs[flow.source].writes
        assert flow.buffer in made_by
        assert flow.source != flow.target


@quick
@given(mlps(), machines())
def test_streaming_moves_each_weight_in_for_each_use_and_each_gradient_out(program, machine):
    report = streaming(wire(program), machine).report
    assume(report.fits)
    used = [r for i in program.instrs if i.direction != "update" for r in i.reads if r in parameters(program)]
    assert report.edge_bytes_in == nbytes(program, used) + nbytes(program, program.batch)
    assert report.edge_bytes_out == nbytes(program, parameters(program)) + nbytes(program, program.fetches)


@quick
@given(mlps(), machines())
def test_a_step_is_no_shorter_than_its_parts(program, machine):
    wiring = wire(program)
    for mode in (pipelined, streaming):
        report = mode(wiring, machine).report
        assume(report.fits)
        least = max(report.edge_bytes_in, report.edge_bytes_out) * 8 / machine.edge_bits_per_cycle
        assert report.step_cycles >= max(least, *(row.cycles for row in report.rows))


@quick
@given(mlps(), machines())
def test_timelines_are_sound(program, machine):
    wiring = wire(program)
    for outcome in (pipelined(wiring, machine), streaming(wiring, machine)):
        assume(outcome.timeline is not None)
        path = outcome.timeline.critical_path()
        assert path[0].start_cycles == 0
        assert path[-1].end_cycles == outcome.timeline.end_cycles
        assert all(a.end_cycles == b.start_cycles for a, b in pairwise(path))
        for lane, spans in outcome.timeline.lanes.items():
            assert all(a.end_cycles <= b.start_cycles for a, b in pairwise(spans))
            assert outcome.timeline.busy_cycles(lane) <= outcome.timeline.end_cycles


@quick
@given(mlps(), machines())
def test_streaming_step_is_the_length_of_its_timeline(program, machine):
    outcome = streaming(wire(program), machine)
    assume(outcome.timeline is not None)
    assert outcome.report.step_cycles == outcome.timeline.end_cycles


@quick
@given(mlps(), machines(), st.integers(2, 8))
def test_streaming_is_monotone_in_edge_bandwidth(program, machine, factor):
    wiring = wire(program)
    faster = replace(machine, edge_bits_per_s=machine.edge_bits_per_s * factor)
    before, after = (streaming(wiring, m).report.step_cycles for m in (machine, faster))
    assert after <= before


def test_schedule_waits_for_lanes_and_for_tasks():
    tasks = [Task("a", "1", 5), Task("b", "2", 3), Task("a", "3", 2, after=(1,)), Task("b", "4", 4, after=(2,))]
    timeline = schedule(tasks)
    assert [(s.start_cycles, s.end_cycles) for s in timeline.spans] == [(0, 5), (0, 3), (5, 7), (7, 11)]
    assert [s.label for s in timeline.critical_path()] == ["1", "3", "4"]
    assert timeline.busy_cycles("b") == 7


def test_pipelined_figures_by_hand():
    """relu of 64 x 64 numbers on tiny: 4,096 words over 8 links, past 8 PEs, each of which starts to take its 64.

    The first of them takes turns between all words of its row, its own on their way out, and its 64 maxima, two a
    cycle, which take 38 cycles of which the last 32 meet the words. The edge brings 256 bits a cycle.
    """
    report = simulate(relu_program(), TINY).pipelined
    assert report.rows[0].rect == (0, 0, 8, 8)
    latency = 8 * 6 + 1 + 5
    assert report.step_cycles == math.ceil(4096 // 8 + latency + 64 + 32 * 33 / 38 + 1)
    assert report.fill_cycles == latency + -(-(report.step_cycles - latency) // 64)
    assert report.samples_per_s == pytest.approx(64 * 0.85e9 / report.step_cycles)
    assert report.limit.startswith("moving data in relu, the slowest stage")


def test_updates_count_whole_in_the_fill():
    b = Builder()
    w = b.weight("w", (64, 64))
    b.pointwise("exp", (w,), "update", into=w)
    b.input((64,))
    report = simulate(b.program(), TINY).pipelined
    assert report.fill_cycles == report.step_cycles == 6 + 64 * 50


def test_streaming_figures_by_hand():
    """The same over the edge of the whole mesh, where each of 8 PEs in a row starts an operation to take its block."""
    report = simulate(relu_program(), TINY).streaming
    assert report.step_cycles == 4096 // 8 + 8 * 6 + 1 + 5 == report.fill_cycles
    assert report.rows[0].cycles == 6 + 64 // 2
    assert report.peak_bytes_per_pe == 2 * 64 * 64 * 4 // 64


def test_a_slow_edge_limits_the_pipeline():
    slow = replace(TINY, edge_bits_per_s=TINY.edge_bits_per_s / 100)
    report = simulate(relu_program(), slow).pipelined
    assert report.step_cycles >= 51_200
    b = Builder()
    x, y = b.input((64, 64)), b.input((64, 64))
    b.fetches += [b.pointwise("relu", (x,)), b.pointwise("exp", (y,))]
    shared = simulate(b.program(), slow).pipelined
    assert shared.step_cycles == 102_400
    assert shared.limit.startswith("edge I/O: 32,768 bytes in")


def test_slow_arithmetic_is_named_as_the_limit():
    slow = replace(TINY, add_f32_per_cycle=0.001)
    assert simulate(relu_program(), slow).pipelined.limit == "compute of relu, the slowest stage"
    assert simulate(relu_program(), slow).streaming.limit.startswith("compute of relu")


def test_large_weights_are_limited_by_their_stream():
    assert simulate(mlp(), WSE2).streaming.limit.startswith("weight stream over the edge")


def test_auto_prefers_the_pipeline_and_falls_back_to_streaming():
    assert simulate(tiny_mlp(), TINY).mode == "pipelined"
    large = simulate(mlp((784, 512, 10)), TINY)
    assert large.mode == "streaming"
    assert large.fits
    assert not large.pipelined.fits
    assert simulate(mlp((784, 512, 10)), TINY, "pipelined").fits is False
    with pytest.raises(LazyError, match=r"'replica'[\s\S]*auto"):
        simulate(tiny_mlp(), TINY, "replica")


@pytest.mark.slow
def test_half_precision_and_newer_wafers_change_the_step():
    assert simulate(mlp(dtype=float16), WSE2).step_cycles < simulate(mlp(), WSE2).step_cycles
    assert simulate(mlp(), WSE3).step_cycles != simulate(mlp(), WSE2).step_cycles


def test_updates_and_prepared_weights_run_on_the_weight_host():
    b = Builder()
    w = b.weight("w", (16, 16))
    half = b.pointwise("cast", (w,))
    b.fetches.append(b.matmul(b.input((4, 16)), half))
    program = b.program()
    report = simulate(program, TINY)
    assert report.streaming.rows[0].rect is None
    assert report.streaming.edge_bytes_in == nbytes(program, [half, *program.batch])
    assert report.pipelined.rows[0].rect is not None


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


def test_activations_live_from_their_maker_to_their_last_reader():
    b = Builder()
    x = b.input((4, 16))
    first = b.pointwise("relu", (x,))
    second = b.pointwise("relu", (first,))
    b.fetches.append(b.pointwise("add", (first, second)))
    traffic = edge_traffic(wire(b.program()))
    row = 4 * 16 * 4
    assert [t.live_bytes for t in traffic.values()] == [2 * row, 2 * row, 3 * row]


def test_memory_of_a_turn_includes_its_weights():
    b = Builder()
    b.fetches.append(b.matmul(b.input((4, 16)), b.weight("w", (16, 8))))
    (turn,) = edge_traffic(wire(b.program())).values()
    assert (turn.weight_bytes, turn.batch_bytes, turn.bytes_out) == (16 * 8 * 4, 4 * 16 * 4, 4 * 8 * 4)
    assert turn.live_bytes == (16 * 8 + 4 * 16 + 4 * 8) * 4


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
    assert report.limit == "nothing to compute"


def test_plan_keeps_what_the_report_was_read_from():
    made = plan(tiny_mlp(), TINY)
    assert made.chosen is made.pipelined
    assert made.chosen.report is made.report.chosen
    assert made.chosen.timeline.end_cycles == made.report.fill_cycles
