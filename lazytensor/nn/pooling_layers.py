"""Pooling, padding and resampling layers: modules around one function each."""

from typing import Any

from lazytensor.functions import pooling
from lazytensor.functions.convolution import Extents, extents_of
from lazytensor.nn import functional as F
from lazytensor.nn.module import Module
from lazytensor.tensor import Tensor


class _MaxPool(Module):
    """The largest element under each window."""

    rank = 0

    def __init__(
        self,
        kernel_size: Extents,
        stride: Extents | None = None,
        padding: Extents = 0,
        dilation: Extents = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, stride if stride is not None else kernel_size
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        """[N, C, ...] or [C, ...]; with return_indices also the flat places."""
        function = getattr(F, f"max_pool{self.rank}d")
        # PyTorch's functions take ceil_mode before return_indices, its modules after it.
        return function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class _AvgPool(Module):
    """The mean under each window."""

    rank = 0

    def __init__(
        self,
        kernel_size: Extents,
        stride: Extents | None = None,
        padding: Extents = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, stride if stride is not None else kernel_size
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """[N, C, ...] or [C, ...]"""
        # PyTorch's one-dimensional average has no divisor of the caller's choice.
        more = {} if self.rank == 1 else {"divisor_override": self.divisor_override}
        function = getattr(F, f"avg_pool{self.rank}d")
        pooled: Tensor = function(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, **more
        )
        return pooled

    def extra_repr(self) -> str:
        values: tuple[Any, ...] = (self.kernel_size, self.stride, self.padding)
        if self.rank == 1:  # PyTorch prints this one as tuples
            values = tuple((v,) if isinstance(v, int) else v for v in values)
        return f"kernel_size={values[0]}, stride={values[1]}, padding={values[2]}"


class _Adaptive(Module):
    """Pooling to a given output size."""

    name = ""

    def __init__(self, output_size: pooling.OutputSize, return_indices: bool = False):
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        """[N, C, ...] or [C, ...]"""
        # Averages know no such option.
        more = {"return_indices": True} if self.return_indices else {}
        return getattr(F, self.name)(input, self.output_size, **more)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _MaxUnpool(Module):
    """Elements put back where max pooling found them."""

    rank = 0

    def __init__(self, kernel_size: Extents, stride: Extents | None = None, padding: Extents = 0):
        super().__init__()
        rank = self.rank
        self.kernel_size = extents_of(kernel_size, rank, "kernel_size")
        self.stride = extents_of(stride, rank, "stride") if stride is not None else self.kernel_size
        self.padding = extents_of(padding, rank, "padding")

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """What the pooling gave, and its places."""
        function = getattr(F, f"max_unpool{self.rank}d")
        spread: Tensor = function(input, indices, self.kernel_size, self.stride, self.padding, output_size)
        return spread

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _Pad(Module):
    """Padding before and after the last dimensions."""

    rank, mode = 0, ""

    def __init__(self, padding: int | tuple[int, ...]):
        super().__init__()
        # The last dimension first, both sides of each, as `pad` takes them.
        self.padding = (padding,) * 2 * self.rank if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        """[N, C, ...] or [C, ...]"""
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """Padding with one value."""

    mode = "constant"

    def __init__(self, padding: int | tuple[int, ...], value: float):
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """[N, C, ...] or [C, ...]"""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    """Padding with zeros."""

    def __init__(self, padding: int | tuple[int, ...]):
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


# The ranks differ in a number and a name. A class for each by hand would be the same lines three times; editors find
# them by the assignments below.
def _family(parent: type[Module], stem: str, ranks: tuple[int, ...] = (1, 2, 3), **facets: Any) -> tuple[Any, ...]:
    """The classes of one kind for each rank, such as MaxPool1d, MaxPool2d, MaxPool3d."""
    classes = []
    for rank in ranks:
        own = {"rank": rank, "__doc__": f"{parent.__doc__} Spatial dimensions: {rank}.", "__module__": __name__}
        own |= {k: v.format(rank=rank) for k, v in facets.items()}
        classes.append(type(f"{stem}{rank}d", (parent,), own))
    return tuple(classes)


MaxPool1d, MaxPool2d, MaxPool3d = _family(_MaxPool, "MaxPool")
AvgPool1d, AvgPool2d, AvgPool3d = _family(_AvgPool, "AvgPool")
MaxUnpool1d, MaxUnpool2d, MaxUnpool3d = _family(_MaxUnpool, "MaxUnpool")
AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d = _family(
    _Adaptive, "AdaptiveAvgPool", name="adaptive_avg_pool{rank}d"
)
AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = _family(
    _Adaptive, "AdaptiveMaxPool", name="adaptive_max_pool{rank}d"
)
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _family(_Pad, "ReflectionPad", mode="reflect")
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _family(_Pad, "ReplicationPad", mode="replicate")
CircularPad1d, CircularPad2d, CircularPad3d = _family(_Pad, "CircularPad", mode="circular")
ConstantPad1d, ConstantPad2d, ConstantPad3d = _family(_ConstantPad, "ConstantPad")
ZeroPad1d, ZeroPad2d, ZeroPad3d = _family(_ZeroPad, "ZeroPad")


class PixelShuffle(Module):
    """[..., C r^2, H, W] -> [..., C, H r, W r]"""

    def __init__(self, upscale_factor: int):
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """At least three dimensions."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """[..., C, H r, W r] -> [..., C r^2, H, W]"""

    def __init__(self, downscale_factor: int):
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """At least three dimensions."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """The channels of all groups interleaved."""

    def __init__(self, groups: int):
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """[N, C, ...]; the shape stays."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class Upsample(Module):
    """Interpolation to a size or by a factor."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ):
        super().__init__()
        self.size, self.mode = size, mode
        many = isinstance(scale_factor, tuple | list)
        self.scale_factor = tuple(map(float, scale_factor)) if many else float(scale_factor) if scale_factor else None
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """[N, C, ...]"""
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        amount = f"scale_factor={self.scale_factor!r}" if self.scale_factor is not None else f"size={self.size!r}"
        return f"{amount}, mode={self.mode!r}"
