"""Which resource limits a step: each is made twice as fast, and the step is planned again.

The bounds of a report name a part of a step, such as computing. Its cycles belong to several resources: setups of
vector operations, lanes of multiply-adds, memory ports, links. Resources overlap, so no sum of cycles attributes them.
The gain of a faster resource is the difference of two plans instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from lazytensor.display.table import Column, Table
from lazytensor.ir.program import Program
from wse_sim.host import APPLIANCE, Host
from wse_sim.machine import Machine
from wse_sim.number_format import format_duration, format_percent
from wse_sim.planner.modes import Source, plan
from wse_sim.planner.modes.mode_plan import AnalysisCache
from wse_sim.planner.prices import Prices
from wse_sim.planner.report import Report

OVERLAP = "several at once"
"""The name of the share that no single resource shortens."""


@dataclass(frozen=True)
class Resource:
    """A part of the machine or of its hosts that can be twice as fast.

    - `advice`: how a user relieves it
    - `rates`: fields that double
    - `times`: fields that halve
    - `factors`: factors that halve, but not below 1
    """

    advice: str
    rates: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    factors: tuple[str, ...] = ()

    def double(self, record: Any) -> Any:
        """Return `record`, a machine or a host, with its fields of this resource twice as fast.

        Fields that it does not have are ignored. Without a change the same object is returned.
        """
        before = {f.name: getattr(record, f.name) for f in fields(record)}
        after = {
            **{name: 2 * before[name] for name in self.rates if name in before},
            **{name: before[name] / 2 for name in self.times if name in before},
            **{name: max(1, before[name] / 2) for name in self.factors if name in before},
        }
        return record if all(before[name] == value for name, value in after.items()) else replace(record, **after)


RESOURCES: Mapping[str, Resource] = {
    # One measured number of the WSE-3 covers setups and jumps back in loops, so they are one resource.
    "vector setups": Resource(
        "Use longer vectors: a larger batch, wider layers, or fewer small operations",
        times=("dsd_setup_cycles", "descriptor_load_cycles", "loop_cycles"),
    ),
    "multiply-add lanes": Resource(
        "Use 16-bit types or smaller products",
        rates=("fma_f16_per_cycle", "fma_f32_per_cycle", "product_f16_per_cycle"),
    ),
    "memory ports": Resource(
        "Use 16-bit types, or fewer additions and copies",
        rates=(
            "add_f16_per_cycle",
            "add_f32_per_cycle",
            "shifted_add_f32_per_cycle",
            "conflict_add_f32_per_cycle",
            "move_f16_per_cycle",
            "move_f32_per_cycle",
        ),
        factors=("conflict_slowdown",),
    ),
    "divisions and exponentials": Resource(
        "Use 16-bit types, or fewer divisions, exponentials and square roots",
        times=("special_f16_cycles", "special_f32_cycles"),
    ),
    "latency between PEs": Resource(
        "Use a larger batch, or fewer layers and sums: the first word of each move has to cross the cores",
        times=("hop_cycles", "ramp_cycles", "turn_cycles"),
    ),
    "links between PEs": Resource(
        "Use 16-bit types or narrower activations: fewer words then move between PEs", times=("wavelet_cycles",)
    ),
    "launches": Resource(
        "Use fewer and larger layers: sums over PEs start with a launch", times=("launch_cycles", "task_start_cycles")
    ),
    "weight and batch transfer": Resource(
        "Use a larger batch: each weight that is sent is then used more often",
        rates=("edge_bits_per_s", "stream_bits_per_s"),
        times=("tree_node_s",),
    ),
    "input workers": Resource("Use more input workers or cheaper preprocessing", rates=("workers",)),
    "step control": Resource("Use a larger batch: there are then fewer steps", times=("step_control_s",)),
}
"""Name of a resource -> its fields in `Machine` and `Host`, and advice."""


@dataclass(frozen=True)
class ResourceShare:
    """The effect of one resource on a step.

    - `resource`: a key of `RESOURCES`, or `OVERLAP`
    - `share`: share of the step, see `resource_shares`
    - `step_seconds`: seconds of a step with twice as much of the resource
    - `gain`: factor on samples per second with twice as much of it, at least 1
    """

    resource: str
    share: float
    step_seconds: float
    gain: float


def resource_shares(
    step: Program | Source,
    machine: Machine | str = "wse2",
    mode: str = "auto",
    batch_size: int | None = None,
    systems: int | None = None,
    host: Host = APPLIANCE,
    prices: Prices | None = None,
    *,
    precision_level: int | None = None,
    readings: AnalysisCache | None = None,
) -> tuple[ResourceShare, ...]:
    """Return the share of each resource in a step, and the gain if there is twice as much of it, largest share first.

    The arguments are those of `plan`. The step is planned again for each resource, in the same mode, with new tiles
    and rectangles. A plan that is slower than the first counts as the first, whose tiles would still fit.

    The time of a step is its samples over samples per second, so it includes waiting for input. A share is twice the
    part of this time that the doubled resource saves: all of the resource's time, if nothing else happens meanwhile.
    The last row, `OVERLAP`, has the time that no single resource shortens, since others work at the same time. If
    resources save more together than there is, their shares are scaled. All shares add up to 1. The result is () for a
    step that does not fit or has no kernels.

    >>> import lazytensor as lt
    >>> shares = resource_shares(lt.trace(lt.nn.Linear(64, 10), lt.ones(32, 64)), "CS-2", "streaming")
    >>> shares[0].resource, round(shares[0].gain, 2), round(sum(row.share for row in shares), 6)
    ('step control', 2.0, 1.0)
    """
    machine = Machine.by_name(machine) if isinstance(machine, str) else machine
    readings = AnalysisCache() if readings is None else readings
    prices = prices or Prices(machine)

    def planned(machine: Machine, mode: str, host: Host, prices: Prices) -> Report:
        return plan(
            step,
            machine,
            mode,
            batch_size,
            systems,
            host,
            prices,
            other=False,
            precision_level=precision_level,
            readings=readings,
        ).report

    first = planned(machine, mode, host, prices)
    if not first.fits or not first.samples_per_s:
        return ()
    rates = {}
    for name, resource in RESOURCES.items():
        faster, faster_host = resource.double(machine), resource.double(host)
        if faster is machine and faster_host is host:
            rates[name] = first.samples_per_s
            continue
        again = planned(faster, first.mode, faster_host, prices.with_edge_of(faster))
        rates[name] = max(first.samples_per_s, again.samples_per_s)
    return _shares_of(first.batch_size, first.samples_per_s, rates)


def _shares_of(samples: int, rate: float, rates: Mapping[str, float]) -> tuple[ResourceShare, ...]:
    """Return the shares of resources in the step of `samples` samples at `rate`, from the rate with twice of each."""
    parts = {name: 2 * (1 - rate / faster) for name, faster in rates.items()}
    whole = max(1.0, sum(parts.values()))
    rows = [
        ResourceShare(name, part / whole, samples / rates[name], rates[name] / rate) for name, part in parts.items()
    ]
    rows.sort(key=lambda row: -row.share)
    shared = max(0.0, 1 - sum(row.share for row in rows))
    return (*rows, ResourceShare(OVERLAP, shared, samples / rate, 1.0))


def format_verdict(shares: Sequence[ResourceShare], report_verdict: str) -> str:
    """Return the verdict on a step with shares: the resource, its share and gain, advice, and the slowest part.

    The resource is the one with the largest share. If `OVERLAP` has a larger one, the verdict says so first.
    `report_verdict` is the verdict of the step's report, of which the first sentence is used.
    """
    top, shared = shares[0], shares[-1]
    gain = f"{format_percent(top.gain - 1)} more samples/s if twice as fast"
    advice = RESOURCES[top.resource].advice
    if shared.share > top.share:
        first = (
            f"Limited by several resources at once, which no single one shortens: {format_percent(shared.share)} of "
            f"the step. The largest single share is {top.resource}, {format_percent(top.share)}: {gain}."
        )
    else:
        first = f"Limited by {top.resource}, {format_percent(top.share)} of the step: {gain}."
    # The advice of a bound is about the whole bound, that of the resource is more specific.
    slowest = report_verdict.partition(" samples/s.")[0].removeprefix("Limited by ")
    return f"{first} {advice}. Slowest part: {slowest} samples/s."


def shares_text(shares: Sequence[ResourceShare]) -> str:
    """Return the table of shares as text: the share, the time of a step with twice of each resource, and the gain."""
    return Table(_COLUMNS, [(s.resource, s.share, s.step_seconds, s.gain) for s in shares]).text()


def _format_gain(gain: float) -> str:
    return f"+{format_percent(gain - 1)}"


_COLUMNS = (
    Column("twice as fast", is_words=True),
    Column("share", format_percent),
    Column("step", format_duration),
    Column("samples/s", _format_gain),
)
