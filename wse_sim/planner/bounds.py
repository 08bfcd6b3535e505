"""What limits a step: bounds on its rate, and the sentence about the least of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wse_sim.number_format import format_estimate


@dataclass(frozen=True)
class RateBound:
    """Something that allows at most so many samples a second, all systems together, and where that figure is from.

    `kind` is one of `LIMIT_ADVICE`; `where` is a line of the user's script.
    """

    kind: str
    samples_per_s: float
    source: str
    what: str = ""
    where: str = ""


LIMIT_ADVICE: Mapping[str, str] = {
    "compute": "a larger machine, 16-bit types or a smaller layer would help",
    "moving": "tiles of a better shape or a smaller machine part would help: cores wait for data of one another",
    "link": "narrower activations between these two layers, or fewer that skip layers, would help",
    "adapter": "narrower activations between these two layers would help: ports take and give all of them",
    "edge": "a smaller batch tensor, or fewer fetches, would help",
    "weights": "a larger batch would help: each weight that comes in would be used more often",
    "input": "more input workers, or cheaper preprocessing, would help",
    "control": "a larger batch would help: there would be fewer steps",
    "gradients": "a larger batch would help: the gradients of all copies are added up once a step",
    "fill": "a larger batch would help: the wafer fills and drains once a step",
    "nothing": "there is nothing to compute",
}
"""Kind of a bound -> what would help where it is the limit."""
LIMIT_NAMES: Mapping[str, str] = {
    "compute": "wafer compute",
    "moving": "moving data between cores",
    "link": "the fullest link between layers",
    "adapter": "an adapter between layers",
    "edge": "the wafer's edge",
    "weights": "the weight host's stream",
    "input": "the input workers",
    "control": "the host's control of steps",
    "gradients": "adding up gradients",
    "fill": "filling and draining the wafer",
    "nothing": "nothing",
}


def find_limit(bounds: Sequence[RateBound], blame: Mapping[str, Sequence[str]] | None = None) -> tuple[RateBound, str]:
    """The bound that limits, and the sentence that says so: what, at which line, and what would help.

    `blame` names, for a kind that holds others in it (a whole step), those that it is put down to if they make up most.
    """
    # A whole step is always the least bound of a wafer; what it is made of tells more.
    least = min(bounds, key=lambda b: b.samples_per_s)
    # A part that allows twice as much as the whole does is not what the whole waits for.
    parts = [
        b for b in bounds if b.kind in (blame or {}).get(least.kind, ()) and b.samples_per_s < 2 * least.samples_per_s
    ]
    if parts:
        # Named after the part, with the rate of the whole: that is what a user gets.
        least = replace(min(parts, key=lambda b: b.samples_per_s), samples_per_s=least.samples_per_s)
    what, where = f" of {least.what}" if least.what else "", f" ({least.where})" if least.where else ""
    rate = f"about {format_estimate(least.samples_per_s)} samples/s"
    return least, f"Limited by {LIMIT_NAMES[least.kind]}{what}{where}: {rate}; {LIMIT_ADVICE[least.kind]}."
