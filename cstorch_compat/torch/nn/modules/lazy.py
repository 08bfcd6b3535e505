"""Layers that learn the number of their inputs from the first that they see, and are then the plain layers."""

from typing import Any

from lazytensor import nn
from lazytensor.core.tensor import Tensor
from lazytensor.nn.module import Module, Parameter


class UninitializedParameter(Parameter):
    """A parameter of a lazy layer before its first input; nothing is one here: such layers have no parameters yet."""


def is_lazy(param: Any) -> bool:
    """Whether a parameter waits for its shape."""
    return isinstance(param, UninitializedParameter)


class _LazyLayer(Module):
    """Keeps the arguments of a layer until an input says how many features or channels it has."""

    plain: Any
    axis = 1

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()
        self._given = (args, kwargs)

    def has_uninitialized_params(self) -> bool:
        """True: the layer has not seen an input."""
        return True

    def forward(self, input: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Become the plain layer, with values drawn now, and be called as that."""
        given, options = self._given
        training, hooks = self.training, {k: v for k, v in vars(self).items() if k.endswith("_hooks")}
        # Asked before the class changes, which takes these two away.
        plain, features = self.plain, int(input.shape[self.axis])
        self.__class__ = plain
        # The constructor of the plain layer draws the values, as the reset of PyTorch's does at this moment.
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
        "__doc__": f"{plain.__name__} that learns the number of its inputs.",
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
    """Pixels repeated."""

    def __init__(self, size: Any = None, scale_factor: Any = None):
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(nn.Upsample):
    """Pixels between others, the corners kept."""

    def __init__(self, size: Any = None, scale_factor: Any = None):
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
