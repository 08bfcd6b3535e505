"""Activations as modules."""

from typing import Any

from lazytensor.functions import pointwise, reductions
from lazytensor.nn import functional
from lazytensor.nn.module import Module
from lazytensor.tensor import Tensor


class ReLU(Module):
    """x where it is positive, else 0."""

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return functional.relu(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class GELU(Module):
    """x times the normal distribution function, exact or by tanh."""

    def __init__(self, approximate: str = "none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return functional.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class SiLU(Module):
    """x * sigmoid(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return pointwise.silu(input)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return pointwise.tanh(input)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return pointwise.sigmoid(input)


class Softmax(Module):
    """exp(x) divided by its sum along a dimension."""

    def __init__(self, dim: Any = None):
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return reductions.softmax(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
