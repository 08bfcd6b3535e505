"""How a plan says what micro-batches a batch is cut into, and which sizes were tried."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from wse_sim.number_format import format_number

MAX_SHOWN_SIZES = 12
"""Sizes of a search that a text has; JSON has all of them."""


@dataclass(frozen=True)
class ExploredSize:
    """A size of micro-batches that was tried: `micro_batches` of `samples` each. All else is 0 if it does not fit."""

    samples: int
    micro_batches: int
    fits: bool
    has_recompute: bool = False
    step_cycles: int = 0
    samples_per_s: float = 0.0


class MicroBatchReport(Protocol):
    """A report that says how the batch of a system is cut; see `ModeReport`."""

    @property
    def micro_batches(self) -> int:
        """The number of micro-batches."""

    @property
    def micro_batch_size(self) -> int:
        """Samples of each, fewer in the last."""

    @property
    def asked_micro_batch_size(self) -> int:
        """The size that the script asks for; 0 without one."""

    @property
    def has_recompute(self) -> bool:
        """Whether the forward sweep is computed again."""

    @property
    def explored(self) -> Sequence[ExploredSize]:
        """The sizes that were tried."""


def micro_batch_text(report: MicroBatchReport) -> str:
    """Return how the batch of a system is cut, and the sizes that were tried; nothing if it is whole by itself."""
    count, size, asked = report.micro_batches, report.micro_batch_size, report.asked_micro_batch_size
    if count == 1 and not (report.has_recompute or asked or report.explored):
        return ""
    parts = f"{count} micro-batch{'es' * (count > 1)} of {size:,} sample{'s' * (size > 1)}"
    changed = f" (adjusted from micro_batch_size {asked:,})" if asked and asked != size else ""
    again = ", the forward sweep computed again" if report.has_recompute else ""
    return f"{parts}{changed}{again}{f'; {_explored_text(report.explored)}' if report.explored else ''}"


def _explored_text(explored: Sequence[ExploredSize]) -> str:
    """Return the rates of the sizes that were tried, the fastest first."""
    fitting = sorted((one for one in explored if one.fits), key=lambda one: one.step_cycles)
    rates = "; ".join(
        f"{one.samples:,}: {one.step_cycles:,} cycles a step, {rate_text(one.samples_per_s)}"
        for one in fitting[:MAX_SHOWN_SIZES]
    )
    more = f"; {len(fitting) - MAX_SHOWN_SIZES} more that are slower" if len(fitting) > MAX_SHOWN_SIZES else ""
    too_large = [one.samples for one in explored if not one.fits]
    unfit = f"; {len(too_large)} of {min(too_large):,} samples and more that do not fit" if too_large else ""
    return f"micro-batch sizes explored: {rates}{more}{unfit}"


def rate_text(samples_per_s: float) -> str:
    """Return a rate with its unit."""
    return f"{format_number(samples_per_s)} samples/s"
