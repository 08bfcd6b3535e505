"""Layers of `torchvision.ops` that models use beside PyTorch's own."""

import lazytensor as lt
from lazytensor import nn
from lazytensor.core.tensor import Tensor


class FrozenBatchNorm2d(nn.Module):
    """Batch normalization with statistics and weights that stay as they are: [N, C, H, W] to the same."""

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, num_features: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        # Buffers, and no parameters: an optimizer is not to see them.
        for name, make in (
            ("weight", lt.ones),
            ("bias", lt.zeros),
            ("running_mean", lt.zeros),
            ("running_var", lt.ones),
        ):
            self.register_buffer(name, make(num_features))

    def forward(self, x: Tensor) -> Tensor:
        """Scale and shift every channel."""
        w, b, mean, var = (
            t.reshape(1, -1, 1, 1) for t in (self.weight, self.bias, self.running_mean, self.running_var)
        )
        scale = w * (var + self.eps).rsqrt()
        return x * scale + (b - mean * scale)

    def extra_repr(self) -> str:
        """Channels and eps."""
        return f"{self.weight.shape[0]}, eps={self.eps}"


def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """Whole rows of the batch, or with mode "batch" the whole of it, dropped with probability p; the rest is scaled.

    Raises ValueError for a probability out of range and for another mode.
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"drop probability has to be between 0 and 1, but got {p}")
    if mode not in ("batch", "row"):
        raise ValueError(f"mode has to be either 'batch' or 'row', but got {mode}")
    if not training or p == 0.0:
        return input
    # One draw for each row, or one for all, spread over the other dimensions by broadcasting.
    rows = input.shape[0] if mode == "row" else 1
    kept = lt.empty(rows, *(1,) * (input.ndim - 1), dtype=input.dtype, device=input.device).bernoulli_(1.0 - p)
    return input * (kept / (1.0 - p) if p < 1.0 else kept)


class StochasticDepth(nn.Module):
    """Drops rows of the batch, or all of it, while a model trains."""

    def __init__(self, p: float, mode: str):
        super().__init__()
        self.p, self.mode = p, mode

    def forward(self, input: Tensor) -> Tensor:
        """The batch with some of it dropped."""
        return stochastic_depth(input, self.p, self.mode, self.training)

    def extra_repr(self) -> str:
        """Probability and mode."""
        return f"p={self.p}, mode={self.mode}"
