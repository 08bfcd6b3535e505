"""Simple layers as modules: linear, bilinear, flatten and identity."""

import math
from typing import Any

from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor
from lazytensor.functional import matmul
from lazytensor.functional.creation import empty
from lazytensor.functional.remembered_calls import remember_calls
from lazytensor.functional.views import flatten
from lazytensor.nn import functional as F
from lazytensor.nn import init
from lazytensor.nn.module import Module, Parameter

_linear = remember_calls(matmul.linear, "linear")
"""The function without the casts of `F.linear`, because a layer converts its operands itself."""


class Linear(Module):
    """A module that computes x @ weight.T + bias for x [..., in_features].

    `weight` is [out_features, in_features], and `bias` [out_features] or, if the argument is false, None.

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
            # A registered name without a value: `state_dict` omits it, and `layer.bias` is None.
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias uniformly from -1 / sqrt(in_features) to 1 / sqrt(in_features)."""
        # a = sqrt(5) has the gain 1 / sqrt(3), which gives the bound 1 / sqrt(in_features).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        # After the weight, since the order of the draws determines both for a given seed.
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` @ weight.T + bias: [..., in_features] -> [..., out_features]."""
        return _linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Flatten(Module):
    """A module that merges the dimensions `start_dim` to `end_dim` into one.

    >>> import lazytensor as lt
    >>> lt.nn.Flatten()(lt.ones(2, 3, 4)).shape
    lazytensor.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Return `flatten(input, start_dim, end_dim)`: [N, ...] -> [N, product] with the defaults."""
        return flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Identity(Module):
    """A module that returns its input. The constructor ignores its arguments.

    >>> import lazytensor as lt
    >>> lt.nn.Identity()(lt.tensor([1, 2]))
    tensor([1, 2])
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`."""
        return input


class Bilinear(Module):
    """A module that computes x1^T W_k x2 + b_k for each output k.

    `weight` is [out_features, in1_features, in2_features], and `bias` [out_features] or, if the argument is false,
    None.

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
        """Draw weight and bias uniformly from -1 / sqrt(in1_features) to 1 / sqrt(in1_features)."""
        bound = self.in1_features**-0.5
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Return the outputs: [..., in1_features] and [..., in2_features] -> [..., out_features]."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )
