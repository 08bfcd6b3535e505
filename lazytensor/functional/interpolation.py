"""Resampling of images: interpolation to another size, and sampling at given coordinates."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lazytensor.core import source
from lazytensor.core.autocast import cast_to_float32, half_type
from lazytensor.core.dtype import uint8
from lazytensor.core.tensor import Tensor, from_array, operand_node
from lazytensor.errors import OptionInvalid, OptionMissing, ShapeError, TypeUnsupported
from lazytensor.functional.matmul import matmul
from lazytensor.functional.padding_and_shuffles import Tap, apply_taps
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from lazytensor.functional.type_promotion import require_elements
from lazytensor.functional.views import reshape, transpose
from lazytensor.ops import call
from lazytensor.ops.grid_sample import cubic_weights

MODES = ("nearest", "linear", "bilinear", "bicubic", "trilinear", "lanczos", "area", "nearest-exact")
"""PyTorch's modes of `interpolate`. "lanczos" is not provided."""
_SPATIAL_RANKS = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}
_AREA_POOLS = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Return `input` [N, C, ...] resampled to other spatial extents.

    - `size`, `scale_factor`: the new extents, or factors of the old ones (results are rounded down). Exactly one is
      given.
    - `mode`: "nearest", "nearest-exact", "linear" (1-D), "bilinear" or "bicubic" (2-D), "trilinear" (3-D), or "area".
    - `align_corners`: align the centres of the corner pixels; for the linear and cubic modes only.
    - `recompute_scale_factor`: use the ratio of the extents as the step between samples, not 1 / `scale_factor`.
    - `antialias`: not supported; raises OptionMissing if true.

    Raises OptionInvalid (a ValueError) for options that do not go together. Raises OptionMissing (a
    NotImplementedError) for a mode that does not fit the rank, and ShapeError for empty extents. Raises TypeUnsupported
    if `input` is neither floating-point nor uint8.

    >>> import lazytensor as lt
    >>> lt.nn.functional.interpolate(lt.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    rank = input.ndim - 2
    _check_mode(mode, rank, align_corners)
    if antialias:
        raise OptionMissing(
            "interpolate with antialias=True is not supported",
            where=source.where(),
            hint="Remove antialias, or smooth the input with avg_pool2d first.",
        )
    # The step between samples is 1 / factor if factors are given. The ratio of extents differs because of rounding;
    # `recompute_scale_factor` selects the ratio.
    outputs, factors = _output_extents(input.spec.shape[2:], size, scale_factor)
    # "area" is a mean over regions, which is adaptive average pooling.
    if mode == "area":
        return _AREA_POOLS[rank](
            tensor_of(cast_to_float32(operand_node(input))[0], input) if half_type() is not None else input, outputs
        )
    # Without factors the step is the ratio of extents.
    if recompute_scale_factor or factors is None:
        factors = (None,) * rank
    if input.dtype is not uint8:
        require_elements(input, "f", "interpolate")
    n = operand_node(input)
    # Dimensions are resampled one after another, since the weights of a grid are products.
    for dim, (out, factor) in enumerate(zip(outputs, factors, strict=True), 2):
        extent = input.spec.shape[dim]
        n = apply_taps(n, dim, _taps(mode, extent, out, 1 / factor if factor else None, bool(align_corners)))
    return tensor_of(n, input)


def _check_mode(mode: str, rank: int, align_corners: bool | None) -> None:
    """Raise OptionInvalid if `align_corners` does not apply to `mode`, OptionMissing if `mode` does not fit.

    `rank` is the number of spatial dimensions. A mode does not fit if it is unknown, is "lanczos", or needs another
    rank.
    """
    if mode == "lanczos":
        raise OptionMissing(
            "interpolate with mode='lanczos' is not supported", where=source.where(), hint='Use "bicubic".'
        )
    if mode not in MODES:
        raise OptionMissing(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {rank + 2}D) for the modes: "
            f"{' | '.join(MODES)} (got {mode})",
            where=source.where(),
            hint="Pass a tensor [N, C, ...] with 1 to 3 spatial dimensions, and a mode for them.",
        )
    if mode in ("nearest", "area", "nearest-exact") and align_corners is not None:
        raise OptionInvalid(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | "
            "trilinear"
            f", but got mode={mode!r}",
            where=source.where(),
            hint="Omit align_corners, or choose one of these modes.",
        )
    if rank not in (1, 2, 3) or _SPATIAL_RANKS.get(mode, rank) != rank:
        raise OptionMissing(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {rank + 2}D) for the modes: nearest | "
            f"linear | bilinear | bicubic | trilinear | area | nearest-exact (got {mode})",
            where=source.where(),
            hint="Choose the mode for the rank: linear, bilinear or trilinear.",
        )


def _output_extents(extents: tuple[int, ...], size: Any, scale_factor: Any) -> tuple[tuple[int, ...], Any]:
    """Return the output extents, and the scale factors if these were given, else None.

    Raises OptionInvalid unless exactly one of `size` and `scale_factor` is given, as one number or with a value per
    dimension. Raises ShapeError if an extent of input or output is not positive.
    """
    rank = len(extents)
    if (size is None) == (scale_factor is None):
        both = "only one of size or scale_factor should be defined" if size is not None else None
        raise OptionInvalid(
            both or "either size or scale_factor should be defined",
            where=source.where(),
            hint="Pass either size or scale_factor.",
        )
    given = size if size is not None else scale_factor
    if isinstance(given, int | float):
        given = (given,) * rank
    if len(given) != rank:
        raise OptionInvalid(
            f"Input and output must have the same number of spatial dimensions, got {list(given)}",
            where=source.where(),
            hint="Pass one number, or one for each spatial dimension.",
        )
    if size is not None:
        outputs, factors = tuple(int(v) for v in given), None
    else:
        factors = tuple(float(v) for v in given)
        outputs = tuple(math.floor(e * f) for e, f in zip(extents, factors, strict=True))
    if min(outputs) <= 0 or min(extents) <= 0:
        raise ShapeError(
            f"Input and output sizes should be greater than 0, but got input {list(extents)} output {list(outputs)}",
            where=source.where(),
            hint="Increase the size or the scale factor.",
        )
    return outputs, factors


def _taps(mode: str, extent: int, out: int, scale: float | None, align_corners: bool) -> list[Tap]:
    """Return the taps of an interpolation along one dimension, from `extent` to `out` elements.

    A tap is a pair: for each output element the index of an input element, and its weight. The output is the weighted
    sum over all taps: one for nearest modes, two for linear ones, four for "bicubic". `scale` is the step between
    samples in the input, or None for the ratio of the extents.
    """
    # PyTorch computes nearest positions in float32; more precision would sometimes select another neighbour.
    step = np.float32(extent / out if scale is None else scale)
    places = np.arange(out)
    if mode.startswith("nearest"):
        at = (places + np.float32(0.5 if mode == "nearest-exact" else 0)).astype(np.float32) * step
        return [(_clip_indices(np.floor(at), extent), np.ones(out))]
    if align_corners:
        # The first and last samples of both grids coincide.
        at = places * ((extent - 1) / (out - 1) if out > 1 else 0.0)
    else:
        # Pixel centres are aligned. Positions before the first centre use the first pixel, except in bicubic mode.
        at = (places + 0.5) * float(step) - 0.5
        at = at if mode == "bicubic" else np.maximum(at, 0)
    low = np.floor(at) if mode == "bicubic" else np.minimum(np.floor(at), extent - 1)
    t = at - low
    if mode == "bicubic":
        return [(_clip_indices(low + k, extent), w) for k, w in enumerate(cubic_weights(t), -1)]
    return [(_clip_indices(low, extent), 1 - t), (_clip_indices(low + 1, extent), t)]


def _clip_indices(at: np.ndarray, extent: int) -> tuple[int, ...]:
    return tuple(np.clip(at.astype(np.int64), 0, extent - 1).tolist())


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """Return `interpolate(input, size, scale_factor, mode, align_corners)`, under its deprecated name. Raises as it
    does.

    >>> import lazytensor as lt
    >>> lt.nn.functional.upsample(lt.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Return `input` [N, C, ...] resampled to `size` or by `scale_factor` with the nearest sample.

    Raises as `interpolate` does.

    >>> import lazytensor as lt
    >>> lt.nn.functional.upsample_nearest(lt.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Return images [N, C, H, W] resampled to `size` or by `scale_factor` bilinearly, with aligned corners.

    Raises as `interpolate` does.

    >>> import lazytensor as lt
    >>> lt.nn.functional.upsample_bilinear(lt.tensor([[[[0.0, 1.0]]]]), size=(1, 3))
    tensor([[[[0.0000, 0.5000, 1.0000]]]])
    """
    return interpolate(input, size, scale_factor, "bilinear", True)


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Return samples of `input` at the coordinates `grid`: [N, C, H', W'] or [N, C, D', H', W'].

    - `input`: [N, C, H, W] or [N, C, D, H, W].
    - `grid`: [N, H', W', 2] or [N, D', H', W', 3]. Coordinates are from -1 to 1, in the order x, y(, z): the last
      dimension of `input` first.
    - `mode`: "bilinear", "nearest" or, for images, "bicubic".
    - `padding_mode`: value outside the image: "zeros", "border" (the nearest pixel), or "reflection".
    - `align_corners`: whether -1 and 1 are the centres of the corner pixels or, if false or None, their outer edges.

    Raises OptionInvalid (a ValueError) for another mode, and ShapeError if the shapes do not fit.

    >>> import lazytensor as lt
    >>> lt.nn.functional.grid_sample(lt.ones(1, 1, 2, 2), lt.zeros(1, 3, 3, 2), align_corners=False).shape
    lazytensor.Size([1, 1, 3, 3])
    """
    rank = input.ndim - 2
    if mode not in ("bilinear", "nearest", "bicubic") or padding_mode not in ("zeros", "border", "reflection"):
        raise OptionInvalid(
            f"grid_sample does not support mode={mode!r} with padding_mode={padding_mode!r}",
            where=source.where(),
            hint='Use mode="bilinear", "nearest" or "bicubic", and padding_mode="zeros", "border" or "reflection".',
        )
    if rank not in (2, 3) or grid.ndim != input.ndim or grid.spec.shape[-1] != rank:
        raise ShapeError(
            f"grid_sampler(): expected a grid with size {rank} in last dimension for an input of shape "
            f"{list(input.shape)}, but got grid with sizes {list(grid.shape)}",
            where=source.where(),
            hint="Pass a grid with one coordinate for each spatial dimension.",
        )
    if mode == "bicubic" and rank != 2:
        raise ShapeError(
            f"grid_sampler(): bicubic interpolation only supports 4D input, but got {rank + 2}D",
            where=source.where(),
            hint='Use mode="bilinear" for 5D input.',
        )
    if input.dtype is not grid.dtype:
        raise TypeUnsupported(
            f"grid_sampler(): expected input and grid to have same dtype, but input has {input.dtype} and grid has "
            f"{grid.dtype}",
            where=source.where(),
            hint="Convert one of them, for example with grid.to(input.dtype).",
        )
    modes = {"mode": mode, "padding_mode": padding_mode, "align_corners": bool(align_corners)}
    return tensor_of(call("grid_sample", operand_node(input), operand_node(grid), **modes), input, grid)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Return a sampling grid for `grid_sample` from affine matrices: [N, H, W, 2] or [N, D, H, W, 3].

    `theta` is [N, 2, 3] or [N, 3, 4], and `size` the output size [N, C, H, W] or [N, C, D, H, W]. `align_corners` has
    the meaning of `grid_sample`. Raises ShapeError if `theta` has another shape.

    >>> import lazytensor as lt
    >>> lt.nn.functional.affine_grid(lt.eye(2, 3).unsqueeze(0), (1, 1, 2, 2), align_corners=True)[0, 0]
    tensor([[-1., -1.],
            [ 1., -1.]])
    """
    extents = tuple(size)[2:]
    rank = len(extents)
    if theta.ndim != 3 or theta.spec.shape[1:] != (rank, rank + 1):
        raise ShapeError(
            f"Expected a batch of {rank}x{rank + 1} matrices for theta, got {list(theta.shape)}",
            where=source.where(),
            hint="Pass theta of shape [N, 2, 3] or [N, 3, 4].",
        )
    # With aligned corners -1 and 1 are the centres of the outer pixels, else their outer edges.
    axes = [np.linspace(-1, 1, e) * (1 if align_corners else (e - 1) / e) if e > 1 else np.zeros(1) for e in extents]
    # A coordinate starts with the last dimension: x before y.
    mesh = np.meshgrid(*axes, indexing="ij")[::-1]
    base = np.stack([*mesh, np.ones(extents)], -1).reshape(-1, rank + 1)
    points = from_array(base.astype(theta.dtype.host), theta.dtype)
    out = matmul(points, transpose(theta, 1, 2))
    return reshape(out, (size[0], *extents, rank))


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Return `grid_sample(input, grid, ...)` with the modes given as numbers.

    `interpolation_mode` is 0 bilinear, 1 nearest or 2 bicubic; `padding_mode` is 0 zeros, 1 border or 2 reflection.
    Raises as `grid_sample` does.

    >>> import lazytensor as lt
    >>> corners = lt.tensor([[[[-1.0, -1.0], [0.0, 0.0]]]])
    >>> lt.grid_sampler_2d(lt.arange(4.0).reshape(1, 1, 2, 2), corners, 0, 0, True)
    tensor([[[[0.0000, 1.5000]]]])
    >>> lt.grid_sampler_3d(lt.arange(8.0).reshape(1, 1, 2, 2, 2), lt.zeros(1, 1, 1, 1, 3), 0, 0, True)
    tensor([[[[[3.5000]]]]])
    """
    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    return grid_sample(input, grid, modes[interpolation_mode], paddings[padding_mode], align_corners)


grid_sampler = grid_sampler_3d = grid_sampler_2d
