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
    "compute": "Use a larger machine, 16-bit types or a smaller layer",
    "moving": "Use tiles of another shape or fewer cores: cores wait for data of other cores",
    "link": "Use narrower activations between these two layers, or fewer activations that skip layers",
    "adapter": "Use narrower activations between these two layers: all of them pass the ports",
    "edge": "Use a smaller batch tensor or fewer fetches",
    "weights": "Use a larger batch: each weight that is sent is then used more often",
    "input": "Use more input workers or cheaper preprocessing",
    "control": "Use a larger batch: there are then fewer steps",
    "gradients": "Use a larger batch: the gradients of all copies are added once per step",
    "fill": "Use a larger batch: the wafer fills and drains once per step",
    "nothing": "The step has no kernel to compute",
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
    return least, f"Limited by {LIMIT_NAMES[least.kind]}{what}{where}: {rate}. {LIMIT_ADVICE[least.kind]}."
