"""The drawings of `viz` as matplotlib figures. matplotlib, of the extra `viz`, is imported at the first use."""

import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from lazytensor.errors import LazyError
from wse_sim import floor_drawing
from wse_sim.fabric.run import RunResult
from wse_sim.fabric.tracing import Moment
from wse_sim.machine import Machine
from wse_sim.planner.report import ModeReport
from wse_sim.planner.timeline import Timeline
from wse_sim.viz.meshes import CORE_STATES, PORT_NAMES, busiest_links, link_counts
from wse_sim.viz.size_tables import SizePoint

Figure = Any
"""A matplotlib.figure.Figure. The type is Any because matplotlib is optional."""

_STATE_COLOURS = {
    "busy": "#2a6f97",
    "on_input": "#f4a259",
    "on_output": "#bc4b51",
    "on_memory": "#8e7dbe",
    "idle": "#f2f2f2",
}
_STATE_LABELS = {
    "busy": "busy",
    "on_input": "waits for words",
    "on_output": "waits for room on a route",
    "on_memory": "between elements of a slow operation",
    "idle": "idle",
}
"""State of a core -> its label in legends. An operation is slow if it takes more than one cycle for each element."""
_SPAN_COLOUR, _CRITICAL_SPAN_COLOUR = "#a9c4d6", "#bc4b51"
_FIGURE_WIDTH_INCHES, _ROW_HEIGHT_INCHES = 9.0, 0.3


def _import_matplotlib(name: str) -> ModuleType:
    """Return a submodule of matplotlib. Raise LazyError if it is not installed."""
    try:
        return importlib.import_module(f"matplotlib.{name}")
    except ModuleNotFoundError as error:
        raise LazyError(
            f"a picture needs matplotlib ({error})", hint="Install it with `pip install lazywafer[viz]`."
        ) from error


def _make_figure(high: float, columns: int = 1, rows: int = 1) -> tuple[Figure, Any]:
    """Return a figure that is `high` inches high, and an array [rows, columns] of its axes."""
    # pyplot would use global state and choose a window system.
    figure = _import_matplotlib("figure").Figure(figsize=(_FIGURE_WIDTH_INCHES, high), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def space_time(moments: Sequence[Moment]) -> Figure:
    """Return a figure of a trace with a row for each core and a column for each cycle, coloured by the core's state."""
    cores = sorted({(m.y, m.x) for m in moments})
    place = {core: i for i, core in enumerate(cores)}
    grid = np.full((max(1, len(cores)), max((m.cycle for m in moments), default=0) + 1), CORE_STATES.index("idle"))
    for m in moments:
        grid[place[m.y, m.x], m.cycle] = CORE_STATES.index(m.did)
    figure, ((axes,),) = _make_figure(1.4 + _ROW_HEIGHT_INCHES * len(cores))
    axes.imshow(grid, aspect="auto", interpolation="nearest", cmap=_colour_map(), vmin=0, vmax=len(CORE_STATES) - 1)
    axes.set_yticks(range(len(cores)), [f"({x}, {y})" for y, x in cores])
    axes.set_xlabel("cycle")
    _add_legend(figure, {_STATE_LABELS[state]: _STATE_COLOURS[state] for state in CORE_STATES})
    return figure


def _add_legend(figure: Figure, colours: Mapping[str, str]) -> None:
    """Add a legend above the axes with a label for each colour."""
    patch = _import_matplotlib("patches").Patch
    # Edges make the light grey of idle cores visible on white.
    signs = [patch(facecolor=colour, edgecolor="#808080", label=label) for label, colour in colours.items()]
    figure.legend(handles=signs, ncols=3, loc="outside upper center")


def _colour_map() -> Any:
    return _import_matplotlib("colors").ListedColormap([_STATE_COLOURS[s] for s in CORE_STATES])


def heat_map(done: RunResult, count: int = 10) -> Figure:
    """Return a figure of wavelets per cycle with one map for each port. Crosses mark the `count` busiest links."""
    figure, axes = _make_figure(3.2, len(PORT_NAMES))
    marked = busiest_links(done, count)
    loads = [link_counts(done, port) / max(1, done.cycles) for port in PORT_NAMES]
    # Use one scale for all maps, so that directions can be compared.
    fullest = max(float(load.max()) for load in loads) or 1
    for one, port, load in zip(axes[0], PORT_NAMES, loads, strict=True):
        image = one.imshow(load, vmin=0, vmax=fullest, cmap="magma", interpolation="nearest")
        ours = [link for link in marked if link.direction == port]
        one.plot([link.x for link in ours], [link.y for link in ours], "x", color="#7fd1ae")
        one.set_title(port)
        one.set_xticks([])
        one.set_yticks([])
    figure.colorbar(image, ax=axes, location="bottom", shrink=0.5, label=f"wavelets a cycle, {done.cycles:,} cycles")
    return figure


def activity(done: RunResult) -> Figure:
    """Return a figure with one map for each state: the share of its cycles that every core spent in it."""
    figure, axes = _make_figure(3.2, len(CORE_STATES))
    total = np.maximum(1, sum(done.counters[s] for s in CORE_STATES))
    for one, state in zip(axes[0], CORE_STATES, strict=True):
        image = one.imshow(done.counters[state] / total, vmin=0, vmax=1, cmap="viridis", interpolation="nearest")
        one.set_title(state)
        one.set_xticks([])
        one.set_yticks([])
    figure.colorbar(image, ax=axes, location="bottom", shrink=0.5, label=f"share of {done.cycles:,} cycles")
    return figure


def compare_sizes(points: Sequence[SizePoint], name: str = "size") -> Figure:
    """Return a figure of cycles by closed form and by simulation over sizes, and of the relative error below."""
    figure, ((above,), (below,)) = _make_figure(5, rows=2)
    sizes = [s.size for s in points]
    above.loglog(sizes, [s.closed_cycles for s in points], "-", color=_STATE_COLOURS["busy"], label="closed form")
    above.loglog(sizes, [s.simulated_cycles for s in points], "o", color=_STATE_COLOURS["on_output"], label="simulated")
    above.set_ylabel("cycles")
    above.legend()
    below.semilogx(sizes, [100 * s.error for s in points], "o-", color=_STATE_COLOURS["busy"])
    below.axhline(0, color="#808080", linewidth=0.8)
    below.set_xlabel(name)
    below.set_ylabel("error of the closed form, %")
    return figure


def floor_plan(report: ModeReport, machine: Machine | str) -> Figure:
    """Return a figure of the rectangles of a mode's layers on the mesh of `machine`, a machine or its name.

    A rectangle has the label of its layer with the most cycles. If nothing is placed, the title has the reason.
    """
    machine = Machine.of(machine)
    figure, ((axes,),) = _make_figure(_FIGURE_WIDTH_INCHES * machine.usable_height / machine.usable_width)
    rectangle = _import_matplotlib("patches").Rectangle
    for n, ((x, y, width, height), (row, *_)) in enumerate(floor_drawing.group_by_rectangle(report.rows).items()):
        axes.add_patch(rectangle((x, y), width, height, facecolor=f"C{n % 10}", edgecolor="white", alpha=0.7))
        axes.text(x + width / 2, y + height / 2, row.label, ha="center", va="center", fontsize="x-small", clip_on=True)
    axes.set_xlim(0, machine.usable_width)
    axes.set_ylim(machine.usable_height, 0)
    axes.set_aspect("equal")
    axes.set_title(f"{machine.name}, {report.mode}" if report.fits else f"{report.mode}: {report.reason}")
    return figure


def gantt(timeline: Timeline) -> Figure:
    """Return a figure with a bar for each span on its lane, without its waiting. Spans of the critical path are red."""
    lanes, critical = timeline.lanes, set(timeline.critical_path())
    figure, ((axes,),) = _make_figure(1.2 + _ROW_HEIGHT_INCHES * len(lanes))
    for i, spans in enumerate(lanes.values()):
        for span in spans:
            start, colour = span.busy_start_cycles, _CRITICAL_SPAN_COLOUR if span in critical else _SPAN_COLOUR
            axes.barh(
                i, span.end_cycles - start, left=start, height=0.8, color=colour, edgecolor="white", linewidth=0.3
            )
    axes.set_yticks(range(len(lanes)), list(lanes))
    axes.invert_yaxis()
    axes.set_xlabel("cycle")
    _add_legend(figure, {"on the critical path": _CRITICAL_SPAN_COLOUR, "others": _SPAN_COLOUR})
    return figure
