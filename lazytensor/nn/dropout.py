"""Dropout of elements and of whole channels, as modules."""

from collections.abc import Callable

from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionInvalid
from lazytensor.nn import functional as F
from lazytensor.nn.module import Module


class Dropout(Module):
    """A module that sets elements to 0 with probability `p` in training mode, and divides the others by 1 - `p`.

    In evaluation mode it returns its input. If `inplace` is true, the result is written to the input. Raises ValueError
    if `p` is not between 0 and 1.

    >>> import lazytensor as lt
    >>> lt.nn.Dropout(0.5).eval()(lt.ones(2))
    tensor([1., 1.])
    """

    # A staticmethod, since Python would otherwise pass the module as the first argument.
    function: Callable[..., Tensor] = staticmethod(F.dropout)

    def __init__(self, p: float = 0.5, inplace: bool = False):
        super().__init__()
        # 1 is allowed and gives zeros.
        if not 0 <= p <= 1:
            raise OptionInvalid(
                f"dropout probability has to be between 0 and 1, but got {p}",
                where=source.where(),
                hint="Pass p between 0 and 1.",
            )
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` after dropout, in its shape."""
        return self.function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout1d(Dropout):
    """A module that drops whole channels of [N, C, L] or [C, L] with probability `p` in training mode.

    The other channels are divided by 1 - `p`. In evaluation mode it returns its input.

    >>> import lazytensor as lt
    >>> lt.nn.Dropout1d(0.5).eval()(lt.ones(1, 2, 2))
    tensor([[[1., 1.],
             [1., 1.]]])
    """

    function = staticmethod(F.dropout1d)


class Dropout2d(Dropout):
    """A module that drops whole channels of [N, C, H, W] with probability `p` in training mode.

    The other channels are divided by 1 - `p`. In evaluation mode it returns its input.

    >>> import lazytensor as lt
    >>> lt.nn.Dropout2d().eval()(lt.ones(1, 2, 2, 2)).shape
    lazytensor.Size([1, 2, 2, 2])
    """

    function = staticmethod(F.dropout2d)


class Dropout3d(Dropout):
    """A module that drops whole channels of [N, C, D, H, W] or [C, D, H, W] with probability `p` in training mode.

    The other channels are divided by 1 - `p`. In evaluation mode it returns its input.

    >>> import lazytensor as lt
    >>> lt.nn.Dropout3d(0.5).eval()(lt.ones(1, 1, 1, 1, 2))
    tensor([[[[[1., 1.]]]]])
    """

    function = staticmethod(F.dropout3d)


class AlphaDropout(Dropout):
    """A module that drops elements with probability `p` in training mode, and keeps mean and variance of SELU outputs.

    Dropped elements get the lowest value of SELU; all are then scaled and shifted. In evaluation mode it returns its
    input.

    >>> import lazytensor as lt
    >>> lt.nn.AlphaDropout(0.5).eval()(lt.ones(2))
    tensor([1., 1.])
    """

    function = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(Dropout):
    """A module that drops whole channels of [N, C, ...] as `AlphaDropout` drops elements.

    >>> import lazytensor as lt
    >>> lt.nn.FeatureAlphaDropout(0.5).eval()(lt.ones(1, 2))
    tensor([[1., 1.]])
    """

    function = staticmethod(F.feature_alpha_dropout)
