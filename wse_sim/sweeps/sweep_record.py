"""The points of a sweep and what is known of each: one record, as a line of JSON and as a row of a data frame."""

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from lazytensor.errors import LazyError
from wse_sim.error_bands import error_band
from wse_sim.planner.bounds import RateBound
from wse_sim.planner.micro_batches import ExploredSize
from wse_sim.planner.report import Alternative, ModeReport, Report, RouteRow


@dataclass(frozen=True)
class SweepPoint:
    """One combination: a program by its name and the digest of its content, and what it is planned for."""

    program: str
    digest: str
    machine: str
    mode: str
    batch_size: int
    systems: int

    @property
    def key(self) -> tuple[str, str, str, int, int]:
        """What makes it one point, whatever its program is called."""
        # Without the name: a program that is renamed keeps the records of its content.
        return self.digest, self.machine, self.mode, self.batch_size, self.systems


@dataclass(frozen=True)
class SweepRecord:
    """A point and its plan. Where it could not be planned `error` says why; where it does not fit, `reason` does.

    `asked_mode` is the point's, `mode` the one that the figures are of. `largest_batch` is the largest that fits where
    this one does not, or 0 if none is known to. `micro_batches` are the parts that a system's batch is cut into, of
    `micro_batch_size` samples each, where the script may have asked for `asked_micro_batch_size`; `explored` are the
    sizes that it asked to try. With `has_recompute` activations are computed again for the backward sweep. `bounds` are
    all that limit, each with its rate and source; `error_band` says how far such figures were off. `copies` of a
    pipeline lie side by side on each of `used_systems`, and `alternatives` are what other numbers of them would give.
    On the fullest router of a pipeline routes and kernels take `router_colours`; `routes` are there where a sweep was
    asked for them.

    >>> import lazytensor as lt, wse_sim
    >>> (record,) = wse_sim.sweep(lt.trace(lt.nn.Linear(64, 10), lt.ones(32, 64)), ["wse2"], ["streaming"])
    >>> record.machine, record.mode, record.batch_size, record.error
    ('wse2', 'streaming', 32, '')
    """

    program: str
    digest: str
    batch_size: int
    machine: str
    systems: int
    asked_mode: str
    mode: str
    fits: bool = False
    samples_per_s: float = 0.0
    step_cycles: int = 0
    step_seconds: float = 0.0
    limit: str = ""
    verdict: str = ""
    peak_bytes_per_pe: int = 0
    usable_bytes_per_pe: int = 0
    reason: str = ""
    largest_batch: int = 0
    micro_batches: int = 1
    micro_batch_size: int = 0
    asked_micro_batch_size: int = 0
    explored: tuple[ExploredSize, ...] = ()
    has_recompute: bool = False
    used_systems: int = 0
    copies: int = 0
    alternatives: tuple[Alternative, ...] = ()
    bounds: tuple[RateBound, ...] = ()
    error_band: str = ""
    router_colours: int = 0
    routes: tuple[RouteRow, ...] = ()
    error: str = ""

    @property
    def point(self) -> SweepPoint:
        """The point that it is the record of."""
        return SweepPoint(
            program=self.program,
            digest=self.digest,
            machine=self.machine,
            mode=self.asked_mode,
            batch_size=self.batch_size,
            systems=self.systems,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "SweepRecord":
        """The record that `as_dict` was made from."""
        bounds = tuple(RateBound(**bound) for bound in data["bounds"])
        others = tuple(Alternative(**other) for other in data["alternatives"])
        # Lines of before routes and explored sizes were kept have none.
        routes = tuple(RouteRow(**route) for route in data.get("routes", ()))
        explored = tuple(ExploredSize(**one) for one in data.get("explored", ()))
        return cls(**{**data, "bounds": bounds, "alternatives": others, "routes": routes, "explored": explored})


def make_record(point: SweepPoint, whole: Report, has_routes: bool = False) -> SweepRecord:
    """The record of a point that was planned, whether it fits or not."""
    report: ModeReport = whole.chosen
    band = error_band(report.mode, whole.machine) if report.fits else None
    # Each field by itself: a record is a line of a file and a row of a table, and outlives changes of the report.
    return SweepRecord(
        **_point_fields(point),
        mode=report.mode,
        fits=report.fits,
        samples_per_s=report.samples_per_s,
        step_cycles=report.step_cycles,
        step_seconds=report.step_cycles / whole.clock_hz,
        limit=report.limit,
        verdict=report.verdict,
        peak_bytes_per_pe=report.peak_bytes_per_pe,
        usable_bytes_per_pe=whole.usable_bytes_per_pe,
        reason=report.reason,
        largest_batch=report.largest_batch or 0,
        micro_batches=report.micro_batches,
        micro_batch_size=report.micro_batch_size,
        asked_micro_batch_size=report.asked_micro_batch_size,
        explored=report.explored,
        has_recompute=report.has_recompute,
        used_systems=report.used_systems if report.fits else 0,
        copies=report.copies if report.fits else 0,
        alternatives=report.alternatives,
        bounds=report.bounds,
        error_band=band.text() if band is not None else "",
        router_colours=report.router_colours,
        # A deep pipeline has hundreds: a line of a sweep is short without them.
        routes=report.routes if has_routes else (),
    )


def make_failed_record(point: SweepPoint, error: Exception) -> SweepRecord:
    """The record of a point that could not be planned."""
    words = str(error)
    if not isinstance(error, LazyError):
        # What nobody expected is told with its place: there will be no traceback where the record is read.
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace is not None else ""
        words = f"{type(error).__name__}: {words}{place}"
    return SweepRecord(**_point_fields(point), mode=point.mode, error=words)


def _point_fields(point: SweepPoint) -> dict[str, Any]:
    # In a record `mode` is what `auto` came to.
    facts = asdict(point)
    facts["asked_mode"] = facts.pop("mode")
    return facts


def to_frame(records: Iterable[SweepRecord]) -> Any:
    """A pandas.DataFrame with a row for each record and a column for each field. Raises LazyError without pandas."""
    try:
        pandas = importlib.import_module("pandas")
    except ModuleNotFoundError as e:
        raise LazyError(f"a data frame needs pandas ({e})", hint="pip install lazywafer[scale]") from e
    names = [f.name for f in fields(SweepRecord)]
    return pandas.DataFrame([[getattr(record, name) for name in names] for record in records], columns=names)
