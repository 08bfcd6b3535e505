"""The points of a sweep, and their records in JSON and in data frames."""

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from lazytensor.errors import LazyError
from wse_sim.error_bands import error_band
from wse_sim.host import APPLIANCE
from wse_sim.planner.bounds import RateBound
from wse_sim.planner.micro_batches import ExploredSize
from wse_sim.planner.report import Alternative, ModeReport, Report, RouteRow
from wse_sim.planner.resource_shares import ResourceShare, format_verdict


@dataclass(frozen=True)
class SweepPoint:
    """One combination of a sweep.

    - `program`: name of the program
    - `digest`: digest of its content
    - `machine`: name of the machine
    - `mode`: the requested mode
    - `batch_size`: samples on all systems
    - `systems`: number of systems
    - `workers`: number of input workers of one system
    """

    program: str
    digest: str
    machine: str
    mode: str
    batch_size: int
    systems: int
    workers: int = APPLIANCE.workers

    @property
    def key(self) -> tuple[str, str, str, int, int, int]:
        """Return the identity of the point, which does not include the program's name."""
        # A renamed program keeps the records of its content.
        return self.digest, self.machine, self.mode, self.batch_size, self.systems, self.workers


@dataclass(frozen=True)
class SweepRecord:
    """A point of a sweep and its plan.

    - `program`, `digest`, `batch_size`, `machine`, `systems`: the point
    - `workers`: input workers of one system; the default number in older files, which lack the field
    - `asked_mode`: the requested mode
    - `mode`: the mode of the figures
    - `fits`: whether the program fits
    - `samples_per_s`: samples per second on all systems
    - `step_cycles`, `step_seconds`: duration of a step
    - `limit`: the kind of the bound that decides
    - `verdict`: a sentence with the limit, the script line and advice
    - `peak_bytes_per_pe`, `usable_bytes_per_pe`: bytes on the fullest PE, and usable bytes of a PE
    - `reason`: why the program does not fit
    - `largest_batch`: if it does not fit, the largest batch that does, 0 if none is known
    - `micro_batches`, `micro_batch_size`: micro-batches of a system's batch, and samples of each
    - `asked_micro_batch_size`: the size that the script requests, 0 without one
    - `explored`: the sizes that were tried at the script's request
    - `has_recompute`: whether activations are computed again for the backward sweep
    - `used_systems`, `copies`: systems in use, and copies of the pipeline on each; 0 if it does not fit
    - `alternatives`: other numbers of systems and copies
    - `bounds`: all bounds on the rate with their sources
    - `error_band`: how far such figures were from published ones
    - `router_colours`: colours of routes and kernels on the fullest router of a pipeline
    - `routes`: routes between stages, if the sweep requested them
    - `resources`: shares of the resources in a step, if the sweep requested them; `verdict` then names the largest
    - `error`: why the point could not be planned

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
    workers: int = APPLIANCE.workers
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
    resources: tuple[ResourceShare, ...] = ()
    error: str = ""

    @property
    def point(self) -> SweepPoint:
        """Return the point of the record."""
        return SweepPoint(
            program=self.program,
            digest=self.digest,
            machine=self.machine,
            mode=self.asked_mode,
            batch_size=self.batch_size,
            systems=self.systems,
            workers=self.workers,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the record as plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "SweepRecord":
        """Return the record that `as_dict` converted to `data`. Fields that old files lack get their defaults.

        Raise KeyError or TypeError if `data` is no record.
        """
        bounds = tuple(RateBound(**bound) for bound in data["bounds"])
        others = tuple(Alternative(**other) for other in data["alternatives"])
        # Records of earlier versions have no routes, explored sizes and resources.
        routes = tuple(RouteRow(**route) for route in data.get("routes", ()))
        explored = tuple(ExploredSize(**one) for one in data.get("explored", ()))
        resources = tuple(ResourceShare(**one) for one in data.get("resources", ()))
        rows = {"bounds": bounds, "alternatives": others, "routes": routes, "explored": explored}
        return cls(**{**data, **rows, "resources": resources})


def make_record(
    point: SweepPoint, whole: Report, has_routes: bool = False, resources: tuple[ResourceShare, ...] = ()
) -> SweepRecord:
    """Return the record of a planned point, whether it fits or not. `whole` is the report of its plan.

    It has the figures of the chosen mode. Routes are included only if `has_routes`. With `resources` the verdict is
    that of the largest share.
    """
    report: ModeReport = whole.chosen
    band = error_band(report.mode, whole.machine) if report.fits else None
    # List the fields explicitly: records are stored and have to be readable after the report changes.
    return SweepRecord(
        **_point_fields(point),
        mode=report.mode,
        fits=report.fits,
        samples_per_s=report.samples_per_s,
        step_cycles=report.step_cycles,
        step_seconds=report.step_cycles / whole.clock_hz,
        limit=report.limit,
        verdict=format_verdict(resources, report.verdict) if resources else report.verdict,
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
        # Routes are optional because a deep pipeline has hundreds.
        routes=report.routes if has_routes else (),
        resources=resources,
    )


def make_failed_record(point: SweepPoint, error: Exception) -> SweepRecord:
    """Return the record of a point that could not be planned, with the error's text and no figures.

    For errors other than LazyError, the text includes the type and the source line where it was raised.
    """
    words = str(error)
    if not isinstance(error, LazyError):
        # Add the place of unexpected errors, because a record has no traceback.
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace is not None else ""
        words = f"{type(error).__name__}: {words}{place}"
    return SweepRecord(**_point_fields(point), mode=point.mode, error=words)


def _point_fields(point: SweepPoint) -> dict[str, Any]:
    """Return the fields of a record that describe its point. Its mode is `asked_mode`."""
    # The record's `mode` is the chosen one, which may differ if "auto" was requested.
    facts = asdict(point)
    facts["asked_mode"] = facts.pop("mode")
    return facts


def to_frame(records: Iterable[SweepRecord]) -> Any:
    """Return a `pandas.DataFrame` with a row for each record and a column for each field.

    Fields with several values stay tuples of objects. Raise LazyError if pandas is not installed.
    """
    try:
        pandas = importlib.import_module("pandas")
    except ModuleNotFoundError as e:
        raise LazyError(
            f"a data frame needs pandas ({e})", hint="Install it with `pip install lazywafer[scale]`."
        ) from e
    names = [f.name for f in fields(SweepRecord)]
    return pandas.DataFrame([[getattr(record, name) for name in names] for record in records], columns=names)
