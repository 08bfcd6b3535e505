"""Normalization layers as modules."""

from collections.abc import Sequence
from typing import Any

from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor, grad_mode
from lazytensor.errors import OptionInvalid
from lazytensor.functional.creation import empty, ones, tensor, zeros
from lazytensor.functional.views import squeeze, unsqueeze
from lazytensor.nn import functional as F
from lazytensor.nn import init
from lazytensor.nn.module import Module, Parameter


def _register_affine(
    module: Module, shape: int | tuple[int, ...], has_weight: bool, has_bias: bool, device: Any, dtype: DType | None
) -> None:
    """Register `weight` and `bias` of `shape` in `module`. The name of a missing one is registered as None."""
    # Both names are always registered, so that `layer.bias` is None if there is no bias.
    for name, there in (("weight", has_weight), ("bias", has_bias)):
        module.register_parameter(name, Parameter(empty(shape, device=device, dtype=dtype)) if there else None)


def _reset_affine(module: Module) -> None:
    """Set the weight of `module` to ones and its bias to zeros, if it has them."""
    if module.weight is not None:
        init.ones_(module.weight)
    if module.bias is not None:
        init.zeros_(module.bias)


class _RunningNorm(Module):
    """The base of batch and instance normalization: weight, bias and running statistics, each [num_features].

    - `num_features`: number of channels.
    - `eps`: added to the variance.
    - `momentum`: share of the new value in a running statistic; None averages over all batches.
    - `affine`, `bias`: whether there are a learned weight and bias.
    - `track_running_stats`: whether there are running statistics.
    """

    ranks: tuple[int, ...] = ()
    # State dicts contain `num_batches_tracked` since PyTorch 0.4.1.
    _version = 2

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ):
        super().__init__()
        # PyTorch's momentum is the share of the new value; in other frameworks it is that of the old.
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        _register_affine(self, num_features, affine, affine and bias, device, dtype)
        tracked = track_running_stats
        # Buffers move with the module and are saved, and no optimizer updates them.
        self.register_buffer("running_mean", zeros(num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", ones(num_features, device=device, dtype=dtype) if tracked else None)
        # Only a momentum of None reads the count, but state dicts always contain it.
        self.register_buffer("num_batches_tracked", tensor(0, dtype=dt.int64, device=device) if tracked else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set the running mean to 0, the running variance to 1 and the number of batches to 0."""
        if self.track_running_stats:
            with grad_mode(False):
                init.zeros_(self.running_mean)
                init.ones_(self.running_var)
                init.constant_(self.num_batches_tracked, 0)

    def reset_parameters(self) -> None:
        """Set weight to 1 and bias to 0, and reset the running statistics."""
        self.reset_running_stats()
        _reset_affine(self)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *rest: Any, **named: Any
    ) -> None:
        # An older state dict may lack the count; the layer then keeps its value.
        key, count = prefix + "num_batches_tracked", self.num_batches_tracked
        if local_metadata.get("version", 1) < 2 and self.track_running_stats and key not in state_dict:
            is_there = count is not None and count.device.type != "meta"
            state_dict[key] = count if is_there else tensor(0, dtype=dt.int64)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest, **named)

    def _check(self, input: Tensor) -> None:
        if self.ranks and input.ndim not in self.ranks:
            ranks = " or ".join(f"{r}D" for r in self.ranks)
            raise OptionInvalid(
                f"expected {ranks} input (got {input.ndim}D input)",
                where=source.where(),
                hint="Add or remove dimensions, or use the layer of the input's rank.",
            )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_RunningNorm):
    """Batch normalization: each channel is normalized by the batch in training mode, else by the running statistics."""

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` [N, C, ...] normalized, in its shape.

        In training mode the running statistics are updated in place. In evaluation mode without running statistics,
        those of the batch are used. Raises ValueError for another number of dimensions, and TraceError in a compiled
        step in training with `momentum` None, which reads the number of batches.
        """
        self._check(input)
        momentum = self.momentum if self.momentum is not None else 0.0
        # Training updates the running statistics, evaluation uses them, and a layer without any normalizes by the batch
        # in both modes.
        follows = self.training and self.track_running_stats
        if follows and self.num_batches_tracked is not None:
            with grad_mode(False):
                self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the average over all batches
                # Reads the count, which is not possible in a compiled step.
                momentum = 1.0 / float(self.num_batches_tracked)
        # Without running statistics, evaluation uses the batch too.
        by_batch = self.training or self.running_mean is None
        mean, var = (self.running_mean, self.running_var) if follows or not self.training else (None, None)
        return F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    """Batch normalization of [N, C] or [N, C, L].

    In training mode each channel is normalized by the mean and variance of the batch, and the running statistics are
    updated. In evaluation mode these are used. `momentum` is the share of the new value in a running statistic.

    >>> import lazytensor as lt
    >>> lt.nn.BatchNorm1d(1, affine=False)(lt.tensor([[1.0], [3.0]]))
    tensor([[-1.0000],
            [ 1.0000]])
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization of images [N, C, H, W].

    In training mode each channel is normalized by the mean and variance of the batch, and the running statistics are
    updated. In evaluation mode these are used. `momentum` is the share of the new value in a running statistic.

    >>> import lazytensor as lt
    >>> lt.nn.BatchNorm2d(3)
    BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of volumes [N, C, D, H, W].

    In training mode each channel is normalized by the mean and variance of the batch, and the running statistics are
    updated. In evaluation mode these are used. `momentum` is the share of the new value in a running statistic.

    >>> import lazytensor as lt
    >>> lt.nn.BatchNorm3d(1)(lt.tensor([1.0, 3.0]).reshape(1, 1, 1, 1, 2)).flatten().detach()
    tensor([-1.0000,  1.0000])
    """

    ranks = (5,)


class _InstanceNorm(_RunningNorm):
    """Instance normalization: each channel of each sample is normalized separately."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ):
        # PyTorch's defaults, unlike those of batch normalization: no parameters and no statistics, so no keys in a
        # state dict.
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` [N, C, ...] or [C, ...] normalized, in its shape.

        With `track_running_stats`, training updates the running statistics and evaluation uses them. Raises ValueError
        for another number of dimensions.
        """
        self._check(input)
        # The lower rank is one sample without a batch dimension; in batch normalization it is [N, C].
        alone = input.ndim == min(self.ranks)
        x = unsqueeze(input, 0) if alone else input
        # Each sample is normalized separately. Running statistics are averages over samples, and only evaluation uses
        # them.
        own = self.training or not self.track_running_stats
        momentum = self.momentum if self.momentum is not None else 0.0
        out = F.instance_norm(x, self.running_mean, self.running_var, self.weight, self.bias, own, momentum, self.eps)
        return squeeze(out, 0) if alone else out


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of [N, C, L] or [C, L]: each channel of each sample gets mean 0 and variance 1.

    >>> import lazytensor as lt
    >>> lt.nn.InstanceNorm1d(1)(lt.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization of [N, C, H, W] or [C, H, W]: each channel of each sample gets mean 0 and variance 1.

    >>> import lazytensor as lt
    >>> lt.nn.InstanceNorm2d(1)(lt.tensor([[[[1.0, 3.0]]]]))
    tensor([[[[-1.0000,  1.0000]]]])
    """

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of [N, C, D, H, W] or [C, D, H, W].

    Each channel of each sample gets mean 0 and variance 1.

    >>> import lazytensor as lt
    >>> lt.nn.InstanceNorm3d(1)(lt.tensor([[[[[1.0, 3.0]]]]]))
    tensor([[[[[-1.0000,  1.0000]]]]])
    """

    ranks = (4, 5)


class LayerNorm(Module):
    """A module that normalizes to mean 0 and variance 1 over the trailing dimensions `normalized_shape`.

    If `elementwise_affine` is true, the result is multiplied by a learned weight and, if `bias` is true, a learned bias
    is added, both of that shape.

    >>> import lazytensor as lt
    >>> lt.nn.LayerNorm(2)(lt.tensor([1.0, 3.0])).detach()
    tensor([-1.0000,  1.0000])
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ):
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        _register_affine(self, shape, elementwise_affine, elementwise_affine and bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        _reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` [..., *normalized_shape] normalized, in its shape."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = f"elementwise_affine={self.elementwise_affine}"
        bias = f", bias={self.bias is not None}" if self.elementwise_affine else ", bias=False"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}{bias}"


class RMSNorm(Module):
    """A module that divides by the root mean square over the trailing dimensions `normalized_shape`.

    If `elementwise_affine` is true, the result is multiplied by a learned weight of that shape. `eps` is added to the
    mean square.

    >>> import lazytensor as lt
    >>> lt.nn.RMSNorm(2)(lt.tensor([3.0, 4.0])).detach()
    tensor([0.8485, 1.1314])
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        # None is the machine epsilon of the dtype of the computation, which is known at the call.
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ):
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        weight = Parameter(empty(shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` [..., *normalized_shape] normalized, in its shape."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """A module that normalizes to mean 0 and variance 1 over each of `num_groups` groups of channels.

    If `affine` is true, there are a learned weight and bias [num_channels]. Raises ValueError if `num_groups` does not
    divide `num_channels`.

    >>> import lazytensor as lt
    >>> lt.nn.GroupNorm(1, 2)(lt.tensor([[1.0, 3.0]])).detach()
    tensor([[-1.0000,  1.0000]])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ):
        super().__init__()
        if num_channels % num_groups:
            raise OptionInvalid(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})",
                where=source.where(),
                hint="Choose a divisor of num_channels as num_groups.",
            )
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        _register_affine(self, num_channels, affine, affine and bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        _reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` [N, num_channels, ...] normalized, in its shape."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        shape = f"{self.num_groups}, {self.num_channels}, eps={self.eps}"
        return f"{shape}, affine={self.affine}, bias={self.bias is not None}"


class LocalResponseNorm(Module):
    """A module that computes x / (k + alpha * mean of x**2 over `size` neighbouring channels)**beta.

    >>> import lazytensor as lt
    >>> lt.nn.LocalResponseNorm(2)(lt.ones(1, 2, 1))
    tensor([[[1.0000],
             [0.9999]]])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0):
        super().__init__()
        # alpha is divided by the size, as in Caffe and PyTorch; in the paper it is a plain factor.
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` [N, C, ...] normalized, in its shape."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
