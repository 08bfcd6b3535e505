"""Activations as modules."""

from typing import Any

from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor
from lazytensor.functional.creation import empty
from lazytensor.nn import functional as F
from lazytensor.nn import init
from lazytensor.nn.module import Module, Parameter


class _InplaceActivation(Module):
    """An activation without options, or with `inplace` only."""

    inplace = False

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_InplaceActivation):
    """x where it is positive, else 0.

    >>> import lazytensor as lt
    >>> lt.nn.ReLU()(lt.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.relu(input, self.inplace)


class SiLU(_InplaceActivation):
    """x * sigmoid(x).

    >>> import lazytensor as lt
    >>> lt.nn.SiLU()(lt.tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.silu(input, self.inplace)


class Mish(_InplaceActivation):
    """x * tanh(softplus(x)).

    >>> import lazytensor as lt
    >>> lt.nn.Mish()(lt.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.mish(input, self.inplace)


class SELU(_InplaceActivation):
    """A scaled elu that keeps mean 0 and variance 1.

    >>> import lazytensor as lt
    >>> lt.nn.SELU()(lt.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.selu(input, self.inplace)


# PyTorch's prints no option, although it takes one.
class Hardswish(_InplaceActivation):
    """x * relu6(x + 3) / 6.

    >>> import lazytensor as lt
    >>> lt.nn.Hardswish()(lt.tensor([-4.0, 0.0, 4.0]))
    tensor([-0., 0., 4.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardsigmoid(Hardswish):
    """relu6(x + 3) / 6.

    >>> import lazytensor as lt
    >>> lt.nn.Hardsigmoid()(lt.tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.hardsigmoid(input, self.inplace)


class Tanh(Module):
    """The hyperbolic tangent.

    >>> import lazytensor as lt
    >>> lt.nn.Tanh()(lt.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.tanh(input)


class Sigmoid(Module):
    """1 / (1 + exp(-x)).

    >>> import lazytensor as lt
    >>> lt.nn.Sigmoid()(lt.tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.sigmoid(input)


class LogSigmoid(Module):
    """log(sigmoid(x)).

    >>> import lazytensor as lt
    >>> lt.nn.LogSigmoid()(lt.tensor([0.0, 2.0]))
    tensor([-0.6931, -0.1269])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.logsigmoid(input)


class Softsign(Module):
    """x / (1 + |x|).

    >>> import lazytensor as lt
    >>> lt.nn.Softsign()(lt.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x).

    >>> import lazytensor as lt
    >>> lt.nn.Tanhshrink()(lt.tensor([0.0, 2.0]))
    tensor([0.0000, 1.0360])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.tanhshrink(input)


class GELU(Module):
    """x times the normal distribution function, exact or by tanh.

    >>> import lazytensor as lt
    >>> lt.nn.GELU()(lt.tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """

    def __init__(self, approximate: str = "none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class _AlphaActivation(Module):
    """elu and celu."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class ELU(_AlphaActivation):
    """x where it is positive, else alpha * (exp(x) - 1).

    >>> import lazytensor as lt
    >>> lt.nn.ELU()(lt.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.elu(input, self.alpha, self.inplace)


class CELU(_AlphaActivation):
    """x where it is positive, else alpha * (exp(x / alpha) - 1).

    >>> import lazytensor as lt
    >>> lt.nn.CELU()(lt.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(Module):
    """x where it is positive, else negative_slope * x.

    >>> import lazytensor as lt
    >>> lt.nn.LeakyReLU(0.1)(lt.tensor([-1.0, 2.0]))
    tensor([-0.1000,  2.0000])
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False):
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


# In evaluation the slope is the middle of the range, so no number is drawn.
class RReLU(Module):
    """x where it is positive, else a slope times x that is random in training.

    >>> import lazytensor as lt
    >>> lt.nn.RReLU().eval()(lt.tensor([-1.0, 2.0]))
    tensor([-0.2292,  2.0000])
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False):
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class PReLU(Module):
    """x where it is positive, else a learned slope times x; one slope, or one for each channel.

    >>> import lazytensor as lt
    >>> lt.nn.PReLU()(lt.tensor([-1.0, 2.0])).detach()
    tensor([-0.2500,  2.0000])
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: DType | None = None):
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        # [1] and not []: PyTorch's files have a vector even for one slope.
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Every slope as it was given."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """[N, C, ...] for several slopes."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Hardtanh(Module):
    """x limited to min_val..max_val. Raises ValueError if they are exchanged.

    >>> import lazytensor as lt
    >>> lt.nn.Hardtanh()(lt.tensor([-4.0, 0.5, 4.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False):
        super().__init__()
        if max_val <= min_val:
            raise ValueError(f"max_val must be larger than min_val, but got {max_val} and {min_val}")
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class ReLU6(Hardtanh):
    """x limited to 0..6.

    >>> import lazytensor as lt
    >>> lt.nn.ReLU6()(lt.tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """

    def __init__(self, inplace: bool = False):
        # PyTorch's is a Hardtanh too, and programs ask with isinstance.
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Softplus(Module):
    """log(1 + exp(beta x)) / beta, and x itself above the threshold.

    >>> import lazytensor as lt
    >>> lt.nn.Softplus()(lt.tensor([0.0, 2.0]))
    tensor([0.6931, 2.1269])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0):
        super().__init__()
        # Above the threshold the sum 1 + exp cannot be told from exp in float32, and exp might overflow.
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Threshold(Module):
    """`value` where x <= threshold, else x.

    >>> import lazytensor as lt
    >>> lt.nn.Threshold(1.0, -1.0)(lt.tensor([0.5, 2.0]))
    tensor([-1.,  2.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False):
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class _Shrink(Module):
    """Both kinds of shrinking have one number."""

    def __init__(self, lambd: float = 0.5):
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """0 where |x| <= lambd, else x.

    >>> import lazytensor as lt
    >>> lt.nn.Hardshrink()(lt.tensor([0.25, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved by lambd towards 0, which it does not cross.

    >>> import lazytensor as lt
    >>> lt.nn.Softshrink()(lt.tensor([0.25, 2.0]))
    tensor([0.0000, 1.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.softshrink(input, self.lambd)


# A dimension of None is chosen by the number of dimensions, a rule that PyTorch keeps for old programs.
class _DimActivation(Module):
    """An activation along a dimension."""

    def __init__(self, dim: int | None = None):
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_DimActivation):
    """exp(x) divided by its sum along a dimension.

    >>> import lazytensor as lt
    >>> lt.nn.Softmax(0)(lt.zeros(4))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.softmax(input, self.dim)


class LogSoftmax(_DimActivation):
    """The logarithm of softmax.

    >>> import lazytensor as lt
    >>> lt.nn.LogSoftmax(0)(lt.zeros(4))
    tensor([-1.3863, -1.3863, -1.3863, -1.3863])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.log_softmax(input, self.dim)


class Softmin(_DimActivation):
    """softmax(-x).

    >>> import lazytensor as lt
    >>> lt.nn.Softmin(0)(lt.zeros(4))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Any shape."""
        return F.softmin(input, self.dim)


class GLU(Module):
    """The first half times the sigmoid of the second half of a dimension.

    >>> import lazytensor as lt
    >>> lt.nn.GLU()(lt.tensor([3.0, 0.0]))
    tensor([1.5000])
    """

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """The extent of the dimension is halved."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax2d(Module):
    """Softmax over the channels of [N, C, H, W] or [C, H, W]. Raises ValueError for another rank.

    >>> import lazytensor as lt
    >>> lt.nn.Softmax2d()(lt.zeros(1, 2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The shape stays."""
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        # Counted from the end, so that it is the channels with a batch and without.
        return F.softmax(input, -3)
