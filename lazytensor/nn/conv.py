"""Convolutions and their transposes as modules."""

import math
from typing import Any

from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor
from lazytensor.functional.convolution import Extents, to_ntuple
from lazytensor.functional.creation import empty
from lazytensor.nn import functional as F
from lazytensor.nn import init
from lazytensor.nn.module import Module, Parameter


class _ConvNd(Module):
    """What all ranks share: weight [out, in / groups, *kernel], or transposed [in, out / groups, *kernel]."""

    rank = 0
    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Extents,
        stride: Extents = 1,
        padding: str | Extents = 0,
        dilation: Extents = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ):
        super().__init__()
        self._check(in_channels, out_channels, groups, padding_mode)
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = to_ntuple(kernel_size, self.rank, "kernel_size")
        self.stride = to_ntuple(stride, self.rank, "stride")
        self.padding: Any = padding if isinstance(padding, str) else to_ntuple(padding, self.rank, "padding")
        self.dilation = to_ntuple(dilation, self.rank, "dilation")
        self.output_padding: tuple[int, ...] = (0,) * self.rank
        self.padding_mode = padding_mode
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        self.weight = Parameter(empty(first, second // groups, *self.kernel_size, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _check(self, in_channels: int, out_channels: int, groups: int, padding_mode: str) -> None:
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        for name, count in (("in_channels", in_channels), ("out_channels", out_channels)):
            if count % groups:
                raise ValueError(f"{name} must be divisible by groups")
        # Other paddings of a transposed convolution would have no adjoint among the convolutions here or in PyTorch.
        modes = ("zeros",) if self.transposed else ("zeros", "reflect", "replicate", "circular")
        if padding_mode not in modes:
            raise ValueError(f"padding_mode must be one of {list(modes)}, but got padding_mode='{padding_mode}'")

    def reset_parameters(self) -> None:
        """Draw new values: uniform within 1 / sqrt(inputs of one output)."""
        # As in Linear: a = sqrt(5) is PyTorch's spelling of the bound 1 / sqrt(fan_in).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = init._calculate_fan_in_and_fan_out(self.weight)[0]
            if fan_in:
                init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def forward(self, input: Tensor) -> Tensor:
        """[N, C, ...] or [C, ...]"""
        padding: str | tuple[int, ...] = self.padding
        # Other kinds of padding are an operation of their own before a convolution without any.
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._widths(), self.padding_mode), (0,) * self.rank
        function = getattr(F, f"conv{self.rank}d")
        convolved: Tensor = function(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)
        return convolved

    def _widths(self) -> list[int]:
        """Padding as `pad` takes it: the last dimension first, both sides."""
        if self.padding == "valid":
            return [0] * 2 * self.rank
        if self.padding == "same":
            total = [d * (k - 1) for k, d in zip(self.kernel_size, self.dilation, strict=True)]
            # An odd amount has its larger half behind, as PyTorch pads.
            return [side for t in reversed(total) for side in (t // 2, t - t // 2)]
        return [int(p) for p in reversed(self.padding) for _ in "lr"]

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * self.rank:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self.rank:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * self.rank:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        text += "" if self.bias is not None else ", bias=False"
        return text + (f", padding_mode={self.padding_mode}" if self.padding_mode != "zeros" else "")


class Conv1d(_ConvNd):
    """[N, C, L] -> [N, out, L']

    >>> import lazytensor as lt
    >>> lt.nn.Conv1d(3, 4, 3)(lt.ones(1, 3, 8)).shape
    lazytensor.Size([1, 4, 6])
    """

    rank = 1


class Conv2d(_ConvNd):
    """[N, C, H, W] -> [N, out, H', W']

    >>> import lazytensor as lt
    >>> lt.nn.Conv2d(3, 4, 3, padding=1)(lt.ones(1, 3, 8, 8)).shape
    lazytensor.Size([1, 4, 8, 8])
    """

    rank = 2


class Conv3d(_ConvNd):
    """[N, C, D, H, W] -> [N, out, D', H', W']

    >>> import lazytensor as lt
    >>> lt.nn.Conv3d(1, 2, 3)(lt.ones(1, 1, 4, 4, 4)).shape
    lazytensor.Size([1, 2, 2, 2, 2])
    """

    rank = 3


class _ConvTransposeNd(_ConvNd):
    """The adjoint of a convolution; `output_padding` chooses among the extents that it could have come from."""

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Extents,
        stride: Extents = 1,
        padding: Extents = 0,
        output_padding: Extents = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Extents = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ):
        # PyTorch's transposed modules take `dilation` after `bias`, its plain ones before `groups`.
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )
        self.output_padding = to_ntuple(output_padding, self.rank, "output_padding")

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """[N, C, ...] -> [N, out, ...]; `output_size` replaces `output_padding`."""
        more = self.output_padding if output_size is None else self._more(input, tuple(output_size))
        function = getattr(F, f"conv_transpose{self.rank}d")
        spread: Tensor = function(
            input, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation
        )
        return spread

    def _more(self, input: Tensor, output_size: tuple[int, ...]) -> tuple[int, ...]:
        # A convolution with a stride maps several extents to one; the output may be any of those.
        wanted = output_size[-self.rank :]
        extents = input.spec.shape[-self.rank :]
        sizes = zip(extents, self.stride, self.padding, self.dilation, self.kernel_size, strict=True)
        least = [(e - 1) * s - 2 * int(p) + d * (k - 1) + 1 for e, s, p, d, k in sizes]
        if any(not low <= w < low + s for w, low, s in zip(wanted, least, self.stride, strict=True)):
            raise ValueError(f"requested an output size of {list(wanted)}, but the least is {least}")
        return tuple(w - low for w, low in zip(wanted, least, strict=True))


class ConvTranspose1d(_ConvTransposeNd):
    """[N, C, L] -> [N, out, L']

    >>> import lazytensor as lt
    >>> lt.nn.ConvTranspose1d(4, 3, 2, stride=2)(lt.ones(1, 4, 8)).shape
    lazytensor.Size([1, 3, 16])
    """

    rank = 1


class ConvTranspose2d(_ConvTransposeNd):
    """[N, C, H, W] -> [N, out, H', W']

    >>> import lazytensor as lt
    >>> lt.nn.ConvTranspose2d(4, 3, 2, stride=2)(lt.ones(1, 4, 8, 8)).shape
    lazytensor.Size([1, 3, 16, 16])
    """

    rank = 2


class ConvTranspose3d(_ConvTransposeNd):
    """[N, C, D, H, W] -> [N, out, D', H', W']

    >>> import lazytensor as lt
    >>> lt.nn.ConvTranspose3d(2, 3, 2)(lt.ones(1, 2, 2, 2, 2)).shape
    lazytensor.Size([1, 3, 3, 3, 3])
    """

    rank = 3
