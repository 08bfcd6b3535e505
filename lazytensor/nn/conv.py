"""Convolutions and transposed convolutions as modules."""

import math
from typing import Any

from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionInvalid
from lazytensor.functional.convolution import Extents, to_ntuple
from lazytensor.functional.creation import empty
from lazytensor.nn import functional as F
from lazytensor.nn import init
from lazytensor.nn.module import Module, Parameter


class _ConvNd(Module):
    """The base of convolutions with `rank` spatial dimensions.

    - `in_channels`, `out_channels`: channels of input and output, divisible by `groups`.
    - `kernel_size`, `stride`, `dilation`: one integer, or one for each spatial dimension.
    - `padding`: padding at both ends, as integers, or "valid" or "same".
    - `groups`: number of channel groups, each convolved separately.
    - `bias`: whether to add a learned bias [out_channels].
    - `padding_mode`: "zeros", "reflect", "replicate" or "circular"; "zeros" only if transposed.

    `weight` is [out, in / groups, *kernel], or [in, out / groups, *kernel] if transposed. Raises ValueError if `groups`
    does not divide the channels, or for another `padding_mode`.
    """

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
        """Raise ValueError if `groups` is not positive or does not divide the channels.

        Also for an unknown `padding_mode`; a transposed convolution accepts only "zeros".
        """
        if groups <= 0:
            raise OptionInvalid(
                f"groups must be a positive integer, but got {groups}",
                where=source.where(),
                hint="Pass groups of at least 1.",
            )
        for name, count in (("in_channels", in_channels), ("out_channels", out_channels)):
            if count % groups:
                raise OptionInvalid(
                    f"{name} must be divisible by groups",
                    where=source.where(),
                    hint="Choose a divisor of both numbers of channels.",
                )
        # Neither PyTorch nor this package has an adjoint for other paddings.
        modes = ("zeros",) if self.transposed else ("zeros", "reflect", "replicate", "circular")
        if padding_mode not in modes:
            raise OptionInvalid(
                f"padding_mode must be one of {list(modes)}, but got padding_mode='{padding_mode}'",
                where=source.where(),
                hint="Pass one of these modes.",
            )

    def reset_parameters(self) -> None:
        """Draw weight and bias uniformly from -1 / sqrt(fan_in) to 1 / sqrt(fan_in).

        fan_in is the number of inputs of one output element. If it is 0, the bias is not changed.
        """
        # As in Linear, a = sqrt(5) gives PyTorch's bound 1 / sqrt(fan_in).
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = init._calculate_fan_in_and_fan_out(self.weight)[0]
            if fan_in:
                init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution of `input` [N, C, ...] or [C, ...], with `out_channels` channels."""
        padding: str | tuple[int, ...] = self.padding
        # Other padding modes are a separate operation before an unpadded convolution.
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._widths(), self.padding_mode), (0,) * self.rank
        function = getattr(F, f"conv{self.rank}d")
        convolved: Tensor = function(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)
        return convolved

    def _widths(self) -> list[int]:
        """Return the padding in the format of `F.pad`: pairs (before, after), for the last dimension first."""
        if self.padding == "valid":
            return [0] * 2 * self.rank
        if self.padding == "same":
            total = [d * (k - 1) for k, d in zip(self.kernel_size, self.dilation, strict=True)]
            # An odd total puts the extra element at the end, as in PyTorch.
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
    """A 1-D convolution (cross-correlation): [N, in_channels, L] -> [N, out_channels, L'].

    The batch dimension may be missing. The parameters are those of `Conv2d`, with one value each.

    >>> import lazytensor as lt
    >>> lt.nn.Conv1d(3, 4, 3)(lt.ones(1, 3, 8)).shape
    lazytensor.Size([1, 4, 6])
    """

    rank = 1


class Conv2d(_ConvNd):
    """A 2-D convolution (cross-correlation): [N, in_channels, H, W] -> [N, out_channels, H', W'].

    `kernel_size`, `stride` and `dilation` are one integer or two; `padding` is too, or "valid" or "same". `weight` is
    [out_channels, in_channels / groups, kh, kw], and `bias` [out_channels] unless `bias=False`. `padding_mode` is
    "zeros", "reflect", "replicate" or "circular". The batch dimension may be missing. Raises ValueError if `groups`
    does not divide the channels.

    >>> import lazytensor as lt
    >>> lt.nn.Conv2d(3, 4, 3, padding=1)(lt.ones(1, 3, 8, 8)).shape
    lazytensor.Size([1, 4, 8, 8])
    """

    rank = 2


class Conv3d(_ConvNd):
    """A 3-D convolution (cross-correlation): [N, in_channels, D, H, W] -> [N, out_channels, D', H', W'].

    The batch dimension may be missing. The parameters are those of `Conv2d`, with up to three values each.

    >>> import lazytensor as lt
    >>> lt.nn.Conv3d(1, 2, 3)(lt.ones(1, 1, 4, 4, 4)).shape
    lazytensor.Size([1, 2, 2, 2, 2])
    """

    rank = 3


class _ConvTransposeNd(_ConvNd):
    """The base of transposed convolutions. Their parameters are those of `_ConvNd`, and `output_padding`.

    `output_padding` is added to the output extents. It selects one of the extents that the convolution with this stride
    reduces to the input's.
    """

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
        # As in PyTorch, transposed modules have `dilation` after `bias`, and others before `groups`.
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )
        self.output_padding = to_ntuple(output_padding, self.rank, "output_padding")

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """Return the transposed convolution: [N, in_channels, ...] -> [N, out_channels, ...].

        `output_size`, if given, is the spatial shape of the result and replaces `output_padding`. Raises ValueError if
        the stride does not allow it.
        """
        more = self.output_padding if output_size is None else self._more(input, tuple(output_size))
        function = getattr(F, f"conv_transpose{self.rank}d")
        spread: Tensor = function(
            input, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation
        )
        return spread

    def _more(self, input: Tensor, output_size: tuple[int, ...]) -> tuple[int, ...]:
        """Return the output padding that gives the spatial shape `output_size`.

        Raises ValueError if the stride does not allow it.
        """
        # A strided convolution maps several input extents to one output extent; the result may have any of them.
        wanted = output_size[-self.rank :]
        extents = input.spec.shape[-self.rank :]
        sizes = zip(extents, self.stride, self.padding, self.dilation, self.kernel_size, strict=True)
        least = [(e - 1) * s - 2 * int(p) + d * (k - 1) + 1 for e, s, p, d, k in sizes]
        if any(not low <= w < low + s for w, low, s in zip(wanted, least, self.stride, strict=True)):
            raise OptionInvalid(
                f"requested an output size of {list(wanted)}, but the minimum is {least}",
                where=source.where(),
                hint="Pass an output size between the minimum and the minimum plus the stride.",
            )
        return tuple(w - low for w, low in zip(wanted, least, strict=True))


class ConvTranspose1d(_ConvTransposeNd):
    """A transposed 1-D convolution: [N, in_channels, L] -> [N, out_channels, L'].

    L' = (L - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1. `weight` is [in_channels,
    out_channels / groups, kernel_size].

    >>> import lazytensor as lt
    >>> lt.nn.ConvTranspose1d(4, 3, 2, stride=2)(lt.ones(1, 4, 8)).shape
    lazytensor.Size([1, 3, 16])
    """

    rank = 1


class ConvTranspose2d(_ConvTransposeNd):
    """A transposed 2-D convolution: [N, in_channels, H, W] -> [N, out_channels, H', W'].

    H' = (H - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1, and W' likewise. `weight`
    is [in_channels, out_channels / groups, kh, kw].

    >>> import lazytensor as lt
    >>> lt.nn.ConvTranspose2d(4, 3, 2, stride=2)(lt.ones(1, 4, 8, 8)).shape
    lazytensor.Size([1, 3, 16, 16])
    """

    rank = 2


class ConvTranspose3d(_ConvTransposeNd):
    """A transposed 3-D convolution: [N, in_channels, D, H, W] -> [N, out_channels, D', H', W'].

    D' = (D - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1; H' and W' likewise.
    `weight` is [in_channels, out_channels / groups, kd, kh, kw].

    >>> import lazytensor as lt
    >>> lt.nn.ConvTranspose3d(2, 3, 2)(lt.ones(1, 2, 2, 2, 2)).shape
    lazytensor.Size([1, 3, 3, 3, 3])
    """

    rank = 3
