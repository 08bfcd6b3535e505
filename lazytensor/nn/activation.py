"""Activation functions as modules.

Each `forward` calls the function of `nn.functional`, and each module without parameters works for tensors of any shape.
"""

from typing import Any

from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionInvalid
from lazytensor.functional.creation import empty
from lazytensor.nn import functional as F
from lazytensor.nn import init
from lazytensor.nn.module import Module, Parameter


class _InplaceActivation(Module):
    """The base of activations whose only option is `inplace`.

    If `inplace` is true, `forward` writes the result to its input and returns the input.
    """

    inplace = False

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_InplaceActivation):
    """A module that computes max(x, 0) for each element. If `inplace` is true, the result is written to the input.

    >>> import lazytensor as lt
    >>> lt.nn.ReLU()(lt.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.relu` of `input`, a tensor of any shape, in the same shape."""
        return F.relu(input, self.inplace)


class SiLU(_InplaceActivation):
    """A module that computes x * sigmoid(x) for each element. If `inplace` is true, the result is written to the input.

    >>> import lazytensor as lt
    >>> lt.nn.SiLU()(lt.tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.silu` of `input`, a tensor of any shape, in the same shape."""
        return F.silu(input, self.inplace)


class Mish(_InplaceActivation):
    """A module that computes x * tanh(softplus(x)) for each element.

    If `inplace` is true, the result is written to the input.

    >>> import lazytensor as lt
    >>> lt.nn.Mish()(lt.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.mish` of `input`, a tensor of any shape, in the same shape."""
        return F.mish(input, self.inplace)


class SELU(_InplaceActivation):
    """A module that computes 1.0507 * (x if x > 0, else 1.6733 * (exp(x) - 1)) for each element.

    With these constants activations tend to mean 0 and variance 1. If `inplace` is true, the result is written to the
    input.

    >>> import lazytensor as lt
    >>> lt.nn.SELU()(lt.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.selu` of `input`, a tensor of any shape, in the same shape."""
        return F.selu(input, self.inplace)


# PyTorch's module prints no option, although it has `inplace`.
class Hardswish(_InplaceActivation):
    """A module that computes x * min(max(x + 3, 0), 6) / 6 for each element.

    If `inplace` is true, the result is written to the input.

    >>> import lazytensor as lt
    >>> lt.nn.Hardswish()(lt.tensor([-4.0, 0.0, 4.0]))
    tensor([-0., 0., 4.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.hardswish` of `input`, a tensor of any shape, in the same shape."""
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardsigmoid(Hardswish):
    """A module that computes min(max(x + 3, 0), 6) / 6 for each element.

    If `inplace` is true, the result is written to the input.

    >>> import lazytensor as lt
    >>> lt.nn.Hardsigmoid()(lt.tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.hardsigmoid` of `input`, a tensor of any shape, in the same shape."""
        return F.hardsigmoid(input, self.inplace)


class Tanh(Module):
    """A module that computes the hyperbolic tangent of each element.

    >>> import lazytensor as lt
    >>> lt.nn.Tanh()(lt.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.tanh` of `input`, a tensor of any shape, in the same shape."""
        return F.tanh(input)


class Sigmoid(Module):
    """A module that computes 1 / (1 + exp(-x)) for each element.

    >>> import lazytensor as lt
    >>> lt.nn.Sigmoid()(lt.tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.sigmoid` of `input`, a tensor of any shape, in the same shape."""
        return F.sigmoid(input)


class LogSigmoid(Module):
    """A module that computes log(sigmoid(x)) for each element, without overflow.

    >>> import lazytensor as lt
    >>> lt.nn.LogSigmoid()(lt.tensor([0.0, 2.0]))
    tensor([-0.6931, -0.1269])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.logsigmoid` of `input`, a tensor of any shape, in the same shape."""
        return F.logsigmoid(input)


class Softsign(Module):
    """A module that computes x / (1 + |x|) for each element.

    >>> import lazytensor as lt
    >>> lt.nn.Softsign()(lt.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.softsign` of `input`, a tensor of any shape, in the same shape."""
        return F.softsign(input)


class Tanhshrink(Module):
    """A module that computes x - tanh(x) for each element.

    >>> import lazytensor as lt
    >>> lt.nn.Tanhshrink()(lt.tensor([0.0, 2.0]))
    tensor([0.0000, 1.0360])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.tanhshrink` of `input`, a tensor of any shape, in the same shape."""
        return F.tanhshrink(input)


class GELU(Module):
    """A module that computes x * Phi(x) for each element, where Phi is the normal distribution function.

    `approximate` is "none" for the exact value, or "tanh" for an approximation by tanh.

    >>> import lazytensor as lt
    >>> lt.nn.GELU()(lt.tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """

    def __init__(self, approximate: str = "none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.gelu` of `input`, a tensor of any shape, in the same shape."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class _AlphaActivation(Module):
    """The base of `ELU` and `CELU`, with the options `alpha` and `inplace`."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class ELU(_AlphaActivation):
    """A module that computes x if x > 0, else `alpha` * (exp(x) - 1), for each element.

    If `inplace` is true, the result is written to the input.

    >>> import lazytensor as lt
    >>> lt.nn.ELU()(lt.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.elu` of `input`, a tensor of any shape, in the same shape."""
        return F.elu(input, self.alpha, self.inplace)


class CELU(_AlphaActivation):
    """A module that computes x if x > 0, else `alpha` * (exp(x / alpha) - 1), for each element.

    If `inplace` is true, the result is written to the input.

    >>> import lazytensor as lt
    >>> lt.nn.CELU()(lt.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.celu` of `input`, a tensor of any shape, in the same shape."""
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(Module):
    """A module that computes x if x > 0, else `negative_slope` * x, for each element.

    If `inplace` is true, the result is written to the input.

    >>> import lazytensor as lt
    >>> lt.nn.LeakyReLU(0.1)(lt.tensor([-1.0, 2.0]))
    tensor([-0.1000,  2.0000])
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False):
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.leaky_relu` of `input`, a tensor of any shape, in the same shape."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


# In evaluation mode no number is drawn.
class RReLU(Module):
    """A module that computes x if x > 0, else slope * x, for each element.

    In training mode the slope of each element is drawn uniformly from `lower` to `upper`; in evaluation mode it is
    their mean. If `inplace` is true, the result is written to the input.

    >>> import lazytensor as lt
    >>> lt.nn.RReLU().eval()(lt.tensor([-1.0, 2.0]))
    tensor([-0.2292,  2.0000])
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False):
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.rrelu` of `input`, a tensor of any shape, in the same shape."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class PReLU(Module):
    """A module that computes x if x > 0, else slope * x, with learned slopes.

    There is one slope, or one for each channel: `num_parameters` is 1 or the number of channels. `init` is the initial
    slope.

    >>> import lazytensor as lt
    >>> lt.nn.PReLU()(lt.tensor([-1.0, 2.0])).detach()
    tensor([-0.2500,  2.0000])
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: DType | None = None):
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        # A vector even for one slope, as in PyTorch's checkpoints.
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set every slope to the initial value `init`."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.prelu` of `input`, in its shape. With several slopes `input` is [N, C, ...]."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Hardtanh(Module):
    """A module that limits each element to the range from `min_val` to `max_val`.

    If `inplace` is true, the result is written to the input. Raises ValueError unless `min_val` < `max_val`.

    >>> import lazytensor as lt
    >>> lt.nn.Hardtanh()(lt.tensor([-4.0, 0.5, 4.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False):
        super().__init__()
        if max_val <= min_val:
            raise OptionInvalid(
                f"max_val must be larger than min_val, but got {max_val} and {min_val}",
                where=source.where(),
                hint="Pass a max_val above min_val.",
            )
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.hardtanh` of `input`, a tensor of any shape, in the same shape."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}" + (", inplace=True" if self.inplace else "")


class ReLU6(Hardtanh):
    """A module that limits each element to the range from 0 to 6.

    If `inplace` is true, the result is written to the input.

    >>> import lazytensor as lt
    >>> lt.nn.ReLU6()(lt.tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """

    def __init__(self, inplace: bool = False):
        # A subclass of Hardtanh as in PyTorch, which scripts may test with isinstance.
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Softplus(Module):
    """A module that computes log(1 + exp(beta * x)) / beta for each element, and x itself where beta * x > `threshold`.

    >>> import lazytensor as lt
    >>> lt.nn.Softplus()(lt.tensor([0.0, 2.0]))
    tensor([0.6931, 2.1269])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0):
        super().__init__()
        # Above the threshold 1 + exp equals exp in float32, and exp might overflow.
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.softplus` of `input`, a tensor of any shape, in the same shape."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Threshold(Module):
    """A module that computes x if x > `threshold`, else `value`, for each element.

    If `inplace` is true, the result is written to the input.

    >>> import lazytensor as lt
    >>> lt.nn.Threshold(1.0, -1.0)(lt.tensor([0.5, 2.0]))
    tensor([-1.,  2.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False):
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.threshold` of `input`, a tensor of any shape, in the same shape."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}" + (", inplace=True" if self.inplace else "")


class _Shrink(Module):
    """The base of `Hardshrink` and `Softshrink`, with the option `lambd`."""

    def __init__(self, lambd: float = 0.5):
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """A module that computes 0 where |x| <= `lambd`, else x, for each element.

    >>> import lazytensor as lt
    >>> lt.nn.Hardshrink()(lt.tensor([0.25, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.hardshrink` of `input`, a tensor of any shape, in the same shape."""
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """A module that moves each element towards 0 by `lambd`; elements between -lambd and lambd become 0.

    >>> import lazytensor as lt
    >>> lt.nn.Softshrink()(lt.tensor([0.25, 2.0]))
    tensor([0.0000, 1.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.softshrink` of `input`, a tensor of any shape, in the same shape."""
        return F.softshrink(input, self.lambd)


# If `dim` is None, PyTorch chooses it by the number of dimensions, a rule kept for old programs.
class _DimActivation(Module):
    """The base of activations along a dimension `dim`.

    If it is None, it is 0 for inputs of 0, 1 or 3 dimensions, else 1.
    """

    def __init__(self, dim: int | None = None):
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_DimActivation):
    """A module that computes exp(x) divided by its sum along `dim`.

    >>> import lazytensor as lt
    >>> lt.nn.Softmax(0)(lt.zeros(4))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.softmax` of `input`, a tensor of any shape, in the same shape."""
        return F.softmax(input, self.dim)


class LogSoftmax(_DimActivation):
    """A module that computes log(softmax(x)) along `dim`, without overflow.

    >>> import lazytensor as lt
    >>> lt.nn.LogSoftmax(0)(lt.zeros(4))
    tensor([-1.3863, -1.3863, -1.3863, -1.3863])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.log_softmax` of `input`, a tensor of any shape, in the same shape."""
        return F.log_softmax(input, self.dim)


class Softmin(_DimActivation):
    """A module that computes softmax(-x) along `dim`.

    >>> import lazytensor as lt
    >>> lt.nn.Softmin(0)(lt.zeros(4))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.softmin` of `input`, a tensor of any shape, in the same shape."""
        return F.softmin(input, self.dim)


class GLU(Module):
    """A module that computes a * sigmoid(b), where a and b are the first and second half of the input along `dim`.

    >>> import lazytensor as lt
    >>> lt.nn.GLU()(lt.tensor([3.0, 0.0]))
    tensor([1.5000])
    """

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.glu` of `input`: the extent of `dim` is halved."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax2d(Module):
    """A module that computes the softmax over the channels of images [N, C, H, W] or [C, H, W].

    >>> import lazytensor as lt
    >>> lt.nn.Softmax2d()(lt.zeros(1, 2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the softmax over the channels, in the shape of `input`.

        Raises ValueError unless it has 3 or 4 dimensions.
        """
        if input.ndim not in (3, 4):
            raise OptionInvalid(
                f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead",
                where=source.where(),
                hint="Add or remove dimensions, for example with unsqueeze(0).",
            )
        # Counted from the end, to select the channels with and without a batch dimension.
        return F.softmax(input, -3)
