"""Floorplans of reports and Gantt charts of timelines, as text."""

from collections.abc import Iterator, Mapping, Sequence

from wse_sim import floor_drawing
from wse_sim.machine import Machine
from wse_sim.planner.report import LayerRow, ModeReport
from wse_sim.planner.timeline import Timeline, TimeSpan

_IDLE_SIGN, _WAIT_SIGN = ".", "-"


def floor_plan(report: ModeReport, machine: Machine | str, columns: int = 72) -> str:
    """Return the rectangles of a mode's layers as text, one letter for each, with a legend.

    `machine` is a machine or its name. A character represents a block of PEs. A row has at most `columns` characters.
    If several rectangles share a block, the one with the most PEs in it is shown. Layers on the same rectangle (those
    of a stage, or all layers in streaming mode) share a letter. The legend names the layer with the most cycles first
    and lists the others in indented lines. If nothing is placed, the text has the reason.

    >>> import lazytensor as lt
    >>> from wse_sim import TINY, simulate
    >>> report = simulate(lt.trace(lt.nn.Linear(8, 8), lt.ones(4, 8)), TINY, "pipelined")
    >>> print(floor_plan(report.chosen, "tiny").splitlines()[0])
    tiny: 8 x 8 PEs, a character is 1.0 x 1.0
    """
    machine = Machine.of(machine)
    stages = floor_drawing.group_by_rectangle(report.rows)
    if not stages:
        return f"nothing placed{': ' + report.reason if report.reason else ''}\n"
    lines, scale = floor_drawing.draw_text(list(stages), machine.usable_width, machine.usable_height, columns)
    title = f"{machine.name}: {machine.usable_width} x {machine.usable_height} PEs, {scale}"
    return "\n".join([title, *lines, *_legend(stages)]) + "\n"


def _legend(stages: Mapping[floor_drawing.RectTuple, Sequence[LayerRow]]) -> Iterator[str]:
    for n, ((_, _, width, height), (main, *others)) in enumerate(stages.items()):
        yield f"{floor_drawing.index_letter(n)} {main.label} {width}x{height}, {main.cycles:,} cycles"
        yield from (f"  {row.label}, {row.cycles:,} cycles" for row in others)


def gantt(timeline: Timeline, columns: int = 72) -> str:
    """Return a timeline as text, with a bar for each lane over `columns` characters.

    "#" is busy, "+" is busy on the critical path, and "-" waits, for example for weights that are still arriving.

    >>> import lazytensor as lt
    >>> from wse_sim import TINY, plan
    >>> shown = gantt(plan(lt.trace(lt.nn.Linear(8, 8), lt.ones(4, 8)), TINY, "pipelined").chosen.timeline)
    >>> shown.splitlines()[0].split()[0]
    '0'
    """
    end = timeline.end_cycles
    if not end:
        return "nothing happens\n"
    critical = set(timeline.critical_path())
    names = list(timeline.lanes)
    margin = min(28, max(len(name) for name in names))
    lines = [f"{'':<{margin}} 0{f'{end:,} cycles':>{columns - 1}}"]
    for name, spans in timeline.lanes.items():
        shown = name if len(name) <= margin else name[: margin - 3] + "..."
        lines.append(f"{shown:<{margin}} {_bar_text(spans, critical, end, columns)}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _bar_text(spans: tuple[TimeSpan, ...], critical: set[TimeSpan], end: int, columns: int) -> str:
    cells = [_IDLE_SIGN] * columns
    for span in spans:
        work = "+" if span in critical else "#"
        for mark, start, stop in (
            (_WAIT_SIGN, span.start_cycles, span.busy_start_cycles),
            (work, span.busy_start_cycles, span.end_cycles),
        ):
            if start == stop:
                continue
            first = start * columns // end
            # Round outwards, so that every span is visible.
            last = max(first + 1, -(-stop * columns // end))
            cells[first:last] = [mark] * (min(last, columns) - first)
    return "".join(cells)
