"""Upper bounds on the rate of a step, and the sentence that names the tightest one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wse_sim.number_format import format_estimate


@dataclass(frozen=True)
class RateBound:
    """An upper bound on the rate of a step.

    - `kind`: the limiting resource, a key of `LIMIT_ADVICE`
    - `samples_per_s`: the largest rate that the resource allows, over all systems together
    - `source`: how the figure was derived
    - `what`: the layer or link that is limiting, "" if none is
    - `where`: a line of the user's script, "" if unknown
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
"""For each kind of bound, advice on how to raise it."""
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
"""For each kind of bound, its name in reports."""


def find_limit(bounds: Sequence[RateBound], blame: Mapping[str, Sequence[str]] | None = None) -> tuple[RateBound, str]:
    """Return the bound with the lowest rate, and a sentence with its name, script line, rate and advice.

    `blame` maps a composite kind (such as a whole step) to the kinds that it consists of. If the lowest bound is
    composite, its lowest part replaces it in the result, with the rate of the composite bound. This happens only if
    that part allows less than twice the rate of the composite bound. Raise ValueError if there are no `bounds`.
    """
    # The bound of a whole wafer step is always the lowest one, so its parts are more informative.
    least = min(bounds, key=lambda b: b.samples_per_s)
    # A part that allows twice the rate of the whole is not the cause.
    parts = [
        b for b in bounds if b.kind in (blame or {}).get(least.kind, ()) and b.samples_per_s < 2 * least.samples_per_s
    ]
    if parts:
        # Report the part's name with the rate of the whole, which is what a user observes.
        least = replace(min(parts, key=lambda b: b.samples_per_s), samples_per_s=least.samples_per_s)
    what, where = f" of {least.what}" if least.what else "", f" ({least.where})" if least.where else ""
    rate = f"about {format_estimate(least.samples_per_s)} samples/s"
    return least, f"Limited by {LIMIT_NAMES[least.kind]}{what}{where}: {rate}; {LIMIT_ADVICE[least.kind]}."
