"""Pooling as routines: indices of maxima, gather and scatter-add at indices, and sums over windows and their
gradient.
"""

import math

import numpy as np

from lazytensor.core.dtype import float32
from lazytensor.ir.types import Type
from lazytensor.kernels.kernel import Attrs
from lazytensor.kernels.routine import Routine

PART_ELEMENTS = 1 << 15  # minimum taps or elements per part that are worth waking a thread for
LEAST_ELEMENTS = 1 << 13  # minimum taps or elements for a routine; smaller operations run in NumPy
MOST_PARTS = 32
BAD_PLACE = "found an invalid max index: the indices are 0 to {}"


def _three(values: tuple[int, ...], alone: int) -> tuple[int, ...]:
    return (alone,) * (3 - len(values)) + values


def _each(rows: int, elements: int) -> int:
    """Return the number of rows per part, if a row has `elements` elements.

    There are at most MOST_PARTS parts, and one for each PART_ELEMENTS elements.
    """
    parts = max(1, min(rows * elements // PART_ELEMENTS, MOST_PARTS, rows))
    return -(-rows // parts)


def _windows(extents: tuple[int, ...], windows: tuple[int, ...], attrs: Attrs) -> tuple[tuple[int, ...], ...]:
    """Return extents, number of windows, kernel size, stride and leading padding, each padded to three dimensions."""
    before = tuple(low for low, _ in attrs["padding"])
    alone = (_three(extents, 1), _three(windows, 1), _three(attrs["kernel"], 1), _three(attrs["stride"], 1))
    return (*alone, _three(before, 0))


def window_argmax(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `window_argmax` (x -> flat indices in the image).

    Return None if x is not float32 or a tensor is empty, if there is little work, or if windows have more than three
    dimensions.
    """
    (x,), kernel = ins, attrs["kernel"]
    if x.dtype.host != float32.host or not outs[0].size or not x.size or len(kernel) > 3:
        return None
    lead = len(x.shape) - len(kernel)
    if outs[0].size * math.prod(kernel) < LEAST_ELEMENTS:
        return None
    images, out = math.prod(x.shape[:lead]), outs[0].shape[lead:]
    each = _each(images, math.prod(out) * math.prod(kernel))
    rows = (*_windows(x.shape[lead:], out, attrs), _three(attrs["dilation"], 1))
    geometry = np.array([images, each, *(v for row in rows for v in row)], np.int64)
    return Routine(module="max_pool_indices", geometry=geometry, parts=(-(-images // each),), is_special=True)


def _totals(image: Type, windows: Type, attrs: Attrs, spreads: bool) -> Routine | None:
    """Return the routine of window sums, or of their gradient if `spreads`.

    `image` and `windows` are the types of image and sums. Return None unless the image is float32, not empty and has at
    most three window dimensions, and for little work.
    """
    taps, rank = math.prod(attrs["kernel"]), len(attrs["kernel"])
    if image.dtype.host != float32.host or rank > 3 or not image.size or windows.size * taps < LEAST_ELEMENTS:
        return None
    lead = len(image.shape) - rank
    images, out = math.prod(image.shape[:lead]), windows.shape[lead:]
    each = _each(images, math.prod(out) * taps)
    rows = _windows(image.shape[lead:], out, attrs)
    geometry = np.array([images, each, *(v for row in rows for v in row), spreads], np.int64)
    return Routine(module="window_sums", geometry=geometry, parts=(-(-images // each),), is_special=True)


def window_sum(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `window_sum` (x -> sums of the windows), or None."""
    return _totals(ins[0], outs[0], attrs, spreads=False)


def window_spread(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `window_spread` (gradient of the sums -> gradient of x), or None."""
    return _totals(outs[0], ins[0], attrs, spreads=True)


def _by_rows(module: str, values: Type, places: Type, extent: int) -> Routine | None:
    """Return the routine `module`, which reads or adds at indices within rows of `extent` elements.

    Return None unless `values` are float32 and nothing is empty, and for little work. Running it raises ShapeError for
    an index out of range.
    """
    if values.dtype.host != float32.host or not places.size or not extent:
        return None
    rows, count = math.prod(places.shape[:-1]), places.shape[-1]
    if rows * (extent + count) < LEAST_ELEMENTS:
        return None
    each = _each(rows, extent + count)
    geometry = np.array([rows, each, extent, count], np.int64)
    return Routine(
        module=module,
        geometry=geometry,
        parts=(-(-rows // each),),
        refusal=BAD_PLACE.format(extent - 1),
        is_special=True,
    )


def at_places(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `at_places` (x, indices -> elements of x), or None."""
    return _by_rows("read_at_indices", ins[0], ins[1], ins[0].shape[-1])


def put_places(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `put_places` (gradient, indices -> x) if it accumulates, else None."""
    return _by_rows("add_at_indices", ins[0], ins[1], attrs["extent"]) if attrs["accumulate"] else None
