"""Kernel calls of operations over windows: convolution with its gradients, and pooling."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lazytensor.errors import LazyError
from lazytensor.ir.program import Instr
from lazytensor.ir.types import Type
from wse_sim.kernels.elementwise.gather_scatter_calls import matrix, other_extents
from wse_sim.kernels.kernel import MeshKernel
from wse_sim.kernels.mesh_call import Arrays, Cores, MeshCall, attributes, operation, single
from wse_sim.kernels.windows.channel_convolution import (
    Images,
    channel_convolution,
    convolution_input_gradient,
    convolution_weight_gradient,
)
from wse_sim.kernels.windows.image_bands import cut
from wse_sim.kernels.windows.pooling import window_argmax, window_numbers, window_spread, window_sum
from wse_sim.kernels.windows.window import Pair, Window, image

_CONVOLUTIONS: Mapping[str, tuple[Callable[..., MeshKernel], str, str, str]] = {
    "conv": (channel_convolution, "x", "weights", "y"),
    "conv_input": (convolution_input_gradient, "g", "weights", "x"),
    "conv_weight": (convolution_weight_gradient, "x", "g", "weights"),
}
"""Operation -> (its kernel, the kernel's names of both operands, the name of its result)."""
# Dimension with the groups of channels: the first one of a weight, which is its outputs.
_GROUPED_AXIS = {"x": 1, "g": 1, "y": 1, "weights": 0}


def convolve(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """Return the `MeshCall` of a convolution or of one of its gradients, with a round for each group of channels.

    Images have one or two dimensions. Raises LazyError for more.
    """
    attrs, groups = attributes(instr), attributes(instr)["groups"]
    kernel_of, *names = _CONVOLUTIONS[operation(instr)]
    shapes = {name: read.shape for name, read in zip(names[:2], reads, strict=True)}
    shapes.setdefault("weights", (0, 0, *attrs.get("kernel", ())))
    window = Window.of(attrs, shapes["weights"][2:])
    if "x" in shapes:
        channels, extents = shapes["x"][1] // groups, shapes["x"][2:]
    else:
        channels, extents = shapes["weights"][1], attrs["extents"]
    outputs = shapes["g"][1] if "g" in shapes else shapes["weights"][0]
    images = Images(reads[0].shape[0], channels, outputs // groups, image(extents))
    kernel = kernel_of(cores.rect, images, window, reads[0].dtype.name)

    bands = cut(cores.rect.height, images.samples, images.extents, window)

    def give(arrays: Arrays, number: int) -> Mapping[str, np.ndarray]:
        operands = {name: _group(name, a, groups, number) for name, a in zip(names[:2], arrays, strict=True)}
        rows = {"x": bands.rows_in, "g": bands.rows_out}
        return {n: bands.lines_of(_planes(a), rows[n]) if n in rows else a for n, a in operands.items()}

    def take(results: Mapping[str, np.ndarray], writes: Arrays, number: int) -> None:
        part, result = _group(names[2], writes[0], groups, number), results[names[2]]
        if names[2] != "weights":
            result = bands.images_of(result, _planes(part).shape)
        part[...] = result.reshape(part.shape)

    return MeshCall(kernel, give, take, groups)


def _planes(images: np.ndarray) -> np.ndarray:
    """Return images of one or two dimensions as images of two dimensions."""
    return images.reshape(*images.shape[:2], *image(images.shape[2:]))


def _group(name: str, array: np.ndarray, groups: int, number: int) -> np.ndarray:
    """Return a view of the channels of group `number` of `groups`.

    For the array `name` "weights" these are output channels, along dimension 0, else they are along dimension 1.
    """
    axis = _GROUPED_AXIS[name]
    size = array.shape[axis] // groups
    return array[(*(slice(None),) * axis, slice(number * size, (number + 1) * size))]


def pool(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """Return the `MeshCall` of sums under windows over the last dimensions, as many as `kernel` has, or of their
    gradient.

    Raises LazyError for more than two such dimensions.
    """
    attrs, (x,) = attributes(instr), reads
    rank = len(attrs["kernel"])
    extents = attrs.get("extents", x.shape[-rank:])
    run = {"window_sum": window_sum, "window_spread": window_spread}[operation(instr)]
    window = Window.of(attrs, attrs["kernel"])
    kernel = run(cores.rect, *matrix(x.shape[:-rank]), image(extents), window, x.dtype.name)
    return single(kernel, lambda arrays: {kernel.operands[0].name: arrays[0]})


def find_largest(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """Return the `MeshCall` that finds the index of the first largest element under each window.

    The window is over the last dimensions, as many as the attribute `kernel` has. If the instruction writes a second
    array, it gets the elements themselves. The last NaN counts as the largest element, as in PyTorch's pooling. Raises
    LazyError for windows of more than two dimensions.
    """
    attrs, (x,) = attributes(instr), reads
    rank, window = len(attrs["kernel"]), Window.of(attrs, attrs["kernel"])
    return _largest(cores, x, x.shape[:-rank], image(x.shape[-rank:]), window)


def find_largest_along(instr: Instr, reads: Sequence[Type], cores: Cores) -> MeshCall:
    """Return the `MeshCall` that finds the index of the first largest element along the attribute `dim`.

    The first NaN counts as the largest element. Raises LazyError for the smallest element, and for more than `LONGEST`
    elements.
    """
    attrs, (x,) = attributes(instr), reads
    if attrs["kind"] != "max":
        what = "finding the index of the smallest element has no mesh kernel"
        raise LazyError(what, hint="Find the largest element of the negated tensor.")
    dim, extent = attrs["dim"], x.shape[attrs["dim"]]
    if extent > LONGEST:
        what = f"the largest of {extent:,} elements is searched, but a mesh kernel searches at most {LONGEST:,}"
        raise LazyError(what, hint="Split the dimension, and search the parts one by one.")
    # One window over all elements.
    return _largest(cores, x, other_extents(x.shape, dim), (1, extent), Window((1, extent)), dim, is_first_nan=True)


def _largest(
    cores: Cores,
    x: Type,
    lead: tuple[int, ...],
    extents: Pair,
    window: Window,
    dim: int = -1,
    is_first_nan: bool = False,
) -> MeshCall:
    kernel = window_argmax(cores.rect, *matrix(lead), extents, window, x.dtype.name, is_first_nan)
    numbers = window_numbers(extents, window)
    return single(kernel, lambda arrays: {"x": np.moveaxis(arrays[0], dim, -1), **numbers})


LONGEST = 1024
"""Maximum number of elements of a search for the largest, each of which takes several instructions."""
