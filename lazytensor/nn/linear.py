"""Layers without much inside: linear, bilinear, flatten, identity."""

import math
from typing import Any

from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor
from lazytensor.functional.creation import empty
from lazytensor.functional.matmul import linear
from lazytensor.functional.views import flatten
from lazytensor.nn import functional as F
from lazytensor.nn import init
from lazytensor.nn.module import Module, Parameter


class Linear(Module):
    """y = x @ weight.T + bias; weight is [out_features, in_features], x [..., in_features].

    >>> import lazytensor as lt
    >>> lt.nn.Linear(8, 4)(lt.ones(2, 8)).shape
    lazytensor.Size([2, 4])
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: DType | None = None
    ):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty(out_features, in_features, dtype=dtype, device=device))
        if bias:
            self.bias = Parameter(empty(out_features, dtype=dtype, device=device))
        else:
            # A name without a value: `state_dict` leaves it out, and `layer.bias` is None.
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values: uniform within 1 / sqrt(in_features)."""
        # PyTorch's spelling of the bound 1 / sqrt(in_features): the gain of a = sqrt(5) is 1 / sqrt(3).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        # After the weight: the order of the draws decides both, for a given seed.
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """[..., in_features] -> [..., out_features]"""
        return linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Flatten(Module):
    """Merges dimensions start_dim..end_dim.

    >>> import lazytensor as lt
    >>> lt.nn.Flatten()(lt.ones(2, 3, 4)).shape
    lazytensor.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        """[N, ...] -> [N, product] with the defaults."""
        return flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Identity(Module):
    """Returns its input, whatever it was given at construction.

    >>> import lazytensor as lt
    >>> lt.nn.Identity()(lt.tensor([1, 2]))
    tensor([1, 2])
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """The input."""
        return input


class Bilinear(Module):
    """x1^T W_k x2 + b_k for each output k.

    >>> import lazytensor as lt
    >>> lt.nn.Bilinear(2, 3, 4)(lt.ones(5, 2), lt.ones(5, 3)).shape
    lazytensor.Size([5, 4])
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ):
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(empty(out_features, in1_features, in2_features, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values: uniform within 1 / sqrt(in1_features)."""
        bound = self.in1_features**-0.5
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """[..., in1], [..., in2] -> [..., out]"""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )
