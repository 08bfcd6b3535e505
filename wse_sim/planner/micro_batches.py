"""Report text about micro-batches: their number and size, and the sizes that were tried."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from wse_sim.number_format import format_number

MAX_SHOWN_SIZES = 12
"""Maximum number of tried sizes in a text report. JSON has all of them."""


@dataclass(frozen=True)
class ExploredSize:
    """A micro-batch size that was tried.

    - `samples`: samples of a micro-batch
    - `micro_batches`: their number in the batch of a system
    - `fits`: whether the size fits in memory; if not, all following fields have their defaults
    - `has_recompute`: whether the forward sweep is computed again in the backward sweep
    - `step_cycles`: cycles of a step
    - `samples_per_s`: samples per second
    """

    samples: int
    micro_batches: int
    fits: bool
    has_recompute: bool = False
    step_cycles: int = 0
    samples_per_s: float = 0.0


class MicroBatchReport(Protocol):
    """The fields of a report that describe how a system's batch is cut; see `ModeReport`."""

    @property
    def micro_batches(self) -> int:
        """Return the number of micro-batches of a step."""

    @property
    def micro_batch_size(self) -> int:
        """Return the samples of a micro-batch. The last one may have fewer."""

    @property
    def asked_micro_batch_size(self) -> int:
        """Return the size that the script requests, or 0."""

    @property
    def has_recompute(self) -> bool:
        """Return whether the forward sweep is computed again in the backward sweep."""

    @property
    def explored(self) -> Sequence[ExploredSize]:
        """Return the sizes that were tried at the script's request."""


def micro_batch_text(report: MicroBatchReport) -> str:
    """Return a text with the number and size of micro-batches, recomputation, and the sizes that were tried.

    It notes if the size differs from the requested one. Return "" if the batch is not cut, nothing is recomputed, and
    the script requested no sizes.
    """
    count, size, asked = report.micro_batches, report.micro_batch_size, report.asked_micro_batch_size
    if count == 1 and not (report.has_recompute or asked or report.explored):
        return ""
    parts = f"{count} micro-batch{'es' * (count > 1)} of {size:,} sample{'s' * (size > 1)}"
    changed = f" (adjusted from micro_batch_size {asked:,})" if asked and asked != size else ""
    again = ", with the forward pass recomputed" if report.has_recompute else ""
    return f"{parts}{changed}{again}{f'; {_explored_text(report.explored)}' if report.explored else ''}"


def _explored_text(explored: Sequence[ExploredSize]) -> str:
    """Return the cycles and rates of the sizes that fit, fastest first, and counts of the others.

    At most `MAX_SHOWN_SIZES` sizes are listed.
    """
    fitting = sorted((one for one in explored if one.fits), key=lambda one: one.step_cycles)
    rates = "; ".join(
        f"{one.samples:,}: {one.step_cycles:,} cycles a step, {rate_text(one.samples_per_s)}"
        for one in fitting[:MAX_SHOWN_SIZES]
    )
    more = f"; {len(fitting) - MAX_SHOWN_SIZES} slower sizes" if len(fitting) > MAX_SHOWN_SIZES else ""
    too_large = [one.samples for one in explored if not one.fits]
    unfit = f"; {len(too_large)} sizes from {min(too_large):,} samples on do not fit" if too_large else ""
    return f"explored micro-batch sizes: {rates}{more}{unfit}"


def rate_text(samples_per_s: float) -> str:
    """Return a rate as a formatted number followed by "samples/s"."""
    return f"{format_number(samples_per_s)} samples/s"
