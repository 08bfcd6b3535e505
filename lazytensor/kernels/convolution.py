"""Convolution and its two gradients as routines: compute the geometry that the compiled kernels read.

All windows have three dimensions; missing ones have extent 1. The geometry consists of the phases of a stride, taps as
shifts, bands of rows that fit a cache, and parts for threads. The kernels are in `lazytensor.runtime.compiled_kernels`.
"""

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from lazytensor.core.dtype import float32
from lazytensor.ir.types import Type
from lazytensor.kernels.convolution_geometry import PLACES, SIZE
from lazytensor.kernels.depthwise import depthwise
from lazytensor.kernels.kernel import Attrs
from lazytensor.kernels.routine import DOTS, Routine

Dims = tuple[int, ...]

SLACK = 64  # elements that the widest tile may read past the end
BLOCK = 8  # rows of the highest tile: panels of weights are padded to a multiple of it
WIDEST = 16  # elements of the widest register
DOMAIN_ELEMENTS = 1 << 17  # target size of the transformed tiles (Winograd): half of a second-level cache
PIECE_CHANNELS = 128  # minimum channels per piece of a gradient: each piece repeats the transforms
LEAST_TILES = 32  # minimum tiles per part: with fewer, reading the weight dominates
IMAGE_ELEMENTS = 1 << 16  # maximum elements in a band of an image: 256 KiB, half of a second-level cache
LEAST_FLOPS = 200_000  # minimum flops for a routine: below this NumPy is as fast
PART_FLOPS = 4_000_000  # minimum flops per part: a smaller part takes less time than to wake a thread
MOST_PARTS = 64
MOST_SUMS = 8  # maximum number of partial sums of a weight gradient
ADDED = 16  # flops that an addition of partial sums counts for: it is bound by memory
SUM_ELEMENTS = 1 << 22  # maximum elements of all partial sums of a weight gradient


@dataclass(frozen=True)
class Window:
    """A convolution window in three dimensions.

    - `extents`: of the input image.
    - `kernel`: of the window.
    - `out`: extents of the result.
    - `stride`: of the window.
    - `low`: leading padding.
    - `dilation`: of the window.
    """

    extents: Dims
    kernel: Dims
    out: Dims
    stride: Dims
    low: Dims
    dilation: Dims

    @property
    def taps(self) -> list[Dims]:
        """Return the positions in the kernel, in the order of its weights."""
        return list(product(*map(range, self.kernel)))


@dataclass(frozen=True)
class Problem:
    """A set of taps that computes some of the results.

    `taps` holds (weight index, phase, shift) for each tap. `start` and `counts` are the first result and the number of
    results in each dimension.
    """

    taps: tuple[tuple[int, int, Dims], ...]
    start: Dims
    counts: Dims


@dataclass(frozen=True)
class Sum:
    """A kernel's computation: results from shifted phases of images.

    - `extents`: of the input images.
    - `steps`: between elements of a phase.
    - `starts`: the first element of each phase.
    - `out_extents`: of the results.
    - `out_steps`: between the results of a problem.
    - `problems`: sets of taps, each for some of the results.
    """

    extents: Dims
    steps: Dims
    starts: tuple[Dims, ...]
    out_extents: Dims
    out_steps: Dims
    problems: tuple[Problem, ...]

    def box(self, band: int) -> Dims:
        """Return the three extents of the part of a phase that `band` rows of results need."""
        reach = [max((s[d] for p in self.problems for _, _, s in p.taps), default=0) for d in range(3)]
        counts = [max(p.counts[d] for p in self.problems) for d in range(3)]
        return (band + reach[0], counts[1] + reach[1], counts[2] + reach[2])

    @property
    def rows(self) -> int:
        """Return the largest number of result rows of a problem."""
        return max(p.counts[0] for p in self.problems)


def window(extents: Dims, kernel: Dims, out: Dims, attrs: Attrs) -> Window | None:
    """Return the window in three dimensions, or None if it has more than three.

    `extents`, `kernel` and `out` are the spatial extents of input, window and result; `attrs` has stride, padding and
    dilation. Missing dimensions are inserted after the first one of two, and before a single one.
    """
    rank = len(kernel)
    if rank > 3:
        return None

    def wide(values: Dims, alone: int) -> Dims:
        # The first dimension is cut into bands, and the last one is contiguous: both should be long.
        return (alone, alone, *values) if rank == 1 else (values[0], *(alone,) * (3 - rank), *values[1:])

    return Window(
        extents=wide(extents, 1),
        kernel=wide(kernel, 1),
        out=wide(out, 1),
        stride=wide(attrs["stride"], 1),
        low=wide(tuple(low for low, _ in attrs["padding"]), 0),
        dilation=wide(attrs["dilation"], 1),
    )


def forward(w: Window) -> Sum:
    """Return the sum of a convolution: each result is one window over the image.

    A stride splits the image into phases, each with every `stride`-th element. There is one problem, with all taps.
    """
    places = [tuple(t * d for t, d in zip(tap, w.dilation, strict=True)) for tap in w.taps]
    phases = sorted({tuple(p % s for p, s in zip(place, w.stride, strict=True)) for place in places})
    taps = []
    for number, place in enumerate(places):
        phase = tuple(p % s for p, s in zip(place, w.stride, strict=True))
        taps.append((number, phases.index(phase), tuple(p // s for p, s in zip(place, w.stride, strict=True))))
    starts = tuple(tuple(p - low for p, low in zip(phase, w.low, strict=True)) for phase in phases)
    return Sum(
        extents=w.extents,
        steps=w.stride,
        starts=starts,
        out_extents=w.out,
        out_steps=(1, 1, 1),
        problems=(Problem(tuple(taps), (0, 0, 0), w.out),),
    )


def backward(w: Window) -> Sum:
    """Return the sum of the image's gradient: one problem for each phase of the stride, with the taps that contribute
    to it.

    A phase is every `stride`-th element from one start. Phases without elements are left out, and a phase without taps
    is a problem whose results are zeros.
    """
    shifts: list[tuple[Dims, Dims, list[tuple[int, Dims]]]] = []
    for phase in product(*map(range, w.stride)):
        start = tuple((r - low) % s for r, low, s in zip(phase, w.low, w.stride, strict=True))
        counts = tuple(-(-(e - a) // s) if e > a else 0 for e, a, s in zip(w.extents, start, w.stride, strict=True))
        if 0 in counts:
            continue
        taps = []
        for number, tap in enumerate(w.taps):
            # Element i is under a tap of window o if i + low = o * stride + tap * dilation.
            ways = [a + low - t * d for a, low, t, d in zip(start, w.low, tap, w.dilation, strict=True)]
            if all(way % s == 0 for way, s in zip(ways, w.stride, strict=True)):
                taps.append((number, tuple(way // s for way, s in zip(ways, w.stride, strict=True))))
        shifts.append((start, counts, taps))
    least = tuple(min((shift[d] for _, _, taps in shifts for _, shift in taps), default=0) for d in range(3))
    problems = tuple(
        Problem(tuple((n, 0, tuple(a - b for a, b in zip(s, least, strict=True))) for n, s in taps), start, counts)
        for start, counts, taps in shifts
    )
    return Sum(
        extents=w.out,
        steps=(1, 1, 1),
        starts=(least,),
        out_extents=w.extents,
        out_steps=w.stride,
        problems=problems,
    )


@dataclass(frozen=True)
class Channels:
    """Sizes and strides of the channels.

    - `images`: in the batch.
    - `groups`: of channels.
    - `channels`: input channels per group.
    - `results`: result channels per group.
    - `weight`: strides of the weight for group, result and channel; zeros for a weight gradient.
    """

    images: int
    groups: int
    channels: int
    results: int
    weight: Dims


def _band(sum: Sum, channels: int) -> int:
    """Return the number of result rows to compute at a time, so that their inputs stay in a cache.

    That is all rows if the image is small, and else at least as many as neighbouring bands share.
    """
    whole = sum.box(sum.rows)
    if len(sum.starts) * channels * math.prod(whole) <= IMAGE_ELEMENTS:
        return sum.rows
    row = len(sum.starts) * channels * math.prod(whole[1:])
    reach = whole[0] - sum.rows
    # A band has at least as many rows as the overlap with its neighbour, or most rows would be read twice.
    return min(sum.rows, max(IMAGE_ELEMENTS // row - reach, reach, 1))


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _filled(values: dict[str, Any], lists: dict[str, list[int]]) -> np.ndarray:
    """Return the geometry, an int64 array: numbers at their indices in PLACES, followed by the lists.

    The entry of a list is where it begins. These entries are added to `values`.
    """
    numbers = np.zeros(SIZE + sum(map(len, lists.values())), np.int64)
    at = SIZE
    for name, items in lists.items():
        values[name] = at
        numbers[at : at + len(items)] = items
        at += len(items)
    for name, value in values.items():
        place = PLACES[name]
        if isinstance(value, tuple):
            numbers[place : place + len(value)] = value
        else:
            numbers[place] = value
    return numbers


def _described(
    sum: Sum, c: Channels, band: int, together: int = 1
) -> tuple[dict[str, Any], dict[str, list[int]], Dims]:
    """Return (numbers, lists, box): the geometry that both kernels need, by name, and the extents of the box of one
    image.

    `band` is the number of result rows at a time. `together` images are laid out one after the other.
    """
    box = sum.box(band)
    size = together * math.prod(box)
    first = 0
    rows: list[int] = []
    offsets: list[int] = []
    pitch = len(sum.starts) * size
    for p in sum.problems:
        rows += [first, first + len(p.taps), *p.start, *p.counts]
        first += len(p.taps)
        shifts = [phase * size + (s[0] * box[1] + s[1]) * box[2] + s[2] for _, phase, s in p.taps]
        offsets += [channel * pitch + shift for channel in range(c.channels) for shift in shifts]
    values = {
        "images": c.images,
        "groups": c.groups,
        "channels": c.channels,
        "results": c.results,
        "extents": sum.extents,
        "steps": sum.steps,
        "phases": len(sum.starts),
        "box": box,
        "out_extents": sum.out_extents,
        "out_steps": sum.out_steps,
        "problems": len(sum.problems),
        "all_taps": first,
        "band": band,
        "bands": _ceil(sum.rows, band),
        "image": _ceil(c.channels * pitch + SLACK, 16) * 16,
        "together": together,
    }
    lists = {
        "starts": [a for start in sum.starts for a in start],
        "problem_list": rows,
        "taps": [number for p in sum.problems for number, _, _ in p.taps],
        "offsets": offsets,
    }
    return values, lists, box


def _parts(flops: int, most: int) -> int:
    return max(1, min(flops // PART_FLOPS, MOST_PARTS, most))


def _convolution(sum: Sum, c: Channels) -> Routine | None:
    """Return the routine of a sum with weights, or None if there are fewer than LEAST_FLOPS flops.

    Phase 0 packs the weights; a part of phase 1 computes some images, a band of rows and some channels.
    """
    band = _band(sum, c.channels)
    values, lists, box = _described(sum, c, band)
    taps = values["all_taps"]
    places = math.prod(sum.out_extents) // math.prod(sum.out_steps)
    flops = 2 * c.images * c.groups * c.results * c.channels * taps * places
    if flops < LEAST_FLOPS:
        return None
    parts = _parts(flops, c.images * values["bands"] * c.groups * _ceil(c.results, BLOCK))
    each = _ceil(c.images * values["bands"], parts)
    each = max(1, each // values["bands"])
    # Few images are also cut by channels; each part then copies the image separately.
    wanted = _ceil(parts, _ceil(c.images, each) * values["bands"])
    groups_each, results_each, chunks = c.groups, c.results, 1
    if c.groups > 1:
        groups_each = _ceil(c.groups, wanted)
        chunks = _ceil(c.groups, groups_each)
    elif wanted > 1:
        results_each = _ceil(_ceil(c.results, BLOCK), wanted) * BLOCK
        chunks = _ceil(c.results, results_each)
    values |= {
        "images_each": each,
        "groups_each": groups_each,
        "results_each": results_each,
        "chunks": chunks,
        "weight_group": c.weight[0],
        "weight_result": c.weight[1],
        "weight_channel": c.weight[2],
    }
    tiles = _ceil(min(results_each, c.results), BLOCK) * BLOCK * (band * box[1] * box[2] + SLACK) + SLACK
    panels = c.groups * _ceil(c.results, BLOCK) * BLOCK * c.channels * taps
    count = _ceil(c.images, each) * values["bands"] * chunks
    return Routine(
        module="convolution",
        geometry=_filled(values, lists),
        parts=(1, count),
        shared=panels,
        own=values["image"] + tiles,
    )


def _winograd(w: Window, c: Channels, extents: Dims, out: Dims, low: Dims, tap: int = 0) -> Routine | None:
    """Return the routine by Winograd's algorithm for 3 x 3 windows, or None if it does not apply or is not faster.

    It needs stride and dilation 1, one group, two spatial dimensions, and channels that are multiples of WIDEST.
    `extents`, `out` and `low` are the input's and the result's extents and the padding. `tap` is 8 for the adjoint,
    which reads the weight from its last tap. `c.weight` is all zeros for a weight gradient.
    """
    down, across = _ceil(out[0], 2), _ceil(out[2], 2)
    room = max(LEAST_TILES, DOMAIN_ELEMENTS // (16 * (c.channels + c.results)))
    is_plain = w.kernel == (3, 1, 3) and w.stride == w.dilation == (1, 1, 1) and c.groups == 1
    is_inside = all(a >= 0 and e + a <= n + 2 for e, a, n in zip(extents, low, out, strict=True))
    is_wide = not (c.channels % WIDEST or c.results % WIDEST) and across <= 2 * room
    is_small = 18 * c.images * c.channels * c.results * math.prod(out) < LEAST_FLOPS
    is_flat = extents[1] == out[1] == 1
    if not (is_plain and is_inside and is_wide and is_flat) or is_small or 5 * down * across > 2 * math.prod(out):
        return None
    rows, is_gradient = min(max(1, room // across), c.images * down), c.weight == (0, 0, 0)
    tiles, wide = _ceil(rows * across, BLOCK) * BLOCK, _ceil(c.results, 2 * WIDEST) * 2 * WIDEST
    domain = 16 * (c.channels * wide + 16)
    # At least two partial sums, even of the largest weights, or one thread would do all of the work.
    each = _ceil(c.images, min(MOST_SUMS, max(2, SUM_ELEMENTS // domain)))
    sums = is_gradient * _ceil(c.images, each)
    pieces = max(1, min(MOST_SUMS // max(sums, 1), c.channels // PIECE_CHANNELS)) if is_gradient else 1
    values: dict[str, Any] = {
        "images": c.images,
        "channels": c.channels,
        "results": c.results,
        "extents": extents,
        "out_extents": out,
        "low": low,
        "down": down,
        "across": across,
        "tiles": tiles,
        "band": rows,
        "rows_each": each * down if is_gradient else rows,
        "sums": sums,
        "weight_result": c.weight[1],
        "weight_channel": c.weight[2],
        "tap": tap,
        "pieces": pieces,
    }
    box = (2 * min(rows, down) + 2) * (2 * across + 2) * max(c.channels, c.results)
    planes = 16 * (tiles * (c.channels + 16 + wide) + 32)
    chunks = _ceil(c.channels, BLOCK)
    return Routine(
        module="winograd",
        geometry=_filled(values, {}),
        parts=(sums * pieces, chunks) if is_gradient else (chunks, _ceil(c.images * down, rows)),
        shared=max(sums, 1) * domain,
        own=max(box + planes + 2 * (2 * across + WIDEST) * c.results, 25 * wide),
    )


def _fits(*types: Type) -> bool:
    # The kernels compute in float32, in which half types are stored too.
    return all(t.dtype.host == float32.host and t.size for t in types)


def conv(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `conv` (input x, weight w -> y).

    Return None if a tensor is empty or is not computed in float32, for more than three spatial dimensions, and for
    little work.
    """
    (x, w), y = ins, outs[0]
    geometry = window(x.shape[2:], w.shape[2:], y.shape[2:], attrs) if _fits(x, w, y) else None
    if geometry is None:
        return None
    if (one_each := depthwise(attrs, x, y, w, is_adjoint=False)) is not None:
        return one_each
    groups, inner, taps = attrs["groups"], w.shape[1], len(geometry.taps)
    results = w.shape[0] // groups
    weight = (results * inner * taps, inner * taps, taps)
    c = Channels(x.shape[0], groups, inner, results, weight)
    return _winograd(geometry, c, geometry.extents, geometry.out, geometry.low) or _convolution(forward(geometry), c)


def conv_input(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `conv_input` (gradient of y, weight w -> gradient of x), or None as for `conv`."""
    (g, w), x = ins, outs[0]
    geometry = window(x.shape[2:], w.shape[2:], g.shape[2:], attrs) if _fits(g, w, x) else None
    if geometry is None:
        return None
    if (one_each := depthwise(attrs, x, g, w, is_adjoint=True)) is not None:
        return one_each
    groups, results, taps = attrs["groups"], w.shape[1], len(geometry.taps)
    inner = w.shape[0] // groups
    weight = (inner * results * taps, taps, results * taps)
    c = Channels(g.shape[0], groups, inner, results, weight)
    low = (2 - geometry.low[0], 0, 2 - geometry.low[2])
    return _winograd(geometry, c, geometry.out, geometry.extents, low, 8) or _convolution(backward(geometry), c)


def conv_weight(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `conv_weight` (input x, gradient of y -> gradient of w), or None as for `conv`.

    Groups of images give partial sums, which are added in order.
    """
    (x, g), w = ins, outs[0]
    geometry = window(x.shape[2:], w.shape[2:], g.shape[2:], attrs) if _fits(x, g, w) else None
    if geometry is None:
        return None
    groups, sum = attrs["groups"], forward(geometry)
    c = Channels(x.shape[0], groups, w.shape[1], w.shape[0] // groups, (0, 0, 0))
    if fast := _winograd(geometry, c, geometry.extents, geometry.out, geometry.low):
        return fast
    band = _band(sum, c.channels)
    columns = c.channels * len(geometry.taps)
    pitch = _ceil(columns, DOTS) * DOTS
    flops = 2 * g.size * columns
    if flops < LEAST_FLOPS:
        return None
    sums = min(c.images, MOST_SUMS, max(1, SUM_ELEMENTS // (w.size + pitch)))
    sums = min(sums, _parts(flops, c.images))
    each = _ceil(c.images, sums)
    sums = _ceil(c.images, each)
    values, lists, box = _described(sum, c, band, _together(sum, c, band, each))
    lists["offsets"] += lists["offsets"][-1:] * (pitch - columns)
    wanted = _ceil(min(MOST_SUMS, _parts(flops, MOST_SUMS)), sums)
    results_each = _ceil(_ceil(c.results, BLOCK), wanted) * BLOCK
    chunks = _ceil(c.results, results_each)
    rows_each = _ceil(groups * c.results, _parts(sums * w.size * ADDED, groups * c.results))
    values |= {"images_each": each, "results_each": results_each, "chunks": chunks, "sums": sums, "pitch": pitch}
    values["rows_each"] = rows_each
    reach = values["together"] * math.prod(box) + SLACK
    own = values["image"] + _ceil(min(results_each, c.results), BLOCK) * BLOCK * reach + SLACK
    count, height = sums * chunks, _ceil(c.results, BLOCK) * BLOCK
    return Routine(
        module="convolution_weight_gradient",
        geometry=_filled(values, lists),
        parts=(count, _ceil(groups * c.results, rows_each)),
        shared=sums * groups * height * pitch,
        own=own,
    )


def _together(sum: Sum, c: Channels, band: int, each: int) -> int:
    """Return the number of images to sum over at a time.

    Return 1 if `band`, the rows of results at a time, is less than all rows. Otherwise return the largest number of
    images whose inputs have at most IMAGE_ELEMENTS elements, or 1 if a single image has more. The number divides the
    `each` images of a part, and the images of the last part, which may have fewer.
    """
    if band < sum.rows:
        return 1
    most = IMAGE_ELEMENTS // (len(sum.starts) * c.channels * math.prod(sum.box(band)))
    # The last part may have fewer images than the others.
    common = math.gcd(each, c.images % each)
    return max(k for k in range(1, max(most, 1) + 1) if common % k == 0)
