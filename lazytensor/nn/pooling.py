"""Pooling, padding and resampling as modules. Each calls one function of `nn.functional`."""

from typing import Any

from lazytensor.core.tensor import Tensor
from lazytensor.docstrings import with_example
from lazytensor.functional import pooling
from lazytensor.functional.convolution import Extents, to_ntuple
from lazytensor.nn import functional as F
from lazytensor.nn.module import Module


class _MaxPool(Module):
    """A module that returns the maximum of each window. `stride` defaults to `kernel_size`."""

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
        """Return the maxima of `input` [N, C, ...] or [C, ...].

        With `return_indices`, also return their flat spatial indices.
        """
        function = getattr(F, f"max_pool{self.rank}d")
        # In PyTorch's functions ceil_mode precedes return_indices, in its modules it follows.
        return function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class _AvgPool(Module):
    """A module that returns the mean of each window. `stride` defaults to `kernel_size`."""

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
        """Return the means of `input` [N, C, ...] or [C, ...]."""
        # PyTorch's one-dimensional average has no `divisor_override`.
        more = {} if self.rank == 1 else {"divisor_override": self.divisor_override}
        function = getattr(F, f"avg_pool{self.rank}d")
        pooled: Tensor = function(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, **more
        )
        return pooled

    def extra_repr(self) -> str:
        values: tuple[Any, ...] = (self.kernel_size, self.stride, self.padding)
        if self.rank == 1:  # PyTorch prints tuples here
            values = tuple((v,) if isinstance(v, int) else v for v in values)
        return f"kernel_size={values[0]}, stride={values[1]}, padding={values[2]}"


class _AdaptivePool(Module):
    """A module that pools regions covering the input to the spatial shape `output_size`; None keeps an extent."""

    name = ""

    def __init__(self, output_size: pooling.OutputSize):
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Any:
        """Return the pooled `input` [N, C, ...] or [C, ...]."""
        return getattr(F, self.name)(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveMaxPool(_AdaptivePool):
    """A module that returns the maxima of regions, and with `return_indices` their flat indices too."""

    def __init__(self, output_size: pooling.OutputSize, return_indices: bool = False):
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """Return the pooled `input` [N, C, ...] or [C, ...].

        With `return_indices`, also return the flat indices of the maxima.
        """
        return getattr(F, self.name)(input, self.output_size, return_indices=self.return_indices)


class _MaxUnpool(Module):
    """A module that puts maxima back at the indices that max pooling returned, with zeros elsewhere."""

    rank = 0

    def __init__(self, kernel_size: Extents, stride: Extents | None = None, padding: Extents = 0):
        super().__init__()
        rank = self.rank
        self.kernel_size = to_ntuple(kernel_size, rank, "kernel_size")
        self.stride = to_ntuple(stride, rank, "stride") if stride is not None else self.kernel_size
        self.padding = to_ntuple(padding, rank, "padding")

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """Return zeros with the elements of `input` at the flat positions `indices`.

        `output_size` selects the spatial shape if the stride allows several.
        """
        function = getattr(F, f"max_unpool{self.rank}d")
        spread: Tensor = function(input, indices, self.kernel_size, self.stride, self.padding, output_size)
        return spread

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _Pad(Module):
    """A module that pads the last dimensions by one number, or by pairs (before, after), the last dimension first."""

    rank, mode = 0, ""

    def __init__(self, padding: int | tuple[int, ...]):
        super().__init__()
        # Pairs for the last dimension first, as in `F.pad`.
        self.padding = (padding,) * 2 * self.rank if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` [N, C, ...] or [C, ...] padded."""
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """A module that pads the last dimensions with `value`, by one number or by pairs, the last dimension first."""

    mode = "constant"

    def __init__(self, padding: int | tuple[int, ...], value: float):
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` [N, C, ...] or [C, ...] padded with `value`."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    """A module that pads the last dimensions with zeros, by one number or by pairs, the last dimension first."""

    def __init__(self, padding: int | tuple[int, ...]):
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


_SHAPES = "[N, C, {dims}] or [C, {dims}]"
_MAX_POOL_TEXT = (
    f"A module that returns the maximum of each window of its input {_SHAPES}.\n\n"
    "It calls `F.max_pool{rank}d`. `kernel_size`, `stride`, `padding` and `dilation` are numbers, or have one number\n"
    "for each spatial dimension. `stride` defaults to `kernel_size`. Padding is never the maximum. If\n"
    "`return_indices` is true, the result is a pair: the maxima, and their indices in the flattened spatial\n"
    "dimensions. If `ceil_mode` is true, a last, partial window counts."
)
_AVG_POOL_TEXT = (
    f"A module that returns the mean of each window of its input {_SHAPES}.\n\n"
    "It calls `F.avg_pool{rank}d`. `kernel_size`, `stride` and `padding` are numbers, or have one number for each\n"
    "spatial dimension. `stride` defaults to `kernel_size`. The padding is zeros, which count as elements of the mean\n"
    "unless `count_include_pad` is false. If `ceil_mode` is true, a last, partial window counts. `divisor_override`\n"
    "replaces the number of elements as the divisor; AvgPool1d ignores it."
)
_MAX_UNPOOL_TEXT = (
    "A module that returns zeros with maxima at the indices that `MaxPool{rank}d` returned.\n\n"
    f"It is called with the maxima {_SHAPES}, their indices, and optionally `output_size`,\n"
    "the spatial shape of the result. By default, it follows from `kernel_size`, `stride` and `padding`, which are\n"
    "those of the pooling. They are numbers, or have one number for each spatial dimension. `stride` defaults to\n"
    "`kernel_size`."
)
_REGIONS_TEXT = (
    "`output_size` is the spatial shape of the result: one number for all dimensions, or one number for each. None\n"
    "keeps the extent of the input. Regions cover the input, and overlap if `output_size` does not divide the extent."
)
_ADAPTIVE_AVG_TEXT = f"A module that returns the mean of each region of its input {_SHAPES}.\n\n{_REGIONS_TEXT}"
_ADAPTIVE_MAX_TEXT = (
    f"A module that returns the maximum of each region of its input {_SHAPES}.\n\n{_REGIONS_TEXT}\n"
    "If `return_indices` is true, the result is a pair: the maxima, and their indices in the flattened spatial\n"
    "dimensions."
)
_PADDING_TEXT = (
    "`padding` is one number for both ends of every spatial dimension, or a flat tuple of pairs (before, after), the\n"
    "pair of the last dimension first."
)
_REFLECTION_TEXT = (
    f"A module that pads its input {_SHAPES} by reflection at the edge elements.\n\n"
    f"The edge elements are not repeated.\n{_PADDING_TEXT}"
)
_REPLICATION_TEXT = f"A module that pads its input {_SHAPES} with copies of its edge elements.\n\n{_PADDING_TEXT}"
_CIRCULAR_TEXT = f"A module that pads its input {_SHAPES} with elements from the opposite end.\n\n{_PADDING_TEXT}"
_CONSTANT_TEXT = f"A module that pads its input {_SHAPES} with the number `value`.\n\n{_PADDING_TEXT}"
_ZERO_TEXT = f"A module that pads its input {_SHAPES} with zeros.\n\n{_PADDING_TEXT}"


# The classes of the ranks differ in a number and a name only. Editors find them by the assignments below.
def _make_classes(
    parent: type[Module], stem: str, text: str, examples: tuple[str, ...], **facets: Any
) -> tuple[Any, ...]:
    """Return subclasses of `parent` for each spatial rank from 1, such as MaxPool1d, MaxPool2d and MaxPool3d.

    `stem` is the start of their names. `text` is their docstring, and `examples` has a doctest for each. `facets` are
    class attributes. In `text` and `facets`, "{rank}" is replaced by the rank; in `text`, "{dims}" is replaced by the
    spatial dimensions, such as "H, W".
    """
    classes = []
    for rank, example in enumerate(examples, 1):
        doc = with_example(text.format(rank=rank, dims=pooling.SPATIAL_DIMS[rank - 1]), example)
        own: dict[str, Any] = {"rank": rank, "__doc__": doc, "__module__": __name__}
        own |= {k: v.format(rank=rank) for k, v in facets.items()}
        classes.append(type(f"{stem}{rank}d", (parent,), own))
    return tuple(classes)


MaxPool1d, MaxPool2d, MaxPool3d = _make_classes(
    _MaxPool,
    "MaxPool",
    _MAX_POOL_TEXT,
    (
        ">>> lt.nn.MaxPool1d(2)(lt.tensor([[1.0, 3.0, 5.0, 7.0]]))\ntensor([[3., 7.]])",
        ">>> lt.nn.MaxPool2d(2)(lt.ones(1, 3, 8, 8)).shape\nlazytensor.Size([1, 3, 4, 4])",
        ">>> lt.nn.MaxPool3d(2)(lt.ones(1, 4, 4, 4)).shape\nlazytensor.Size([1, 2, 2, 2])",
    ),
)
AvgPool1d, AvgPool2d, AvgPool3d = _make_classes(
    _AvgPool,
    "AvgPool",
    _AVG_POOL_TEXT,
    (
        ">>> lt.nn.AvgPool1d(2)(lt.tensor([[1.0, 3.0, 5.0, 7.0]]))\ntensor([[2., 6.]])",
        ">>> lt.nn.AvgPool2d(2)(lt.ones(1, 3, 8, 8)).shape\nlazytensor.Size([1, 3, 4, 4])",
        ">>> lt.nn.AvgPool3d(2)(lt.ones(1, 4, 4, 4)).shape\nlazytensor.Size([1, 2, 2, 2])",
    ),
)
MaxUnpool1d, MaxUnpool2d, MaxUnpool3d = _make_classes(
    _MaxUnpool,
    "MaxUnpool",
    _MAX_UNPOOL_TEXT,
    (
        ">>> lt.nn.MaxUnpool1d(2)(lt.tensor([[5.0]]), lt.tensor([[1]]))\ntensor([[0., 5.]])",
        ">>> lt.nn.MaxUnpool2d(2)(lt.tensor([[[5.0]]]), lt.tensor([[[3]]]))\ntensor([[[0., 0.],\n         [0., 5.]]])",
        ">>> lt.nn.MaxUnpool3d((1, 1, 2))(lt.tensor([[[[5.0]]]]), lt.tensor([[[[1]]]]))\ntensor([[[[0., 5.]]]])",
    ),
)
AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d = _make_classes(
    _AdaptivePool,
    "AdaptiveAvgPool",
    _ADAPTIVE_AVG_TEXT,
    (
        ">>> lt.nn.AdaptiveAvgPool1d(2)(lt.tensor([[1.0, 3.0, 5.0, 7.0]]))\ntensor([[2., 6.]])",
        ">>> lt.nn.AdaptiveAvgPool2d(1)(lt.ones(1, 3, 8, 8)).shape\nlazytensor.Size([1, 3, 1, 1])",
        ">>> lt.nn.AdaptiveAvgPool3d(1)(lt.arange(8.0).reshape(1, 2, 2, 2))\ntensor([[[[3.5000]]]])",
    ),
    name="adaptive_avg_pool{rank}d",
)
AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = _make_classes(
    _AdaptiveMaxPool,
    "AdaptiveMaxPool",
    _ADAPTIVE_MAX_TEXT,
    (
        ">>> lt.nn.AdaptiveMaxPool1d(2)(lt.tensor([[1.0, 3.0, 2.0, 4.0]]))\ntensor([[3., 4.]])",
        ">>> lt.nn.AdaptiveMaxPool2d(1)(lt.ones(1, 3, 8, 8)).shape\nlazytensor.Size([1, 3, 1, 1])",
        ">>> lt.nn.AdaptiveMaxPool3d(1)(lt.arange(8.0).reshape(1, 2, 2, 2))\ntensor([[[[7.]]]])",
    ),
    name="adaptive_max_pool{rank}d",
)
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _make_classes(
    _Pad,
    "ReflectionPad",
    _REFLECTION_TEXT,
    (
        ">>> lt.nn.ReflectionPad1d(1)(lt.tensor([[1.0, 2.0, 3.0]]))\ntensor([[2., 1., 2., 3., 2.]])",
        ">>> lt.nn.ReflectionPad2d((1, 0, 0, 0))(lt.tensor([[[1.0, 2.0]]]))\ntensor([[[2., 1., 2.]]])",
        ">>> lt.nn.ReflectionPad3d((1, 0, 0, 0, 0, 0))(lt.tensor([[[[1.0, 2.0]]]]))\ntensor([[[[2., 1., 2.]]]])",
    ),
    mode="reflect",
)
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _make_classes(
    _Pad,
    "ReplicationPad",
    _REPLICATION_TEXT,
    (
        ">>> lt.nn.ReplicationPad1d(1)(lt.tensor([[1.0, 2.0]]))\ntensor([[1., 1., 2., 2.]])",
        ">>> lt.nn.ReplicationPad2d((1, 0, 0, 0))(lt.tensor([[[1.0, 2.0]]]))\ntensor([[[1., 1., 2.]]])",
        ">>> lt.nn.ReplicationPad3d((1, 0, 0, 0, 0, 0))(lt.tensor([[[[1.0, 2.0]]]]))\ntensor([[[[1., 1., 2.]]]])",
    ),
    mode="replicate",
)
CircularPad1d, CircularPad2d, CircularPad3d = _make_classes(
    _Pad,
    "CircularPad",
    _CIRCULAR_TEXT,
    (
        ">>> lt.nn.CircularPad1d(1)(lt.tensor([[1.0, 2.0, 3.0]]))\ntensor([[3., 1., 2., 3., 1.]])",
        ">>> lt.nn.CircularPad2d((1, 0, 0, 0))(lt.tensor([[[1.0, 2.0]]]))\ntensor([[[2., 1., 2.]]])",
        ">>> lt.nn.CircularPad3d((1, 0, 0, 0, 0, 0))(lt.tensor([[[[1.0, 2.0]]]]))\ntensor([[[[2., 1., 2.]]]])",
    ),
    mode="circular",
)
ConstantPad1d, ConstantPad2d, ConstantPad3d = _make_classes(
    _ConstantPad,
    "ConstantPad",
    _CONSTANT_TEXT,
    (
        ">>> lt.nn.ConstantPad1d(1, 9.0)(lt.tensor([[1.0, 2.0]]))\ntensor([[9., 1., 2., 9.]])",
        ">>> lt.nn.ConstantPad2d(1, 5.0)(lt.zeros(1, 1, 1))\n"
        "tensor([[[5., 5., 5.],\n         [5., 0., 5.],\n         [5., 5., 5.]]])",
        ">>> lt.nn.ConstantPad3d((1, 1, 0, 0, 0, 0), 5.0)(lt.zeros(1, 1, 1, 1))\ntensor([[[[5., 0., 5.]]]])",
    ),
)
ZeroPad1d, ZeroPad2d, ZeroPad3d = _make_classes(
    _ZeroPad,
    "ZeroPad",
    _ZERO_TEXT,
    (
        ">>> lt.nn.ZeroPad1d(1)(lt.tensor([[1.0, 2.0]]))\ntensor([[0., 1., 2., 0.]])",
        ">>> lt.nn.ZeroPad2d(1)(lt.ones(1, 2, 2)).shape\nlazytensor.Size([1, 4, 4])",
        ">>> lt.nn.ZeroPad3d((1, 1, 0, 0, 0, 0))(lt.ones(1, 1, 1, 1))\ntensor([[[[0., 1., 0.]]]])",
    ),
)


class PixelShuffle(Module):
    """A module that rearranges [..., C * r * r, H, W] to [..., C, H * r, W * r], where r is `upscale_factor`.

    >>> import lazytensor as lt
    >>> lt.nn.PixelShuffle(2)(lt.ones(1, 4, 2, 2)).shape
    lazytensor.Size([1, 1, 4, 4])
    """

    def __init__(self, upscale_factor: int):
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.pixel_shuffle` of `input`, which has at least three dimensions."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """A module that rearranges [..., C, H * r, W * r] to [..., C * r * r, H, W], where r is `downscale_factor`.

    >>> import lazytensor as lt
    >>> lt.nn.PixelUnshuffle(2)(lt.ones(1, 1, 4, 4)).shape
    lazytensor.Size([1, 4, 2, 2])
    """

    def __init__(self, downscale_factor: int):
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Return `F.pixel_unshuffle` of `input`, which has at least three dimensions."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """A module that interleaves the channels of all `groups`: channel k of group g moves to position k * groups + g.

    >>> import lazytensor as lt
    >>> lt.nn.ChannelShuffle(2)(lt.arange(4.0).reshape(1, 4, 1, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    def __init__(self, groups: int):
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` [N, C, ...] with its channels interleaved, in its shape."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class Upsample(Module):
    """A module that resamples to the spatial shape `size` or by `scale_factor`, as `F.interpolate`.

    >>> import lazytensor as lt
    >>> lt.nn.Upsample(scale_factor=2)(lt.tensor([[[1.0, 2.0]]]))
    tensor([[[1., 1., 2., 2.]]])
    """

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
        """Return `F.interpolate` of `input` [N, C, ...]."""
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        amount = f"scale_factor={self.scale_factor!r}" if self.scale_factor is not None else f"size={self.size!r}"
        return f"{amount}, mode={self.mode!r}"
