"""Reports: they survive JSON, fit the screen, and say what they do not claim."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings

from lazytensor.errors import LazyError
from tests.wse_sim.programs import Builder, machines, mlp, mlps, tiny_mlp
from wse_sim.machine import TINY, WSE2
from wse_sim.planner.modes import plan, simulate
from wse_sim.planner.report import Report
from wse_sim.viz import floor_plan, gantt, pictures

few = settings(deadline=None, max_examples=3)


@pytest.fixture(scope="module")
def simulated():
    """The report of a small net on WSE-2, and its program."""
    program = mlp()
    return simulate(program, WSE2), program


@few
@given(mlps(), machines())
def test_report_survives_json_and_its_text_fits_the_screen_and_names_every_kernel(program, machine):
    report = simulate(program, machine)
    data = report.as_dict()
    back = json.loads(json.dumps(data))
    assert back == data
    assert Report.from_dict(back) == report
    text = report.text()
    assert max(map(len, text.splitlines())) <= 110
    for row in report.rows:
        assert row.label[-20:] in text or not row.cycles


def test_text_begins_with_a_verdict_and_says_both_modes_and_their_bounds(simulated):
    text = simulated[0].text()
    assert "(chosen): step" in text
    assert "pipelined" in text
    assert "streaming" in text
    assert text.count("verdict:") == 2
    assert text.startswith("Limited by ")
    assert "of 49,152" in text


def test_text_of_a_mode_that_does_not_fit_gives_the_reason_and_no_numbers():
    text = simulate(mlp((784, 512, 10)), TINY).text()
    assert "pipelined: does not fit." in text
    assert "pipelined: step" not in text


def test_long_tables_are_cut_and_say_so(simulated):
    text = simulated[0].text(max_rows=1)
    assert "... and 1 more layers" in text


def test_rows_agree_with_the_program(simulated):
    report, program = simulated
    for mode in (report.pipelined, report.streaming):
        assert sum(row.flops for row in mode.rows) == program.work.flops
        assert all(0 <= row.utilisation <= 1 for row in mode.rows)
        assert max(row.bytes_per_pe for row in mode.rows) == mode.peak_bytes_per_pe


def test_utilisation_is_work_over_peak():
    """One product of 25.7 MFLOP on 64 PEs of 2 FLOP a cycle."""
    b = Builder()
    b.fetches.append(b.matmul(b.input((64, 784)), b.weight("w", (784, 256))))
    (row,) = simulate(b.program(), TINY, "streaming").rows
    assert row.utilisation == pytest.approx(2 * 64 * 784 * 256 / (row.cycles * 64 * 2))


def test_seconds_are_those_of_the_same_machine():
    report = simulate(tiny_mlp(), TINY)
    assert report.seconds(TINY) == pytest.approx(report.step_cycles / 0.85e9)
    with pytest.raises(LazyError, match="tiny"):
        report.seconds(WSE2)


def test_floor_plan_shows_each_pe_of_a_small_mesh():
    report = simulate(tiny_mlp(), TINY).pipelined
    drawn = floor_plan(report, TINY).splitlines()[1:9]
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    for n, row in enumerate(report.rows):
        x, y, width, height = row.rect
        shown = [drawn[v][u] for v in range(y, y + height) for u in range(x, x + width)]
        assert shown == [letters[n]] * (width * height)
    assert sum(line.count(".") for line in drawn) == 64 - sum(r.rect[2] * r.rect[3] for r in report.rows)


def test_floor_plan_of_a_wafer_fits_the_screen_and_has_a_legend():
    report = simulate(mlp(), WSE2).pipelined
    lines = floor_plan(report, WSE2).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("cycles" in line for line in lines) == len(report.rows)
    assert "A" in lines[1]


def test_layers_of_one_stage_are_one_rectangle_with_the_name_of_the_busiest():
    report = simulate(tiny_mlp(), TINY, "pipelined")
    first, *_, last = report.rows
    rows = (replace(first, label="less", cycles=1), first, last, replace(last, label="model/idle", cycles=0))
    report = replace(report, pipelined=replace(report.pipelined, rows=rows))
    lines = floor_plan(report.pipelined, TINY).splitlines()
    for letter, row in (("A", first), ("B", last)):
        x, y, width, height = row.rect
        assert {line[x : x + width] for line in lines[1 + y : 1 + y + height]} == {letter * width}
    assert [line.partition(",")[0] for line in lines[9:]] == [
        f"A {first.label} {first.rect[2]}x{first.rect[3]}",
        "  less",
        f"B {last.label} {last.rect[2]}x{last.rect[3]}",
        "  model/idle",
    ]
    names = re.findall(r"<text[^>]*>([^<]*)<", report._repr_html_())
    assert names == [row.label.rpartition("/")[2] for row in (first, last)]
    drawn = pictures.floor_plan(report.pipelined, TINY).axes[0]
    assert [(p.get_x(), p.get_y(), p.get_width(), p.get_height()) for p in drawn.patches] == [first.rect, last.rect]
    assert [text.get_text() for text in drawn.texts] == [first.label, last.label]


def test_floor_plan_of_nothing_gives_the_reason():
    report = simulate(mlp((784, 512, 10)), TINY).pipelined
    assert report.reason in floor_plan(report, TINY)


def test_gantt_has_a_bar_for_each_lane_and_marks_the_critical_path():
    timeline = plan(tiny_mlp(), TINY).streaming.timeline
    chart = gantt(timeline, 50)
    lines = chart.splitlines()
    assert f"{timeline.end_cycles:,} cycles" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == [lane.split()[0] for lane in timeline.lanes]
    assert "+" in chart
    busy = [max(line.count(c) for c in "+#") for line in lines[1:]]
    assert min(busy) > 0
