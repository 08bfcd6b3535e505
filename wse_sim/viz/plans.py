"""The floor plan of a report and a timeline of bars, as text."""

from string import ascii_lowercase, ascii_uppercase, digits

from wse_sim.machine import Machine
from wse_sim.plan.report import LayerRow, ModeReport
from wse_sim.plan.timeline import Timeline, TimeSpan

_LETTERS = ascii_uppercase + ascii_lowercase + digits
_EMPTY, _MORE = ".", "*"


def floor_plan(report: ModeReport, machine: Machine, columns: int = 72) -> str:
    """The rectangles of a mode's kernels, one letter for each, with a legend.

    A character stands for a cell of PEs, at most `columns` in a row and half as many cells to the length in y. Where
    several kernels share a cell, the one with most PEs in it is shown. In streaming mode the kernels use the mesh in
    turn, so that they overlap; later ones are shown.
    """
    placed = [row for row in report.rows if row.rect]
    if not placed:
        return f"nothing placed{': ' + report.reason if report.reason else ''}\n"
    width, height = machine.usable_width, machine.usable_height
    wide = min(columns, width)
    high = height if wide == width else max(1, round(height * wide / width / 2))
    high = min(high, height)
    lines = ["".join(_cell(placed, x, y, wide, high, width, height) for x in range(wide)) for y in range(high)]
    legend = [f"{_letter(n)} {row.label} {_size(row)}" for n, row in enumerate(placed)]
    scale = f"{machine.name}: {width} x {height} PEs, a character is {width / wide:.1f} x {height / high:.1f}"
    return "\n".join([scale, *lines, *legend]) + "\n"


def _letter(n: int) -> str:
    return _LETTERS[n] if n < len(_LETTERS) else _MORE


def _size(row: LayerRow) -> str:
    _, _, width, height = row.rect or (0, 0, 0, 0)
    return f"{width}x{height}, {row.cycles:,} cycles"


def _cell(placed: list[LayerRow], x: int, y: int, wide: int, high: int, width: int, height: int) -> str:
    """The letter of the kernel that has the most of the cell (x, y) of wide x high cells."""
    left, right = x * width // wide, (x + 1) * width // wide
    top, bottom = y * height // high, (y + 1) * height // high
    best, shown = 0, _EMPTY
    for n, row in enumerate(placed):
        rx, ry, rw, rh = row.rect or (0, 0, 0, 0)
        shared = max(0, min(right, rx + rw) - max(left, rx)) * max(0, min(bottom, ry + rh) - max(top, ry))
        # Equal shares go to the later kernel: in streaming mode all of them overlap.
        if shared and shared >= best:
            best, shown = shared, _letter(n)
    return shown


def gantt(timeline: Timeline, columns: int = 72) -> str:
    """A bar for each lane over `columns` characters; `#` is busy, `+` is busy on the critical path."""
    end = timeline.end_cycles
    if not end:
        return "nothing happens\n"
    critical = set(timeline.critical_path())
    names = list(timeline.lanes)
    margin = min(28, max(len(name) for name in names))
    lines = [f"{'':<{margin}} 0{f'{end:,} cycles':>{columns - 1}}"]
    for name, spans in timeline.lanes.items():
        shown = name if len(name) <= margin else name[: margin - 3] + "..."
        lines.append(f"{shown:<{margin}} {_bar(spans, critical, end, columns)}")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _bar(spans: tuple[TimeSpan, ...], critical: set[TimeSpan], end: int, columns: int) -> str:
    cells = [_EMPTY] * columns
    for span in spans:
        if span.end_cycles == span.start_cycles:
            continue
        first = span.start_cycles * columns // end
        # Rounded outwards, so that no span vanishes.
        last = max(first + 1, -(-span.end_cycles * columns // end))
        mark = "+" if span in critical else "#"
        cells[first:last] = [mark] * (min(last, columns) - first)
    return "".join(cells)
