"""Copies of a pipeline and several systems: what they give, what they share, and that they never harm."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wse_sim.perceptron_steps import recorded
from tests.wse_sim.programs import mlp
from wse_sim import TINY, WSE2, Rect, plan
from wse_sim.host import APPLIANCE
from wse_sim.planner.dataflow import program_batch_size, wire
from wse_sim.planner.modes import mode_plan
from wse_sim.planner.modes.replicas import line_sum_cycles, max_line_bytes, replica_grid, tree_sum_cycles
from wse_sim.planner.report import Report

MANY = replace(APPLIANCE, workers=4096, worker_bytes_per_s=1e18, stream_bits_per_s=1e18, step_control_s=0)
"""A host that never limits."""
WIDE = replace(TINY, edge_bits_per_s=TINY.edge_bits_per_s * 100)


STEPS = {sizes: recorded(*sizes) for sizes in ((6, 4), (16, 12, 4))}
nets = st.sampled_from(sorted(STEPS))
modes = st.sampled_from(["pipelined", "streaming"])
few = settings(deadline=None, max_examples=3, print_blob=False)


def pipeline(step, machine=WIDE, batch=256, systems=1, host=MANY):
    return plan(step, machine, "pipelined", batch, systems, host, other=False).report.pipelined


def rates_on(net, mode, counts, batches, **host):
    """Samples/s on numbers of systems, with two input workers for each."""
    host = replace(MANY, workers=2, **host)
    points = zip(counts, batches, strict=True)
    return [plan(STEPS[net], TINY, mode, b, n, host, other=False).report.samples_per_s for n, b in points]


@pytest.mark.slow
@few
@given(nets, modes, st.sampled_from([1, 4, 64, 1024]))
def test_more_systems_never_give_fewer_samples(net, mode, batch):
    rates = rates_on(net, mode, (1, 2, 4, 8, 16), [batch] * 5)
    assert rates == sorted(rates)
    assert rates[0] > 0


@pytest.mark.slow
@few
@given(nets, modes, st.integers(1, 300), st.lists(st.integers(1, 17), min_size=2, max_size=3, unique=True))
def test_more_systems_never_give_fewer_samples_whatever_their_shares(net, mode, batch, counts):
    rates = rates_on(net, mode, sorted(counts), [batch] * len(counts))
    assert rates == sorted(rates)


@pytest.mark.slow
@few
@given(nets, modes, st.sampled_from([1, 16, 50]))
def test_more_systems_with_as_many_samples_each_never_give_fewer(net, mode, each):
    counts = (1, 2, 3, 5, 17)
    rates = rates_on(net, mode, counts, [each * n for n in counts], tree_node_s=0.0)
    assert rates == sorted(rates)


@pytest.mark.slow
@few
@given(nets, st.integers(1, 600), st.integers(600, 40000))
def test_copies_never_break_memory_nor_leave_the_mesh(net, batch, usable):
    machine = replace(WIDE, sram_bytes_per_pe=usable, usable_bytes_per_pe=usable)
    report = pipeline(STEPS[net], machine, batch)
    if not report.fits:
        return
    assert report.peak_bytes_per_pe <= usable
    columns, rows = report.copy_grid
    assert columns * rows == report.copies <= batch
    width, height = machine.usable_width // columns, machine.usable_height // rows
    rects = [Rect(*row.rect) for row in report.rows if row.rect]
    assert all(r.x + r.width <= width and r.y + r.height <= height for r in rects)


@pytest.mark.slow
def test_copies_of_a_small_net_fill_the_mesh_and_the_rate_grows_with_them():
    larger = replace(TINY, width=64, height=64, edge_bits_per_s=TINY.edge_bits_per_s * 1e4)
    report = pipeline(STEPS[16, 12, 4], larger, 65536, host=replace(MANY, workers=8))
    rates = {a.copies: a.samples_per_s for a in report.alternatives} | {report.copies: report.samples_per_s}
    assert sorted(rates) == [1, 2, 4, 8]
    assert report.copies == 8
    assert rates[2] / rates[1] == pytest.approx(2, rel=0.1)
    assert rates[8] > 5 * rates[1]


def test_copies_that_use_a_little_of_the_mesh_lie_close_together():
    report = pipeline(recorded(64, 64, 16), WSE2, 1024, host=replace(MANY, workers=4))
    assert report.copies == 4
    # From one quarter of the mesh to the next, and back with the sums, would take longer than along both its sides.
    assert 0 < report.gradient_cycles < WSE2.usable_width + WSE2.usable_height


@pytest.mark.slow
def test_copies_go_on_until_the_input_limits():
    larger = replace(TINY, width=64, height=64, edge_bits_per_s=TINY.edge_bits_per_s * 1e4)
    single = pipeline(STEPS[16, 12, 4], larger, 65536, host=replace(MANY, workers=1))
    # Workers that prepare three times what one copy takes: two copies are too few for them, and eight too many.
    per_worker = 3 * single.samples_per_s * (16 * 4 + 8) / 8
    report = pipeline(STEPS[16, 12, 4], larger, 65536, host=replace(MANY, workers=8, worker_bytes_per_s=per_worker))
    assert (report.copies, report.limit) == (4, "input")
    assert report.samples_per_s == pytest.approx(3 * single.samples_per_s)


@pytest.mark.slow
def test_no_more_copies_than_workers_and_none_beyond_the_limit_of_the_input():
    step = STEPS[16, 12, 4]
    assert pipeline(step, batch=65536, host=replace(MANY, workers=3)).copies <= 3
    slow = pipeline(step, batch=65536, host=replace(MANY, worker_bytes_per_s=1.0))
    assert (slow.copies, slow.limit, slow.alternatives) == (1, "input", ())


def test_a_program_of_one_batch_has_one_copy_on_one_system():
    assert pipeline(mlp((16, 8)), TINY, batch=64).copies == 1
    refused = pipeline(mlp((16, 8)), TINY, batch=64, systems=2)
    assert not refused.fits
    assert "2 systems share a batch of 64" in refused.reason


@pytest.mark.slow
def test_gradients_of_copies_are_a_part_of_the_step():
    step = STEPS[16, 12, 4]
    report = pipeline(step, batch=256)
    assert report.copies > 1
    (bound,) = [b for b in report.bounds if b.kind == "gradients"]
    assert bound.samples_per_s == pytest.approx(256 * WIDE.clock_hz / report.gradient_cycles)
    assert report.gradient_cycles < report.fill_cycles < report.step_cycles + report.fill_cycles


@pytest.mark.slow
def test_systems_add_up_gradients_over_the_tree():
    host = replace(APPLIANCE, stream_bits_per_s=8e9, tree_node_s=1e-6)
    slow = replace(WSE2, clock_hz=1e9)
    # A thousand bytes take a thousand cycles over a link of a byte a cycle, and a level of the tree 2 us both ways.
    assert [tree_sum_cycles(1000, n, host, slow) for n in (1, 2, 4, 5)] == [0, 3000, 3000, 5000]
    two = pipeline(STEPS[16, 12, 4], batch=65536, systems=2)
    one = pipeline(STEPS[16, 12, 4], batch=65536)
    assert two.used_systems == 2
    assert 1.5 * one.samples_per_s < two.samples_per_s <= 2.01 * one.samples_per_s


@pytest.mark.slow
def test_small_batch_stays_on_fewer_systems():
    far = replace(MANY, tree_node_s=1.0)
    for mode in ("pipelined", "streaming"):
        report = plan(STEPS[16, 12, 4], TINY, mode, 64, 4, far, other=False).report
        assert report.chosen.used_systems == 1
        assert report.samples_per_s == plan(STEPS[16, 12, 4], TINY, mode, 64, 1, far, other=False).report.samples_per_s


@given(st.integers(2, 40), st.integers(1, 300), st.integers(1, 5000))
def test_sums_along_a_line_grow_with_copies_ways_and_words(copies, stride, words):
    least = line_sum_cycles(copies, stride, words, WSE2)
    assert line_sum_cycles(1, stride, words, WSE2) == line_sum_cycles(copies, stride, 0, WSE2) == 0
    # Every word crosses a link to be added, and another one as a sum; the far copies are that many hops away.
    assert least >= 2 * words * WSE2.wavelet_cycles
    assert least >= (copies - 1) * stride * WSE2.hop_cycles
    assert line_sum_cycles(copies, stride + 1, words, WSE2) > least


def test_fullest_line_adds_up_what_overlaps():
    # (first line, lines, bytes): 10 on each of 0 and 1, 5 on each of 1 to 4.
    assert max_line_bytes([(0, 2, 20), (1, 4, 20)]) == 15
    assert max_line_bytes([(0, 2, 20), (2, 4, 20)]) == 10
    assert max_line_bytes([]) == 0


def test_grid_is_nearest_to_squares():
    square, tall = replace(TINY, width=100, height=100), replace(TINY, width=100, height=400)
    assert [replica_grid(n, square) for n in (1, 4, 9)] == [(1, 1), (2, 2), (3, 3)]
    assert replica_grid(4, tall) == (1, 4)


@pytest.mark.slow
def test_report_says_what_other_numbers_would_give_and_survives_json():
    report = plan(STEPS[16, 12, 4], WIDE, "pipelined", 256, 2, MANY).report
    assert Report.from_dict(json.loads(json.dumps(report.as_dict()))) == report
    text = " ".join(report.text().split())
    assert f"{report.pipelined.copies} copies of the pipeline" in text
    assert "alternatives: " in text
    assert "1 system with 1 copy each" in text


@pytest.mark.slow
def test_each_size_of_the_batch_is_looked_up_once(monkeypatch):
    wired = []

    def counted(program):
        wired.append(program_batch_size(program))
        return wire(program)

    monkeypatch.setattr(mode_plan, "wire", counted)
    plan(STEPS[6, 4], WIDE, batch_size=64, systems=4, host=MANY)
    assert len(wired) > 2
    assert sorted(wired) == sorted(set(wired))
