"""What is computed again in the backward sweep rather than kept: results of one element of kept tensors each.

The output of an activation function is such a result, as its gradient keeps the input; so is a cast. It costs vector
operations where keeping it would cost memory for as long as a sample is on its way.
"""

from wse_sim.plan.layers import Layer
from wse_sim.plan.wiring import OUTSIDE, BufferVersion, Wiring, is_elementwise


def computed_again(wiring: Wiring, layers: tuple[Layer, ...]) -> frozenset[BufferVersion]:
    """What the forward kernels that are its sources make once more for the backward sweep."""
    sweeps = wiring.sweeps
    inner = {b for layer in layers for b in layer.inner}
    # A kernel may write over what it reads: that the backward sweep reads a buffer says nothing of what was there
    # before.
    backward = {o for i, sweep in sweeps.items() if sweep == "backward" for o in wiring.operands[i]}
    again: set[BufferVersion] = set()
    for i, sweep in sweeps.items():
        if sweep != "forward" or not is_elementwise(wiring.program.instrs[i]):
            continue
        versions = (BufferVersion(b, i) for b in wiring.results[i])
        wanted = [v for v in versions if v in backward and v.buffer in wiring.per_sample and v.buffer not in inner]
        # Every operand has to be there: a weight, or what the backward sweep reads, or makes again, in any case.
        kept = all(
            o.buffer not in wiring.per_sample or (o.source != OUTSIDE and (o in backward or o in again))
            for o in wiring.operands[i]
        )
        if wanted and kept and wiring.operands[i]:
            again.update(wanted)
    return frozenset(again)
