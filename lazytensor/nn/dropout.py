"""Dropout of elements and of whole channels, as modules."""

from collections.abc import Callable

from lazytensor.core.tensor import Tensor
from lazytensor.nn import functional as F
from lazytensor.nn.module import Module


class Dropout(Module):
    """In training, zeroes elements with probability p and scales the others by 1 / (1 - p).

    >>> import lazytensor as lt
    >>> lt.nn.Dropout(0.5).eval()(lt.ones(2))
    tensor([1., 1.])
    """

    # staticmethod, or Python would pass the module as the first argument.
    function: Callable[..., Tensor] = staticmethod(F.dropout)

    def __init__(self, p: float = 0.5, inplace: bool = False):
        super().__init__()
        # 1 is allowed, and gives zeros instead of dividing by 0.
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        """The shape stays."""
        return self.function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout1d(Dropout):
    """Dropout of whole channels of [N, C, L] or [C, L].

    >>> import lazytensor as lt
    >>> lt.nn.Dropout1d(0.5).eval()(lt.ones(1, 2, 2))
    tensor([[[1., 1.],
             [1., 1.]]])
    """

    function = staticmethod(F.dropout1d)


class Dropout2d(Dropout):
    """Dropout of whole channels of [N, C, H, W].

    >>> import lazytensor as lt
    >>> lt.nn.Dropout2d().eval()(lt.ones(1, 2, 2, 2)).shape
    lazytensor.Size([1, 2, 2, 2])
    """

    function = staticmethod(F.dropout2d)


class Dropout3d(Dropout):
    """Dropout of whole channels of [N, C, D, H, W] or [C, D, H, W].

    >>> import lazytensor as lt
    >>> lt.nn.Dropout3d(0.5).eval()(lt.ones(1, 1, 1, 1, 2))
    tensor([[[[[1., 1.]]]]])
    """

    function = staticmethod(F.dropout3d)


class AlphaDropout(Dropout):
    """Dropout that keeps mean and variance of what SELU gives.

    >>> import lazytensor as lt
    >>> lt.nn.AlphaDropout(0.5).eval()(lt.ones(2))
    tensor([1., 1.])
    """

    function = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(Dropout):
    """AlphaDropout of whole channels.

    >>> import lazytensor as lt
    >>> lt.nn.FeatureAlphaDropout(0.5).eval()(lt.ones(1, 2))
    tensor([[1., 1.]])
    """

    function = staticmethod(F.feature_alpha_dropout)
