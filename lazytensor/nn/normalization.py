"""Normalization layers."""

from collections.abc import Sequence
from typing import Any

from lazytensor.core import dtype as dt
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor, grad_mode
from lazytensor.functional.creation import empty, ones, tensor, zeros
from lazytensor.functional.views import squeeze, unsqueeze
from lazytensor.nn import functional as F
from lazytensor.nn import init
from lazytensor.nn.module import Module, Parameter


def _register_affine(
    module: Module, shape: int | tuple[int, ...], has_weight: bool, has_bias: bool, device: Any, dtype: DType | None
) -> None:
    """Give a module its weight and bias, each None where there is none."""
    # Both names are registered always: `layer.bias` is None where there is none.
    for name, there in (("weight", has_weight), ("bias", has_bias)):
        module.register_parameter(name, Parameter(empty(shape, device=device, dtype=dtype)) if there else None)


def _reset_affine(module: Module) -> None:
    """Weight 1, bias 0."""
    if module.weight is not None:
        init.ones_(module.weight)
    if module.bias is not None:
        init.zeros_(module.bias)


class _RunningNorm(Module):
    """What batch and instance normalization share: weight, bias and running statistics, each [num_features]."""

    ranks: tuple[int, ...] = ()
    # Since PyTorch 0.4.1 the state has `num_batches_tracked`.
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
        # PyTorch's momentum is the share of the new value in a running mean; other frameworks mean that of the old.
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        _register_affine(self, num_features, affine, affine and bias, device, dtype)
        tracked = track_running_stats
        # Buffers and not parameters: they move with the module and are saved, and no optimizer sees them.
        self.register_buffer("running_mean", zeros(num_features, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", ones(num_features, device=device, dtype=dtype) if tracked else None)
        # Only a momentum of None reads the count, but state dicts hold it for every batch normalization.
        self.register_buffer("num_batches_tracked", tensor(0, dtype=dt.int64, device=device) if tracked else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batches."""
        if self.track_running_stats:
            with grad_mode(False):
                init.zeros_(self.running_mean)
                init.ones_(self.running_var)
                init.constant_(self.num_batches_tracked, 0)

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, and new running statistics."""
        self.reset_running_stats()
        _reset_affine(self)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *rest: Any, **named: Any
    ) -> None:
        # A dict of an older version, or without versions, may lack the count: the layer's own stays.
        key, count = prefix + "num_batches_tracked", self.num_batches_tracked
        if local_metadata.get("version", 1) < 2 and self.track_running_stats and key not in state_dict:
            is_there = count is not None and count.device.type != "meta"
            state_dict[key] = count if is_there else tensor(0, dtype=dt.int64)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest, **named)

    def _check(self, input: Tensor) -> None:
        if self.ranks and input.ndim not in self.ranks:
            ranks = " or ".join(f"{r}D" for r in self.ranks)
            raise ValueError(f"expected {ranks} input (got {input.ndim}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_RunningNorm):
    """Normalization of each channel by the batch in training, else by the running statistics."""

    def forward(self, input: Tensor) -> Tensor:
        """[N, C, ...]; the shape stays. Raises ValueError for another rank."""
        self._check(input)
        momentum = self.momentum if self.momentum is not None else 0.0
        # Three cases: training follows the running statistics, evaluation uses them, and a layer without any normalizes
        # by the batch in both.
        follows = self.training and self.track_running_stats
        if follows and self.num_batches_tracked is not None:
            with grad_mode(False):
                self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the plain mean over all batches
                # Reads the count, so it cannot stand in a traced step.
                momentum = 1.0 / float(self.num_batches_tracked)
        # Without running statistics evaluation has nothing else to go by.
        by_batch = self.training or self.running_mean is None
        mean, var = (self.running_mean, self.running_var) if follows or not self.training else (None, None)
        return F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    """[N, C] or [N, C, L]

    >>> import lazytensor as lt
    >>> lt.nn.BatchNorm1d(1, affine=False)(lt.tensor([[1.0], [3.0]]))
    tensor([[-1.0000],
            [ 1.0000]])
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """[N, C, H, W]

    >>> import lazytensor as lt
    >>> lt.nn.BatchNorm2d(3)
    BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """[N, C, D, H, W]

    >>> import lazytensor as lt
    >>> lt.nn.BatchNorm3d(1)(lt.tensor([1.0, 3.0]).reshape(1, 1, 1, 1, 2)).flatten().detach()
    tensor([-1.0000,  1.0000])
    """

    ranks = (5,)


class _InstanceNorm(_RunningNorm):
    """Normalization of each channel of each sample."""

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
        # PyTorch's defaults, the opposite of batch normalization's: no parameters and no statistics, so no keys in a
        # state dict.
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def forward(self, input: Tensor) -> Tensor:
        """[N, C, ...] or [C, ...]; the shape stays. Raises ValueError for another rank."""
        self._check(input)
        # The lower rank is one sample without a batch, where batch normalization would see [N, C].
        alone = input.ndim == min(self.ranks)
        x = unsqueeze(input, 0) if alone else input
        # Each sample by itself; the running statistics are means over samples, and only evaluation may use them.
        own = self.training or not self.track_running_stats
        momentum = self.momentum if self.momentum is not None else 0.0
        out = F.instance_norm(x, self.running_mean, self.running_var, self.weight, self.bias, own, momentum, self.eps)
        return squeeze(out, 0) if alone else out


class InstanceNorm1d(_InstanceNorm):
    """[N, C, L] or [C, L]

    >>> import lazytensor as lt
    >>> lt.nn.InstanceNorm1d(1)(lt.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """[N, C, H, W] or [C, H, W]

    >>> import lazytensor as lt
    >>> lt.nn.InstanceNorm2d(1)(lt.tensor([[[[1.0, 3.0]]]]))
    tensor([[[[-1.0000,  1.0000]]]])
    """

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """[N, C, D, H, W] or [C, D, H, W]

    >>> import lazytensor as lt
    >>> lt.nn.InstanceNorm3d(1)(lt.tensor([[[[[1.0, 3.0]]]]]))
    tensor([[[[[-1.0000,  1.0000]]]]])
    """

    ranks = (4, 5)


class LayerNorm(Module):
    """Mean 0 and variance 1 over the trailing dimensions `normalized_shape`.

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
        """Weight 1, bias 0."""
        _reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        """[..., *normalized_shape]; the shape stays."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = f"elementwise_affine={self.elementwise_affine}"
        bias = f", bias={self.bias is not None}" if self.elementwise_affine else ", bias=False"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}{bias}"


class RMSNorm(Module):
    """x divided by its root mean square over the trailing dimensions `normalized_shape`.

    >>> import lazytensor as lt
    >>> lt.nn.RMSNorm(2)(lt.tensor([3.0, 4.0])).detach()
    tensor([0.8485, 1.1314])
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        # None is the machine epsilon of the input's type, which is known when it comes.
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
        """Weight 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """[..., *normalized_shape]; the shape stays."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalization over groups of channels. Raises ValueError if the groups do not divide the channels.

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
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        _register_affine(self, num_channels, affine, affine and bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0."""
        _reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        """[N, C, ...]; the shape stays."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        shape = f"{self.num_groups}, {self.num_channels}, eps={self.eps}"
        return f"{shape}, affine={self.affine}, bias={self.bias is not None}"


class LocalResponseNorm(Module):
    """x divided by a power of the mean square of neighbouring channels.

    >>> import lazytensor as lt
    >>> lt.nn.LocalResponseNorm(2)(lt.ones(1, 2, 1))
    tensor([[[1.0000],
             [0.9999]]])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0):
        super().__init__()
        # alpha is divided by the size, as in Caffe and PyTorch; the paper has it as a plain factor.
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """[N, C, ...]; the shape stays."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
