"""What the simulator says about a program: numbers with units in their names, as a record, as text, as JSON."""

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

# Fits a terminal beside an editor; limits and reasons are wrapped to it.
TEXT_WIDTH = 110
_LABEL_WIDTH, _END_WIDTH = 30, 22
MAX_SHOWN_LAYERS, MAX_SHOWN_ROUTES = 40, 8


@dataclass(frozen=True)
class LayerRow:
    """One layer: its rectangle (x, y, width, height), and its cycles for one step of the whole batch on one system.

    `flops` and `bytes` are the work of its `kernels`; `utilisation` is that of the forward and backward sweeps over the
    peak of the PEs that compute while they run. What the weight host does takes no cycles here. In `moving_cycles`
    activations of other layers come to the layout of this one, where layers take turns; that is beside its work.
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
    """A route between two stages, by their names: what it carries for each sample, where, and what that loads.

    It has `lanes` of equal shares, and an adapter of `ports` (0 where it needs none) that take `adapter_cycles`. The
    fullest link on its way leaves core (`link_x`, `link_y`) and passes `link_bytes` of all routes for each sample.
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
    """Another number of systems, and of copies on each, that fits, and what it would give."""

    systems: int
    copies: int
    samples_per_s: float
    limit: str


@dataclass(frozen=True)
class ModeReport:
    """One way to run the program. If it does not fit, `reason` says why and all numbers are zero.

    `limit` is the kind of the bound that decides. `largest_batch` is the largest that fits where this one does not, 0
    if none does, and None if it was not looked for. `micro_batches` are the parts that a system's batch is cut into, of
    `micro_batch_size` samples each, or fewer in the last; the script may have asked for `asked_micro_batch_size`, 0 if
    it did not. `explored` are all sizes that it asked to try. With `has_recompute` the forward sweep is computed again
    in the backward sweep. `dense_bytes_in` is what would come in if no weight were sparse, and `work_share` the part of
    the operations that are done, as they have no zero. A pipeline is there in `copies` side by side on each of
    `used_systems`, in `copy_grid` columns and rows; memory and `rows` are those of one copy, the first, and the edge's
    bytes those of a system. Its slowest stage takes `slowest_cycles` of a step, and would take `bound_cycles` if areas
    alone decided where stages fit (the area bound); its routes have `route_hops` and `colours`, and routes and kernels
    take `router_colours` on the fullest router. `routes` are those of one copy. Where `is_as_run`, simulated cores run
    the whole step in that time; `not_run` says why not, of a mesh so small that they could. `gradient_cycles` of a step
    add up the gradients of all copies. `alternatives` are other numbers of them that were tried. `joules_per_sample` is
    of all systems, 0 where no power is published.
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
        """The report that `Report.as_dict` was made from."""
        rows = (LayerRow(**{**row, "rect": _as_rect(row["rect"])}) for row in data["rows"])
        bounds = (RateBound(**bound) for bound in data["bounds"])
        others = tuple(Alternative(**other) for other in data["alternatives"])
        routes = tuple(RouteRow(**route) for route in data["routes"])
        columns, rows_of_copies = data["copy_grid"]
        # Reports of before sizes were explored have none.
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
    """A program on a number of machines, in both modes. `mode` is the one chosen, and the properties speak of it.

    `error_band` says how far figures of this mode were from the published ones of the nearest family of runs, and
    `precision` the vendor's level that products were priced at.

    >>> import lazytensor as lt, wse_sim
    >>> report = wse_sim.simulate(lt.trace(lt.nn.Linear(64, 10), lt.ones(32, 64)))
    >>> report.machine, report.streaming.limit, [(row.label, row.flops) for row in report.rows]
    ('wse2', 'input', [('matmul', 41280)])
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
        """The mode that the properties speak of."""
        # Both modes are always reported: the one that was not chosen says what the choice was against.
        return self.pipelined if self.mode == "pipelined" else self.streaming

    @property
    def fits(self) -> bool:
        """Whether the chosen mode can run the program."""
        return self.chosen.fits

    @property
    def step_cycles(self) -> int:
        """Cycles of a step in the steady state."""
        return self.chosen.step_cycles

    @property
    def fill_cycles(self) -> int:
        """Cycles before the first result."""
        return self.chosen.fill_cycles

    @property
    def samples_per_s(self) -> float:
        """Samples a second in the steady state."""
        return self.chosen.samples_per_s

    @property
    def limit(self) -> str:
        """The kind of the bound that decides."""
        return self.chosen.limit

    @property
    def verdict(self) -> str:
        """The sentence that says what limits, where, and what would help."""
        return self.chosen.verdict

    @property
    def peak_bytes_per_pe(self) -> int:
        """Bytes on the fullest PE."""
        return self.chosen.peak_bytes_per_pe

    @property
    def rows(self) -> tuple[LayerRow, ...]:
        """The layers, in the order of the program."""
        return self.chosen.rows

    def seconds(self, machine: Machine) -> float:
        """Seconds of a step on `machine`, which has to be the one of the report."""
        if machine.name != self.machine:
            raise LazyError(
                f"the report is of {self.machine}, not of {machine.name}", hint="Simulate again on that machine."
            )
        return self.step_cycles / machine.clock_hz

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        data: dict[str, Any] = _to_plain_data(asdict(self))
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Report":
        """The report that `as_dict` was made from."""
        modes = {name: ModeReport.from_dict(data[name]) for name in ("pipelined", "streaming")}
        return cls(**{**data, **modes})

    def summary(self) -> str:
        """Return the short form of `text`: the verdict, a row for each mode, and the error band.

        Rates are rounded to three digits. The range in parentheses is the median factor between planned and published
        rates of similar runs, up and down.
        """
        systems = f"{self.systems} x {self.machine}" if self.systems > 1 else self.machine
        first = self.verdict if self.fits else f"It does not fit. {self.chosen.reason}"
        modes = (self.chosen, self.streaming if self.chosen is self.pipelined else self.pipelined)
        parts = [
            f"A step of {self.batch_size:,} samples on {systems}, predicted:",
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
        """The verdict, both modes with their bounds, then the layers of the chosen one, at most `max_rows` of them."""
        systems = f"{self.systems} x {self.machine}" if self.systems > 1 else self.machine
        head = (
            f"{systems} at {self.clock_hz / 1e9:g} GHz, batch {self.batch_size:,}, mode {self.mode}; "
            f"{self.usable_bytes_per_pe:,} of {self.sram_bytes_per_pe:,} bytes a PE are usable"
        )
        # What limits comes first: most readers look for that alone.
        first = _wrap_text(self.verdict if self.fits else f"It does not fit. {self.chosen.reason}")
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
        """The verdict, the rectangles of a pipeline, and a row for each layer."""
        first = self.verdict if self.fits else f"It does not fit. {self.chosen.reason}"
        shown = self.rows[:MAX_SHOWN_LAYERS]
        table = Table(_LAYER_COLUMNS, [attrgetter(*_LAYER_FIELDS)(row) for row in shown]).html() if shown else ""
        rest = f"<p>... and {len(self.rows) - len(shown)} more layers</p>" if len(self.rows) > len(shown) else ""
        rate = f"{self.step_cycles:,} cycles a step, {format_number(self.samples_per_s)} samples/s"
        return f"<p><b>{escape(first)}</b></p><p>{self.machine}, {self.mode}: {rate}</p>{self._picture()}{table}{rest}"

    def _picture(self) -> str:
        # Layers that stream take the mesh in turn: their rectangles lie over each other.
        stages = floor_drawing.group_by_rectangle(self.rows) if self.mode == "pipelined" else {}
        if not stages:
            return ""
        wide, high = (max(r[k] + r[k + 2] for r in stages) for k in (0, 1))
        # By the last part of their labels: the first is the model that all of them lie in.
        names = [main.label.rpartition("/")[2] for main, *_ in stages.values()]
        drawing = floor_drawing.draw_svg(names, list(stages), (), wide, high)
        return f'<div style="max-width:480px;background:white">{drawing}</div>'

    def _mode_text(self, mode: ModeReport) -> str:
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
                f"  routes: {mode.route_hops:,} hops between stages, in {mode.colours} colours, with those of kernels "
                f"{mode.router_colours} on the fullest router"
            )
        if mode.is_as_run:
            lines.append("  priced as simulated cores run the whole step, word by word")
        elif mode.not_run:
            # Whoever compares small meshes should know that the one figure is of another kind than the other.
            lines.append(_wrap_text(f"  priced by its kernels alone; simulated cores do not run it: {mode.not_run}"))
        if mode.joules_per_sample:
            lines.append(
                f"  energy: {format_number(mode.joules_per_sample)} J a sample, at the power of a CS-2 under a stencil"
            )
        if mode.edge_bytes_in < mode.dense_bytes_in:
            lines.append(
                f"  sparse weights: with dense ones {mode.dense_bytes_in:,} bytes would come in; "
                f"{format_percent(mode.work_share)} of the operations are done, the others have a zero"
            )
        if cut := micro_batch_text(mode):
            lines.append(_wrap_text(f"  {cut}"))
        # Tightest first, as what follows would count only if the ones above were mended.
        if mode.copies > 1 or mode.used_systems > 1:
            lines.append(_wrap_text(f"  {_copies_text(mode)}"))
        if mode.alternatives:
            lines.append(_wrap_text(f"  instead: {'; '.join(map(_alternative_text, mode.alternatives))}"))
        lines += [_wrap_text(f"  {_bound_text(b)}") for b in sorted(mode.bounds, key=lambda b: b.samples_per_s)]
        return "\n".join([*lines, _wrap_text(f"  verdict: {mode.verdict}")])


def _largest_text(mode: ModeReport) -> str:
    if mode.largest_batch is None:
        return ""
    return f" The largest batch that fits is {mode.largest_batch:,}." if mode.largest_batch else " No batch fits."


def _copies_text(mode: ModeReport) -> str:
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
    # Tuples become lists, as they come back from JSON: so a report that was read again compares equal.
    if isinstance(value, dict):
        return {key: _to_plain_data(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain_data(v) for v in value]
    return value


def _wrap_text(text: str) -> str:
    return fill(text, TEXT_WIDTH, subsequent_indent="    ")


def _layer_table_text(rows: tuple[LayerRow, ...], max_rows: int) -> str:
    """Return the table of the layers that take cycles, cut after `max_rows` with a line that says what is left out."""
    rows = tuple(row for row in rows if row.cycles)
    table = Table(_LAYER_COLUMNS, [attrgetter(*_LAYER_FIELDS)(row) for row in rows[:max_rows]])
    lines = [table.text(gap=1)]
    if rest := rows[max_rows:]:
        lines.append(f"... and {len(rest)} more layers, {sum(r.cycles for r in rest):,} cycles")
    return "\n".join(lines)


def _shorten_label(text: str, width: int = _LABEL_WIDTH) -> str:
    """The end of a label tells kernels apart: the beginning is the module that all of them lie in."""
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
"""The fields of a `LayerRow` in the order of the columns."""


def _route_text(routes: Sequence[RouteRow], max_rows: int = MAX_SHOWN_ROUTES) -> str:
    """The table of routes, those with the fullest links first."""
    # Whoever looks for what to mend looks at the fullest first.
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
"""The fields of a `RouteRow` in the order of the columns; bytes are those of a sample."""
