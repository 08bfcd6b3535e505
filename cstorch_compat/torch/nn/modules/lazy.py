"""Lazy layers, which infer the number of input features from their first input and become the plain layers."""

from typing import Any

from lazytensor import nn
from lazytensor.core.tensor import Tensor
from lazytensor.nn.module import Module


class _LazyLayer(Module):
    """The base class of lazy layers. It stores the arguments of the plain layer until the first input."""

    plain: Any
    axis = 1

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()
        self._given = (args, kwargs)

    def has_uninitialized_params(self) -> bool:
        """Return True, because the layer has had no input."""
        return True

    def forward(self, input: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Become the plain layer, with newly initialized parameters, and return its result for `input`.

        The class of the object changes in place. The number of input features is the size of dimension `axis` of
        `input`. Hooks and the training mode are kept.
        """
        given, options = self._given
        training, hooks = self.training, {k: v for k, v in vars(self).items() if k.endswith("_hooks")}
        # Read these attributes before the class changes.
        plain, features = self.plain, int(input.shape[self.axis])
        self.__class__ = plain
        # The constructor of the plain layer draws the initial values, as PyTorch does at this moment.
        plain.__init__(self, features, *given, **options)
        vars(self).pop("_given", None)
        vars(self).update(hooks, training=training)
        return plain.forward(self, input, *args, **kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(waits for its first input)"


def _make_lazy_class(name: str, plain: Any, axis: int = 1) -> Any:
    body = {
        "plain": plain,
        "axis": axis,
        "__doc__": (
            f"A module that becomes a `{plain.__name__}` when it gets its first input.\n\n"
            f"Dimension {axis} of that input has the number of input features. The constructor takes the arguments of\n"
            f"`{plain.__name__}` except the first, which is that number. It creates no parameters."
        ),
        "__module__": __name__,
    }
    return type(name, (_LazyLayer,), body)


LazyLinear = _make_lazy_class("LazyLinear", nn.Linear, -1)
LazyConv1d, LazyConv2d, LazyConv3d = (_make_lazy_class(f"LazyConv{d}d", getattr(nn, f"Conv{d}d")) for d in (1, 2, 3))
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = (
    _make_lazy_class(f"LazyConvTranspose{d}d", getattr(nn, f"ConvTranspose{d}d")) for d in (1, 2, 3)
)
LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = (
    _make_lazy_class(f"LazyBatchNorm{d}d", getattr(nn, f"BatchNorm{d}d")) for d in (1, 2, 3)
)
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = (
    _make_lazy_class(f"LazyInstanceNorm{d}d", getattr(nn, f"InstanceNorm{d}d")) for d in (1, 2, 3)
)


class UpsamplingNearest2d(nn.Upsample):
    """A layer that upsamples images by repeating pixels."""

    def __init__(self, size: Any = None, scale_factor: Any = None):
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(nn.Upsample):
    """A layer that upsamples images by bilinear interpolation with aligned corners."""

    def __init__(self, size: Any = None, scale_factor: Any = None):
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
