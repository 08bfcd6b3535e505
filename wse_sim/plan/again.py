"""What is computed again in the backward sweep rather than kept: results of one element of kept tensors each.

The output of an activation function is such a result, as its gradient keeps the input; so is a cast. It costs vector
operations where keeping it would cost memory for as long as a sample is on its way.
"""

from collections.abc import Mapping

from wse_sim.plan.layers import Layer, sweeps_of
from wse_sim.plan.wiring import OUTSIDE, Wiring, is_elementwise


def computed_again(wiring: Wiring, layers: tuple[Layer, ...]) -> Mapping[int, int]:
    """Buffer -> the forward kernel that makes it again; chains go in the order of the program."""
    sweeps = sweeps_of(wiring)
    inner = {b for layer in layers for b in layer.inner}
    backward = {o.buffer for i, sweep in sweeps.items() if sweep == "backward" for o in wiring.operands[i]}
    again: dict[int, int] = {}
    for i, sweep in sweeps.items():
        if sweep != "forward" or not is_elementwise(wiring.program.instrs[i]):
            continue
        wanted = [b for b in wiring.results[i] if b in backward and b in wiring.per_sample and b not in inner]
        # Every operand has to be there: a weight, or what the backward sweep reads, or makes again, in any case.
        kept = all(
            o.buffer not in wiring.per_sample or (o.source != OUTSIDE and (o.buffer in backward or o.buffer in again))
            for o in wiring.operands[i]
        )
        if wanted and kept and wiring.operands[i]:
            again.update(dict.fromkeys(wanted, i))
    return again
