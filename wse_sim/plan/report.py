"""What the simulator says about a program: numbers with units in their names, as a record, as text, as JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from operator import attrgetter
from textwrap import fill
from typing import Any

from lazytensor.errors import LazyError
from lazytensor.table import Column, Table
from wse_sim.machine import Machine

# Fits a terminal beside an editor; limits and reasons are wrapped to it.
WIDTH = 110
_LABEL_WIDTH = 30
_NOTE = (
    "Cycles come from closed forms (the HPDC'24 model for collectives, published rates for arithmetic), which\n"
    "`lazywafer validate` holds to measurements. Placement and the two modes have not been compared with any."
)


@dataclass(frozen=True)
class KernelRow:
    """One kernel: its rectangle (x, y, width, height), and its cycles for one step of the whole batch.

    `flops` and `bytes` are the work of the kernel; `utilisation` is its share of the peak of the PEs in its rectangle
    while it runs. A kernel on the weight host has no rectangle and no cycles.
    """

    label: str
    kernel: str
    direction: str
    rect: tuple[int, int, int, int] | None
    cycles: int
    flops: int
    bytes: int
    bytes_per_pe: int
    utilisation: float


@dataclass(frozen=True)
class ModeReport:
    """One way to run the program. If it does not fit, `reason` says why and all numbers are zero."""

    mode: str
    fits: bool
    reason: str = ""
    step_cycles: int = 0
    fill_cycles: int = 0
    samples_per_s: float = 0.0
    limit: str = ""
    peak_bytes_per_pe: int = 0
    edge_bytes_in: int = 0
    edge_bytes_out: int = 0
    rows: tuple[KernelRow, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ModeReport":
        """The report that `Report.as_dict` was made from."""
        rows = (KernelRow(**{**row, "rect": _as_rect(row["rect"])}) for row in data["rows"])
        return cls(**{**data, "rows": tuple(rows)})


def _as_rect(value: Any) -> tuple[int, int, int, int] | None:
    if value is None:
        return None
    x, y, width, height = value
    return x, y, width, height


@dataclass(frozen=True)
class Report:
    """A program on a machine, in both modes. `mode` is the one chosen, and the properties speak of it."""

    machine: str
    clock_hz: float
    sram_bytes_per_pe: int
    usable_bytes_per_pe: int
    batch_size: int
    mode: str
    pipelined: ModeReport
    streaming: ModeReport

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
        """The sentence that says why a step takes no fewer cycles."""
        return self.chosen.limit

    @property
    def peak_bytes_per_pe(self) -> int:
        """Bytes on the fullest PE."""
        return self.chosen.peak_bytes_per_pe

    @property
    def rows(self) -> tuple[KernelRow, ...]:
        """The kernels, in the order of the program."""
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
        data: dict[str, Any] = _plain(asdict(self))
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Report":
        """The report that `as_dict` was made from."""
        modes = {name: ModeReport.from_dict(data[name]) for name in ("pipelined", "streaming")}
        return cls(**{**data, **modes})

    def text(self, max_rows: int = 60) -> str:
        """A summary of both modes, then the kernels of the chosen one, at most `max_rows` of them."""
        head = (
            f"{self.machine} at {self.clock_hz / 1e9:g} GHz, batch {self.batch_size}, mode {self.mode}; "
            f"{self.usable_bytes_per_pe:,} of {self.sram_bytes_per_pe:,} bytes a PE are usable"
        )
        parts = [head, *(self._mode_text(m) for m in (self.pipelined, self.streaming))]
        if self.rows:
            parts.append(_text_of(self.rows, max_rows))
        return "\n\n".join([*parts, _NOTE]) + "\n"

    def _mode_text(self, mode: ModeReport) -> str:
        name = f"{mode.mode}{' (chosen)' if mode.mode == self.mode else ''}"
        if not mode.fits:
            return _wrapped(f"{name}: does not fit. {mode.reason}")
        share = mode.peak_bytes_per_pe / self.sram_bytes_per_pe
        lines = [
            f"{name}: step {mode.step_cycles:,} cycles = {mode.step_cycles / self.clock_hz * 1e6:,.2f} us, "
            f"fill {mode.fill_cycles:,} cycles, {mode.samples_per_s:,.0f} samples/s",
            f"  memory: at most {mode.peak_bytes_per_pe:,} bytes a PE ({share:.1%} of {self.sram_bytes_per_pe:,})",
            f"  edge: {mode.edge_bytes_in:,} bytes in, {mode.edge_bytes_out:,} bytes out for each step",
            _wrapped(f"  limit: {mode.limit}"),
        ]
        return "\n".join(lines)


def _plain(value: Any) -> Any:
    # Tuples become lists, as they come back from JSON: so a report that was read again compares equal.
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


def _wrapped(text: str) -> str:
    return fill(text, WIDTH, subsequent_indent="    ")


def _text_of(rows: tuple[KernelRow, ...], max_rows: int) -> str:
    """The table of the kernels, cut after `max_rows` with a line that says what is left out."""
    table = Table(_COLUMNS, [attrgetter(*_FIELDS)(row) for row in rows[:max_rows]])
    lines = [table.text(gap=1)]
    if rest := rows[max_rows:]:
        lines.append(f"... and {len(rest)} more kernels, {sum(r.cycles for r in rest):,} cycles")
    return "\n".join(lines)


def _label(text: str) -> str:
    """The end of a label tells kernels apart: the beginning is the module that all of them lie in."""
    return text if len(text) <= _LABEL_WIDTH else "..." + text[3 - _LABEL_WIDTH :]


def _place(rect: tuple[int, int, int, int] | None) -> str:
    if rect is None:
        return "weight host"
    x, y, width, height = rect
    return f"{width}x{height}+{x}+{y}"


def _short(n: int) -> str:
    """Whole numbers with separators as long as they are short, then with a power of a thousand."""
    # As many figures as fit the column with separators; beyond that four digits and a letter.
    if n < 10_000_000:
        return f"{n:,}"
    for factor, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G")):
        if n >= factor:
            return f"{n / factor:.4g}{letter}"
    return f"{n / 1e6:.4g}M"


_COLUMNS = (
    Column("kernel", _label, is_words=True, width=_LABEL_WIDTH),
    Column("sweep", is_words=True, width=8),
    Column("rectangle", _place, width=15),
    Column("cycles", _short, width=11),
    Column("FLOPs", _short, width=10),
    Column("bytes", _short, width=10),
    Column("bytes/PE", "{:,}".format, width=9),
    Column("of peak", "{:.2%}".format, width=8),
)
_FIELDS = ("label", "direction", "rect", "cycles", "flops", "bytes", "bytes_per_pe", "utilisation")
"""The fields of a `KernelRow` in the order of the columns."""
