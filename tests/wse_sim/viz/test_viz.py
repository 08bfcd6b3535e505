"""Drawings: every wavelet and cycle of a run is in them, they fit the screen, and only pictures need matplotlib."""

import importlib
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazytensor.errors import LazyError
from tests.wse_sim.programs import mlp, quick, tiny_mlp
from wse_sim import viz
from wse_sim.fabric import EAST, RAMP, WEST, Builder, Memory, Mesh, Received, Sent, simulate, trace
from wse_sim.fabric.run import RunResult
from wse_sim.machine import TINY, WSE2
from wse_sim.planner.modes import plan
from wse_sim.planner.modes import simulate as simulate_program
from wse_sim.planner.timeline import Timeline
from wse_sim.viz import SizePoint, meshes, pictures

WORDS, PES = 8, 4


def line(pes: int = PES, words: int = WORDS) -> Mesh:
    """The first core sends its words along a line, and every other one keeps them."""
    mesh = Mesh(WSE2, pes, 1)
    first, others = Builder("first", words), Builder("others", words)
    first.move(Sent(0), Memory(0), words)
    others.move(Memory(0), Received(0), words)
    mesh.run(first.build(), 0, 0)
    mesh.run(others.build(), slice(1, None), 0)
    mesh.route(0, 0, 0, RAMP, [EAST])
    mesh.route(0, slice(1, pes - 1), 0, WEST, [RAMP, EAST])
    mesh.route(0, pes - 1, 0, WEST, [RAMP])
    return mesh


@pytest.fixture(scope="module")
def done() -> RunResult:
    return simulate(line()).expect_finished()


@pytest.fixture(scope="module")
def moments():
    return trace(line(), [(x, 0) for x in range(PES)])[1]


def counted(height: int, width: int, **counts) -> RunResult:
    """A run of 100 cycles that counted this, and nothing else."""
    empty = np.zeros((height, width), np.int32)
    counters = dict.fromkeys((*meshes.CORE_STATES, *meshes.PORT_NAMES), empty) | counts
    return RunResult("finished", 100, np.zeros((height, width, 1)), counters, empty, (), {}, {}, {}, {}, 0)


@pytest.mark.slow
def test_busiest_links_are_those_that_the_wavelets_took(done):
    links = viz.busiest_links(done)
    assert [(link.x, link.y, link.direction, link.wavelets) for link in links] == [
        (x, 0, "east", WORDS) for x in range(PES - 1)
    ]
    assert all(link.per_cycle == WORDS / done.cycles for link in links)
    into_cores = viz.busiest_links(done, ports=["ramp"])
    assert [(link.x, link.wavelets) for link in into_cores] == [(x, WORDS) for x in range(1, PES)]


@quick
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 12), st.randoms(use_true_random=False))
def test_busiest_links_are_the_largest_counts_in_order(height, width, count, random):
    counts = {
        port: np.array([[random.randrange(4) for _ in range(width)] for _ in range(height)])
        for port in meshes.LINK_NAMES
    }
    found = [link.wavelets for link in viz.busiest_links(counted(height, width, **counts), count)]
    every = sorted((int(n) for grid in counts.values() for n in grid.reshape(-1) if n), reverse=True)
    assert found == every[:count]


@pytest.mark.slow
def test_heat_map_has_a_digit_for_each_router_and_names_the_links(done):
    _, drawn, *links = viz.heat_map(done).splitlines()
    assert drawn == "9" * (PES - 1) + "."
    assert links == [f"core ({x}, 0) east: 8 wavelets, {WORDS / done.cycles:.2f} a cycle" for x in range(PES - 1)]
    assert viz.heat_map(done, "ramp").splitlines()[1] == "." + "9" * (PES - 1)
    assert set(viz.heat_map(done, "north").splitlines()[1]) == {"."}


@quick
@given(st.integers(1, 40), st.integers(1, 200), st.data())
def test_heat_map_of_a_large_mesh_fits_and_keeps_its_hottest_router(height, width, data):
    x, y = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    west = np.zeros((height, width), np.int32)
    west[y, x] = 95
    head, *drawn, link = viz.heat_map(counted(height, width, west=west), columns=30).splitlines()
    assert max(map(len, drawn)) == min(width, 30)
    assert ("a character is" in head) == (width > 30)
    assert "".join(drawn).replace(".", "") == "9"
    assert link == f"core ({x}, {y}) west: 95 wavelets, 0.95 a cycle"


def test_digits_are_tenths_of_the_fullest_router():
    run = counted(2, 3, north=np.array([[40, 20, 0], [0, 0, 0]]), south=np.array([[0, 22, 1], [4, 39, 0]]))
    head, *drawn = viz.heat_map(run, count=0).splitlines()
    assert drawn == ["950", "19."]
    assert "tenths of 0.40 wavelets a cycle, over 100 cycles" in head


def test_activity_shows_what_cores_did_longest():
    grids = {"busy": [[60, 10, 0]], "on_input": [[30, 70, 0]], "idle": [[10, 20, 100]]}
    run = counted(1, 3, **{name: np.array(grid) for name, grid in grids.items()})
    head, drawn = viz.activity(run).splitlines()
    assert drawn == "#-."
    assert head.startswith("100 cycles: 23.3 % busy, 33.3 % on_input, 0.0 % on_output, 0.0 % on_memory, 43.3 % idle")
    assert viz.activity(run, "on_input").splitlines()[1] == "37."
    assert viz.activity(run, columns=1).splitlines()[1] == "."


@pytest.mark.slow
def test_shares_of_a_run_add_up_to_all_cycles(done):
    shares = [float(part.split()[0]) for part in viz.activity(done).splitlines()[0].split(": ")[1].split(", ")]
    assert sum(shares) == pytest.approx(100, abs=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("draw", [viz.heat_map, viz.activity])
def test_what_a_run_does_not_count_is_refused_with_what_it_does(done, draw):
    with pytest.raises(LazyError, match="unknown counter 'up'"):
        draw(done, "up")


@pytest.mark.slow
def test_stalls_are_the_cycles_that_a_core_waited(done, moments):
    found = viz.stalls(moments)
    for x in range(PES):
        waited = sum(s.cycles for s in found if s.x == x and s.reason == "on_input")
        assert waited == done.counters["on_input"][0, x]
    assert [s.cycles for s in found] == sorted((s.cycles for s in found), reverse=True)
    assert str(found[0]).startswith(f"core (3, 0) waited {found[0].cycles} cycles for colour 0 from cycle ")
    assert str(found[0]).endswith(f"`move [0], in0 x{WORDS}` after 0 elements")
    assert len(viz.stalls(moments, 2)) == 2


@pytest.mark.parametrize(
    ("reason", "colours", "what"),
    [("on_input", (1, 12), "colour 1 or 12"), ("on_output", (3,), "room on colour 3"), ("on_memory", (), "memory")],
)
def test_a_stall_names_the_colours_of_its_side_alone(reason, colours, what):
    places = ("in7, main.0, `add out3, in12:float16, in1 x4`", "in7, main.1, `move [0], in1 x4 async`")
    stall = viz.Stall(4, 2, 10, 21, reason, places, (0, 3))
    assert stall.colours == colours
    assert str(stall).startswith(f"core (4, 2) waited 12 cycles for {what} from cycle 10 on: {places[0]} after 0 ")
    assert str(stall).endswith(f" and {places[1]} after 3 elements")


def test_sizes_give_the_error_of_the_closed_form():
    head, first, second = viz.compare_sizes([SizePoint(8, 90, 100), SizePoint(4096, 5000, 4000)], "words").splitlines()
    assert head.split() == ["words", "closed", "form", "simulated", "error"]
    assert first.split() == ["8", "90", "100", "-10.0", "%"]
    assert second.split() == ["4,096", "5,000", "4,000", "+25.0", "%"]


@pytest.mark.slow
def test_every_drawing_has_a_picture(done, moments):
    """Figures that can be drawn: a canvas renders them."""
    report, made = simulate_program(tiny_mlp(), TINY), plan(tiny_mlp(), TINY)
    figures = {
        "space_time": pictures.space_time(moments),
        "heat_map": pictures.heat_map(done),
        "activity": pictures.activity(done),
        "compare_sizes": pictures.compare_sizes([SizePoint(8, 90, 100), SizePoint(64, 400, 410)], "words"),
        "floor_plan": pictures.floor_plan(report.pipelined, TINY),
        "gantt": pictures.gantt(made.streaming.timeline),
    }
    drawings = {name for name in viz.__all__ if name[0].islower()} - {"busiest_links", "stalls"}
    assert figures.keys() == drawings
    canvas = importlib.import_module("matplotlib.backends.backend_agg").FigureCanvasAgg
    for figure in figures.values():
        canvas(figure).draw()


@pytest.mark.slow
def test_picture_of_space_and_time_has_what_each_core_did(done, moments):
    image = pictures.space_time(moments).axes[0].images[0].get_array()
    assert image.shape == (PES, done.cycles)
    for state in ("busy", "on_input"):
        assert list((image == meshes.CORE_STATES.index(state)).sum(1)) == list(done.counters[state][0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["space_time", "gantt"])
def test_legend_has_a_label_for_each_colour_of_the_picture(moments, name):
    if name == "space_time":
        figure = pictures.space_time(moments)
        (image,) = figure.axes[0].images
        drawn = {tuple(colour) for colour in image.cmap(image.norm(image.get_array())).reshape(-1, 4)}
    else:
        figure = pictures.gantt(plan(mlp(), WSE2).streaming.timeline)
        drawn = {bar.get_facecolor() for bar in figure.axes[0].patches}
    (legend,) = figure.legends
    signs = {
        sign.get_facecolor(): text.get_text()
        for sign, text in zip(legend.get_patches(), legend.get_texts(), strict=True)
    }
    assert len(drawn) > 1 and drawn <= signs.keys()
    assert len(set(signs.values())) == len(signs) and all(signs.values())


@pytest.mark.slow
def test_pictures_of_links_and_cores_hold_the_counters(done):
    maps = pictures.heat_map(done).axes[: len(meshes.PORT_NAMES)]
    for axes, port in zip(maps, meshes.PORT_NAMES, strict=True):
        np.testing.assert_allclose(axes.images[0].get_array(), done.counters[port] / done.cycles)
    shares = [axes.images[0].get_array() for axes in pictures.activity(done).axes[: len(meshes.CORE_STATES)]]
    np.testing.assert_allclose(sum(shares), 1)


@pytest.mark.slow
def test_picture_of_a_plan_has_a_rectangle_for_each_kernel_and_a_bar_for_each_span():
    report = simulate_program(mlp(), WSE2).pipelined
    drawn = pictures.floor_plan(report, WSE2).axes[0].patches
    assert [(p.get_x(), p.get_y(), p.get_width(), p.get_height()) for p in drawn] == [r.rect for r in report.rows]
    timeline = plan(mlp(), WSE2).streaming.timeline
    bars = pictures.gantt(timeline).axes[0].patches
    assert sorted((b.get_x(), b.get_width()) for b in bars) == sorted(
        (s.busy_start_cycles, s.end_cycles - s.busy_start_cycles) for s in timeline.spans
    )
    assert pictures.gantt(Timeline(())).axes


@pytest.mark.slow
def test_without_matplotlib_a_picture_names_the_extra(done, monkeypatch):
    def without(name, *rest):
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(LazyError, match=r"needs matplotlib") as raised:
        pictures.heat_map(done)
    assert "lazywafer[viz]" in str(raised.value)


@pytest.mark.process
def test_importing_pictures_does_not_load_matplotlib():
    script = "import sys, wse_sim, wse_sim.viz.pictures; print('matplotlib' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
