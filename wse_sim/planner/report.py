"""Reports of plans as dataclasses, as text, as HTML and as plain data for JSON. Field names contain their units."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from operator import attrgetter
from textwrap import fill
from typing import Any

from lazytensor.display.table import Column, Table
from lazytensor.errors import LazyError
from wse_sim import floor_drawing
from wse_sim.error_bands import error_band
from wse_sim.machine import Machine
from wse_sim.number_format import format_duration, format_estimate, format_number, format_percent, format_short
from wse_sim.planner.bounds import LIMIT_NAMES, RateBound
from wse_sim.planner.micro_batches import ExploredSize, micro_batch_text

# Column at which limits and reasons are wrapped.
TEXT_WIDTH = 110
_LABEL_WIDTH, _END_WIDTH = 30, 22
MAX_SHOWN_LAYERS, MAX_SHOWN_ROUTES = 40, 8


@dataclass(frozen=True)
class LayerRow:
    """One layer of a report, for one step of the whole batch on one system.

    - `label`: the layer's name
    - `where`: its line in the user's script
    - `kernels`: the number of its kernels
    - `rect`: its rectangle (x, y, width, height), None if only the weight host runs it
    - `cycles`: cycles of all its sweeps; work of the weight host takes none
    - `forward_cycles`, `backward_cycles`, `update_cycles`: cycles of each sweep
    - `flops`, `bytes`: work of its kernels
    - `bytes_per_pe`: bytes on each PE
    - `utilisation`: operations of its forward and backward sweeps over the peak of its computing PEs in that time
    - `moving_cycles`: in streaming mode, cycles in which other layers' activations move to its layout, which overlap
      with its work
    """

    label: str
    where: str
    kernels: int
    rect: tuple[int, int, int, int] | None
    cycles: int
    forward_cycles: int
    backward_cycles: int
    update_cycles: int
    flops: int
    bytes: int
    bytes_per_pe: int
    utilisation: float
    moving_cycles: int = 0


@dataclass(frozen=True)
class RouteRow:
    """A route between two stages in a report.

    - `source`, `target`: names of the stages
    - `sample_bytes`: bytes for each sample
    - `hops`: distance from centre to centre
    - `lanes`: number of parallel lanes, each with an equal share of the bytes
    - `colour`: its colour
    - `ports`: cores of its adapter, 0 if it needs none
    - `adapter_cycles`: cycles of the adapter for a sample
    - `link_bytes`: bytes of all routes that pass its fullest link for each sample
    - `link_x`, `link_y`, `link_direction`: the core and the direction in which this link leaves it
    """

    source: str
    target: str
    sample_bytes: int
    hops: int
    lanes: int
    colour: int
    ports: int
    adapter_cycles: int
    link_bytes: float
    link_x: int
    link_y: int
    link_direction: str


@dataclass(frozen=True)
class Alternative:
    """Another number of systems, and of copies on each, that fits, with its rate and its limit."""

    systems: int
    copies: int
    samples_per_s: float
    limit: str


@dataclass(frozen=True)
class ModeReport:
    """The report of one mode. If the program does not fit, only `mode`, `reason` and `largest_batch` are set.

    - `mode`: "pipelined" or "streaming"
    - `fits`: whether the program fits
    - `reason`: why it does not fit
    - `largest_batch`: if it does not fit, the largest batch that does, 0 if none does, None if not determined
    - `step_cycles`: cycles of a step
    - `fill_cycles`: cycles before the first result
    - `samples_per_s`: samples per second on all systems
    - `limit`: the kind of the bound that decides
    - `verdict`: a sentence with the limit, the script line and advice
    - `bounds`: all bounds on the rate
    - `joules_per_sample`: energy of all systems, 0 if no power is published
    - `peak_bytes_per_pe`: bytes on the fullest PE, of one copy
    - `edge_bytes_in`, `edge_bytes_out`: bytes over the edge of one system in a step
    - `dense_bytes_in`: what `edge_bytes_in` would be if no weight were sparse
    - `work_share`: share of the operations that are executed, without skipped zeros
    - `micro_batches`: micro-batches of a system's batch
    - `micro_batch_size`: samples of each, fewer in the last
    - `asked_micro_batch_size`: the size that the script requests, 0 without one
    - `explored`: the sizes that were tried at the script's request
    - `is_as_run`: whether simulated cores run the whole step in this time
    - `not_run`: why simulated cores cannot run it, on a mesh small enough for that
    - `has_recompute`: whether the forward sweep is computed again in the backward sweep
    - `used_systems`: systems in use
    - `copies`, `copy_grid`: copies of the pipeline on each system, and their columns and rows
    - `gradient_cycles`: cycles of a step that add up the gradients of all copies
    - `slowest_cycles`: cycles of the slowest stage in a step
    - `bound_cycles`: the area bound for these cycles
    - `route_hops`, `colours`: hops and colours of all routes
    - `router_colours`: colours of routes and kernels on the fullest router
    - `routes`, `rows`: routes and layers of the first copy
    - `alternatives`: other numbers of systems and copies that were tried
    """

    mode: str
    fits: bool
    reason: str = ""
    largest_batch: int | None = 0
    step_cycles: int = 0
    fill_cycles: int = 0
    samples_per_s: float = 0.0
    limit: str = ""
    verdict: str = ""
    bounds: tuple[RateBound, ...] = ()
    joules_per_sample: float = 0.0
    peak_bytes_per_pe: int = 0
    edge_bytes_in: int = 0
    edge_bytes_out: int = 0
    dense_bytes_in: int = 0
    work_share: float = 1.0
    micro_batches: int = 1
    micro_batch_size: int = 0
    asked_micro_batch_size: int = 0
    explored: tuple[ExploredSize, ...] = ()
    is_as_run: bool = False
    not_run: str = ""
    has_recompute: bool = False
    used_systems: int = 1
    copies: int = 1
    copy_grid: tuple[int, int] = (1, 1)
    gradient_cycles: int = 0
    slowest_cycles: int = 0
    bound_cycles: int = 0
    route_hops: int = 0
    colours: int = 0
    router_colours: int = 0
    routes: tuple[RouteRow, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    rows: tuple[LayerRow, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ModeReport":
        """Return the report of a mode from its entry in the dict that `Report.as_dict` returned.

        Lists become tuples and dicts become rows. `data` may lack `explored`. A missing entry of another tuple raises
        KeyError.
        """
        rows = (LayerRow(**{**row, "rect": _as_rect(row["rect"])}) for row in data["rows"])
        bounds = (RateBound(**bound) for bound in data["bounds"])
        others = tuple(Alternative(**other) for other in data["alternatives"])
        routes = tuple(RouteRow(**route) for route in data["routes"])
        columns, rows_of_copies = data["copy_grid"]
        # Reports of earlier versions have no `explored`.
        explored = tuple(ExploredSize(**one) for one in data.get("explored", ()))
        known = {"rows": tuple(rows), "bounds": tuple(bounds), "alternatives": others, "routes": routes}
        return cls(**{**data, **known, "copy_grid": (columns, rows_of_copies), "explored": explored})


def _as_rect(value: Any) -> tuple[int, int, int, int] | None:
    if value is None:
        return None
    x, y, width, height = value
    return x, y, width, height


@dataclass(frozen=True)
class Report:
    """The report of a program on a number of machines, in both modes.

    - `machine`: name of the machine
    - `systems`: number of systems
    - `clock_hz`: clock of the machine
    - `sram_bytes_per_pe`, `usable_bytes_per_pe`: memory of a PE, and what tensors may use of it
    - `batch_size`: samples of a step on all systems
    - `mode`: the chosen mode, which the properties refer to
    - `pipelined`, `streaming`: the reports of both modes
    - `error_band`: how far figures of this mode were from the published ones of the nearest family of runs
    - `precision`: the vendor's precision level at which products were priced

    >>> import lazytensor as lt, wse_sim
    >>> report = wse_sim.simulate(lt.trace(lt.nn.Linear(64, 10), lt.ones(32, 64)))
    >>> report.machine, report.streaming.limit, [(row.label, row.flops) for row in report.rows]
    ('wse2', 'control', [('matmul', 41280)])
    """

    machine: str
    systems: int
    clock_hz: float
    sram_bytes_per_pe: int
    usable_bytes_per_pe: int
    batch_size: int
    mode: str
    pipelined: ModeReport
    streaming: ModeReport
    error_band: str = ""
    precision: str = ""

    @property
    def chosen(self) -> ModeReport:
        """Return the report of the chosen mode."""
        # The other mode is reported too, for comparison.
        return self.pipelined if self.mode == "pipelined" else self.streaming

    @property
    def fits(self) -> bool:
        """Return whether the program fits in the chosen mode."""
        return self.chosen.fits

    @property
    def step_cycles(self) -> int:
        """Return the cycles of a step of the chosen mode in the steady state."""
        return self.chosen.step_cycles

    @property
    def fill_cycles(self) -> int:
        """Return the cycles before the first result in the chosen mode."""
        return self.chosen.fill_cycles

    @property
    def samples_per_s(self) -> float:
        """Return the samples per second of the chosen mode in the steady state."""
        return self.chosen.samples_per_s

    @property
    def limit(self) -> str:
        """Return the kind of the bound that limits the chosen mode."""
        return self.chosen.limit

    @property
    def verdict(self) -> str:
        """Return a sentence that names the limit of the chosen mode, its script line, and advice."""
        return self.chosen.verdict

    @property
    def peak_bytes_per_pe(self) -> int:
        """Return the bytes on the fullest PE in the chosen mode."""
        return self.chosen.peak_bytes_per_pe

    @property
    def rows(self) -> tuple[LayerRow, ...]:
        """Return the rows of the layers in the chosen mode, in program order."""
        return self.chosen.rows

    def seconds(self, machine: Machine) -> float:
        """Return the seconds of a step at the clock of `machine`.

        Raise LazyError if it is not the report's machine, by name.
        """
        if machine.name != self.machine:
            raise LazyError(
                f"the report is of {self.machine}, not of {machine.name}", hint=f"Simulate the step on {machine.name}."
            )
        return self.step_cycles / machine.clock_hz

    def as_dict(self) -> dict[str, Any]:
        """Return the report as nested dicts, lists, strings and numbers, for JSON. Tuples become lists."""
        data: dict[str, Any] = _to_plain_data(asdict(self))
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Report":
        """Return the report that `as_dict` converted to `data`. A missing entry raises KeyError or TypeError."""
        modes = {name: ModeReport.from_dict(data[name]) for name in ("pipelined", "streaming")}
        return cls(**{**data, **modes})

    def summary(self, name: str = "A step") -> str:
        """Return the short form of `text`: a row for each mode, the chosen one first, the verdict and the error band.

        `name` is the subject of the first line. If the chosen mode does not fit, its reason replaces the verdict. Rates
        are rounded to three digits. The range in parentheses is the median factor between planned and published rates
        of similar runs, up and down.
        """
        systems = f"{self.systems} x {self.machine}" if self.systems > 1 else self.machine
        first = self.verdict if self.fits else f"The step does not fit. {self.chosen.reason}"
        modes = (self.chosen, self.streaming if self.chosen is self.pipelined else self.pipelined)
        parts = [
            f"{name} with {self.batch_size:,} samples on {systems}, predicted:",
            Table(_MODE_COLUMNS, [self._mode_cells(mode) for mode in modes]).text(),
            _wrap_text(f"verdict: {first}"),
            *([_wrap_text(self.error_band)] if self.error_band else []),
        ]
        return "\n\n".join(parts) + "\n"

    def _mode_cells(self, mode: ModeReport) -> tuple[str, ...]:
        name = f"{mode.mode} (chosen)" if mode is self.chosen else mode.mode
        if not mode.fits:
            return name, "-", "-", "-", "does not fit"
        band = error_band(mode.mode, self.machine)
        return (
            name,
            format_duration(mode.step_cycles / self.clock_hz),
            format_estimate(mode.samples_per_s, band.median if band is not None else 1.0),
            f"{mode.peak_bytes_per_pe:,}",
            LIMIT_NAMES[mode.limit],
        )

    def text(self, max_rows: int = 60) -> str:
        """Return the report as text: the verdict, both modes with their bounds, and tables of layers and routes.

        The tables are those of the chosen mode. At most `max_rows` layers and `MAX_SHOWN_ROUTES` routes are listed. If
        the chosen mode does not fit, its reason replaces the verdict.
        """
        systems = f"{self.systems} x {self.machine}" if self.systems > 1 else self.machine
        head = (
            f"{systems} at {self.clock_hz / 1e9:g} GHz, batch {self.batch_size:,}, mode {self.mode}; "
            f"{self.usable_bytes_per_pe:,} of {self.sram_bytes_per_pe:,} bytes a PE are usable"
        )
        first = _wrap_text(self.verdict if self.fits else f"The step does not fit. {self.chosen.reason}")
        parts = [first, head, *(self._mode_text(m) for m in (self.pipelined, self.streaming))]
        if self.rows:
            parts.append(_layer_table_text(self.rows, max_rows))
        if self.chosen.routes:
            parts.append(_route_text(self.chosen.routes))
        if self.precision:
            parts.append(_wrap_text(f"Precision: {self.precision}."))
        if self.error_band:
            parts.append(_wrap_text(self.error_band))
        return "\n\n".join(parts) + "\n"

    def _repr_html_(self) -> str:
        """Return HTML with the verdict, a drawing of the pipeline's rectangles, and a table of at most 40 layers.

        If the chosen mode does not fit, its reason replaces the verdict.
        """
        first = self.verdict if self.fits else f"The step does not fit. {self.chosen.reason}"
        shown = self.rows[:MAX_SHOWN_LAYERS]
        table = Table(_LAYER_COLUMNS, [attrgetter(*_LAYER_FIELDS)(row) for row in shown]).html() if shown else ""
        rest = f"<p>... and {len(self.rows) - len(shown)} more layers</p>" if len(self.rows) > len(shown) else ""
        rate = f"{self.step_cycles:,} cycles a step, {format_number(self.samples_per_s)} samples/s"
        return f"<p><b>{escape(first)}</b></p><p>{self.machine}, {self.mode}: {rate}</p>{self._picture()}{table}{rest}"

    def _picture(self) -> str:
        """Return an SVG drawing of a pipeline's rectangles in HTML, or "" in streaming mode and without layers."""
        # In streaming mode the rectangles of layers overlap, since layers use the mesh in turn.
        stages = floor_drawing.group_by_rectangle(self.rows) if self.mode == "pipelined" else {}
        if not stages:
            return ""
        wide, high = (max(r[k] + r[k + 2] for r in stages) for k in (0, 1))
        # Use the last part of each label: the first is the model's name.
        names = [main.label.rpartition("/")[2] for main, *_ in stages.values()]
        drawing = floor_drawing.draw_svg(names, list(stages), (), wide, high)
        return f'<div style="max-width:480px;background:white">{drawing}</div>'

    def _mode_text(self, mode: ModeReport) -> str:
        """Return the text of one mode: figures, memory, edge, placement, alternatives, bounds and verdict.

        The lowest bound comes first. If the mode does not fit, the text has only the reason and the largest batch that
        fits.
        """
        name = f"{mode.mode}{' (chosen)' if mode.mode == self.mode else ''}"
        if not mode.fits:
            return _wrap_text(f"{name}: does not fit. {mode.reason}{_largest_text(mode)}")
        share = mode.peak_bytes_per_pe / self.sram_bytes_per_pe
        lines = [
            f"{name}: step {mode.step_cycles:,} cycles = {format_duration(mode.step_cycles / self.clock_hz)}, "
            f"fill {mode.fill_cycles:,} cycles, {format_number(mode.samples_per_s)} samples/s",
            f"  memory: at most {mode.peak_bytes_per_pe:,} bytes a PE ({format_percent(share)} of "
            f"{self.sram_bytes_per_pe:,})",
            f"  edge: {mode.edge_bytes_in:,} bytes in, {mode.edge_bytes_out:,} bytes out for each step",
        ]
        if mode.bound_cycles:
            ratio = mode.slowest_cycles / mode.bound_cycles
            lines.append(
                f"  placement: the slowest stage takes {mode.slowest_cycles:,} cycles of a step, "
                f"{ratio:.2f} times the area bound"
            )
            lines.append(
                f"  routes: {mode.route_hops:,} hops between stages, in {mode.colours} colours; the fullest router has "
                f"{mode.router_colours} colours of routes and kernels"
            )
        if mode.is_as_run:
            lines.append("  cycles: those of simulated cores that run the whole step")
        elif mode.not_run:
            # Note that this figure is not comparable with one that simulated cores run.
            lines.append(
                _wrap_text(
                    f"  cycles: by closed forms of its kernels; simulated cores do not run the step: {mode.not_run}"
                )
            )
        if mode.joules_per_sample:
            lines.append(
                f"  energy: {format_number(mode.joules_per_sample)} J a sample, at the power of a CS-2 that runs a "
                "stencil"
            )
        if mode.edge_bytes_in < mode.dense_bytes_in:
            lines.append(
                f"  sparse weights: dense weights would need {mode.dense_bytes_in:,} bytes in; "
                f"{format_percent(mode.work_share)} of the operations are executed, the others have a zero operand"
            )
        if cut := micro_batch_text(mode):
            lines.append(_wrap_text(f"  {cut}"))
        # The tightest bound comes first.
        if mode.copies > 1 or mode.used_systems > 1:
            lines.append(_wrap_text(f"  {_copies_text(mode)}"))
        if mode.alternatives:
            lines.append(_wrap_text(f"  alternatives: {'; '.join(map(_alternative_text, mode.alternatives))}"))
        lines += [_wrap_text(f"  {_bound_text(b)}") for b in sorted(mode.bounds, key=lambda b: b.samples_per_s)]
        return "\n".join([*lines, _wrap_text(f"  verdict: {mode.verdict}")])


def _largest_text(mode: ModeReport) -> str:
    if mode.largest_batch is None:
        return ""
    return f" The largest batch that fits is {mode.largest_batch:,}." if mode.largest_batch else " No batch fits."


def _copies_text(mode: ModeReport) -> str:
    """Return a text with the systems, the copies of a pipeline and the cycles of gradient sums.

    A single copy and sums without cycles are not mentioned.
    """
    columns, rows = mode.copy_grid
    copies = f"{mode.copies} copies of the pipeline ({columns} x {rows}) on " if mode.copies > 1 else ""
    systems = f"{mode.used_systems} systems" if mode.used_systems > 1 else "one system"
    sums = (
        f", whose gradients are added up in {mode.gradient_cycles:,} cycles of a step" if mode.gradient_cycles else ""
    )
    return f"{copies}{systems}{sums}"


def _alternative_text(other: Alternative) -> str:
    systems = f"{other.systems} system{'s' * (other.systems > 1)}"
    copies = f" with {other.copies} cop{'ies' if other.copies > 1 else 'y'} each"
    return f"{systems}{copies} {format_number(other.samples_per_s)} samples/s ({LIMIT_NAMES[other.limit]})"


def _bound_text(bound: RateBound) -> str:
    what = f" of {bound.what}" if bound.what else ""
    return f"at most {format_number(bound.samples_per_s)} samples/s: {LIMIT_NAMES[bound.kind]}{what} ({bound.source})"


def _to_plain_data(value: Any) -> Any:
    # Tuples become lists, as JSON returns them, so that a report read from JSON compares equal.
    if isinstance(value, dict):
        return {key: _to_plain_data(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain_data(v) for v in value]
    return value


def _wrap_text(text: str) -> str:
    return fill(text, TEXT_WIDTH, subsequent_indent="    ")


def _layer_table_text(rows: tuple[LayerRow, ...], max_rows: int) -> str:
    """Return a table of the first `max_rows` layers that take cycles, and a line with the number of the others."""
    rows = tuple(row for row in rows if row.cycles)
    table = Table(_LAYER_COLUMNS, [attrgetter(*_LAYER_FIELDS)(row) for row in rows[:max_rows]])
    lines = [table.text(gap=1)]
    if rest := rows[max_rows:]:
        lines.append(f"... and {len(rest)} more layers, {sum(r.cycles for r in rest):,} cycles")
    return "\n".join(lines)


def _shorten_label(text: str, width: int = _LABEL_WIDTH) -> str:
    """Return the end of a label that is longer than `width`, after "...". Labels share their first part, the module."""
    return text if len(text) <= width else "..." + text[3 - width :]


def _rect_text(rect: tuple[int, int, int, int] | None) -> str:
    if rect is None:
        return "-"
    x, y, width, height = rect
    return f"{width}x{height}+{x}+{y}"


_MODE_COLUMNS = (
    Column("mode", is_words=True),
    Column("step"),
    Column("samples/s"),
    Column("bytes a PE"),
    Column("what limits", is_words=True),
)
_LAYER_COLUMNS = (
    Column("layer", _shorten_label, is_words=True, width=_LABEL_WIDTH),
    Column("rectangle", _rect_text, width=15),
    Column("forward", format_short, width=10),
    Column("backward", format_short, width=10),
    Column("update", format_short, width=10),
    Column("FLOPs", format_short, width=10),
    Column("bytes/PE", "{:,}".format, width=9),
    Column("of peak", format_percent, width=8),
)
_LAYER_FIELDS = (
    "label",
    "rect",
    "forward_cycles",
    "backward_cycles",
    "update_cycles",
    "flops",
    "bytes_per_pe",
    "utilisation",
)
"""The fields of a `LayerRow`, in the order of `_LAYER_COLUMNS`."""


def _route_text(routes: Sequence[RouteRow], max_rows: int = MAX_SHOWN_ROUTES) -> str:
    """Return the table of at most `max_rows` routes, those with the fullest links first.

    A last line counts the other routes, if any.
    """
    ordered = sorted(routes, key=lambda r: -r.link_bytes)
    links = [f"({r.link_x}, {r.link_y}) {r.link_direction}" for r in ordered]
    rows = [(*attrgetter(*_ROUTE_FIELDS)(r), link) for r, link in zip(ordered[:max_rows], links, strict=False)]
    lines = [Table(_ROUTE_COLUMNS, rows).text(gap=1)]
    if rest := ordered[max_rows:]:
        lines.append(f"... and {len(rest)} more routes, at most {format_number(rest[0].link_bytes)} bytes on a link")
    return "\n".join(lines)


_ROUTE_COLUMNS = (
    Column("route from", lambda name: _shorten_label(name, _END_WIDTH), is_words=True),
    Column("to", lambda name: _shorten_label(name, _END_WIDTH), is_words=True),
    Column("bytes", format_short),
    Column("hops", format_short),
    Column("lanes", format_short),
    Column("ports", format_short),
    Column("colour"),
    Column("on link", format_short),
    Column("fullest link", is_words=True),
)
_ROUTE_FIELDS = ("source", "target", "sample_bytes", "hops", "lanes", "ports", "colour", "link_bytes")
"""The fields of a `RouteRow`, in the order of `_ROUTE_COLUMNS`. Bytes are for each sample."""
