"""Layers of `torchvision.ops` that models use."""

import lazytensor as lt
from lazytensor import nn
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionInvalid


class FrozenBatchNorm2d(nn.Module):
    """Batch normalization of [N, C, H, W] with fixed statistics, weight and bias."""

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, num_features: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        # Buffers instead of parameters, so that optimizers do not update them.
        for name, make in (
            ("weight", lt.ones),
            ("bias", lt.zeros),
            ("running_mean", lt.zeros),
            ("running_var", lt.ones),
        ):
            self.register_buffer(name, make(num_features))

    def forward(self, x: Tensor) -> Tensor:
        """Return (x - mean) / sqrt(variance + eps) * weight + bias, for each channel of `x` [N, C, H, W].

        The stored statistics are used in training mode too.
        """
        w, b, mean, var = (
            t.reshape(1, -1, 1, 1) for t in (self.weight, self.bias, self.running_mean, self.running_var)
        )
        scale = w * (var + self.eps).rsqrt()
        return x * scale + (b - mean * scale)

    def extra_repr(self) -> str:
        """Return the number of channels and eps as text."""
        return f"{self.weight.shape[0]}, eps={self.eps}"


def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """Return `input` with samples set to zero with probability `p`, and the others divided by 1 - p.

    `mode` "row" drops each sample separately, and "batch" drops all or none. For `p` 1 the result is all zeros. If
    `training` is False or `p` is 0, `input` itself is returned. Raises ValueError for other modes and for `p` outside
    0..1.
    """
    if not 0.0 <= p <= 1.0:
        raise OptionInvalid(
            f"drop probability has to be between 0 and 1, but got {p}",
            where=source.where(),
            hint="Pass p between 0 and 1.",
        )
    if mode not in ("batch", "row"):
        raise OptionInvalid(
            f"mode has to be either 'batch' or 'row', but got {mode}",
            where=source.where(),
            hint='Pass mode="batch" or mode="row".',
        )
    if not training or p == 0.0:
        return input
    # One draw for each sample, or one for all, broadcast over the other dimensions.
    rows = input.shape[0] if mode == "row" else 1
    kept = lt.empty(rows, *(1,) * (input.ndim - 1), dtype=input.dtype, device=input.device).bernoulli_(1.0 - p)
    return input * (kept / (1.0 - p) if p < 1.0 else kept)


class StochasticDepth(nn.Module):
    """A layer that applies `stochastic_depth` in training mode."""

    def __init__(self, p: float, mode: str):
        super().__init__()
        self.p, self.mode = p, mode

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with samples dropped."""
        return stochastic_depth(input, self.p, self.mode, self.training)

    def extra_repr(self) -> str:
        """Return the probability and the mode as text."""
        return f"p={self.p}, mode={self.mode}"
