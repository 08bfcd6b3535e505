"""Convolution and its adjoint: sums of shifted images times weights, in register tiles.

An image is stored with its padding, so that a tap of the window is a shift of the whole image. A run of neighbouring
results, across rows, is the product of a panel of weights with shifted runs. The values that a run computes between
rows are never read. A stride splits the image into phases, within which a tap is a shift again. The adjoint of a
strided convolution is several convolutions (problems), one for each phase of its result.
"""

from typing import Any

from lazytensor.kernels.convolution_geometry import (
    ALL_TAPS,
    BAND,
    BANDS,
    BOX,
    CHANNELS,
    CHUNKS,
    EXTENTS,
    GROUPS,
    GROUPS_EACH,
    IMAGE,
    IMAGES,
    IMAGES_EACH,
    OFFSETS,
    OUT_EXTENTS,
    OUT_STEPS,
    PROBLEM_LIST,
    PROBLEMS,
    RESULTS,
    RESULTS_EACH,
    TAPS,
    WEIGHT_CHANNEL,
    WEIGHT_GROUP,
    WEIGHT_RESULT,
)
from lazytensor.runtime.compiled_kernels.image_layout import gather
from lazytensor.runtime.language import inline, typed
from lazytensor.runtime.panels import LANES, ROWS, VECTORS, address, copied, products, products_narrow

TILE = LANES * VECTORS


@inline
def _pack(g: Any, w: Any, out: Any) -> None:
    """Pack the weights into panels: for each group, problem and block of ROWS result channels, ROWS weights
    per term.

    A problem is a set of taps that computes some of the results, and a term is one input channel and tap. Weights of
    missing channels of the last block are zeros. `g` is the geometry, and `out` gets the panels.
    """
    to = 0
    for group in range(g[GROUPS]):
        for j in range(g[PROBLEMS]):
            problem = g[PROBLEM_LIST] + 8 * j
            for block in range(0, g[RESULTS], ROWS):
                for c in range(g[CHANNELS]):
                    for t in range(g[problem], g[problem + 1]):
                        at = group * g[WEIGHT_GROUP] + block * g[WEIGHT_RESULT] + c * g[WEIGHT_CHANNEL] + g[g[TAPS] + t]
                        for r in range(ROWS):
                            out[to] = w[at + r * g[WEIGHT_RESULT]] if block + r < g[RESULTS] else 0
                            to += 1


@inline
def _scatter(own: Any, at: int, pitch: int, y: Any, to: int, g: Any, problem: int, first: int, channels: int) -> None:
    """Copy the results of the tiles, from own[at] on, into y.

    Result channels are `pitch` elements apart in `own`. A problem is a set of taps that computes some of the results;
    `problem` is the index of its row of numbers in the geometry `g`. `first` is the first row of the band, and `to` the
    index in y of the first of `channels` channels.
    """
    e1, e2, step = g[OUT_EXTENTS + 1], g[OUT_EXTENTS + 2], g[OUT_STEPS + 2]
    length = g[problem + 7]
    for m in range(channels):
        for o0 in range(first, min(first + g[BAND], g[problem + 5])):
            for o1 in range(g[problem + 6]):
                i0 = m * g[OUT_EXTENTS] + g[problem + 2] + o0 * g[OUT_STEPS]
                row = to + (i0 * e1 + g[problem + 3] + o1 * g[OUT_STEPS + 1]) * e2 + g[problem + 4]
                source = at + m * pitch + ((o0 - first) * g[BOX + 1] + o1) * g[BOX + 2]
                if step == 1:
                    copied(address(own) + 4 * source, address(y) + 4 * row, length)
                else:
                    for k in range(length):
                        y[row + k * step] = own[source + k]


@inline
def _run(panel: int, g: Any, problem: int, own: int, wide: int, pitch: int, length: int, channels: int) -> None:
    """Compute `length` neighbouring results of `channels` channels, one column of tiles after the other.

    `panel` (the packed weights), `own` (the image) and `wide` (the results) are addresses. Result channels are `pitch`
    elements apart. Whole tiles are written, so up to TILE - 1 elements after the results are overwritten.
    """
    count = (g[problem + 1] - g[problem]) * g[CHANNELS]
    offsets = address(g) + 8 * (g[OFFSETS] + g[problem] * g[CHANNELS])
    q = 0
    while q < length:
        # This run of the image stays in the first-level cache while all weight panels are read.
        is_wide = length - q > LANES
        for m in range(0, channels, ROWS):
            a, b, c = panel + 4 * m * count, own + 4 * q, wide + 4 * (m * pitch + q)
            if is_wide:
                products(a, offsets, count, b, c, pitch)
            else:
                products_narrow(a, offsets, count, b, c, pitch)
        q += TILE if is_wide else LANES


@inline
def _band(g: Any, panels: Any, own: Any, image: int, group: int, m0: int, m1: int, first: int, y: Any) -> None:
    """Compute one band of rows of one image, into y, for result channels m0 to m1 - 1 of a group.

    All problems (sets of taps, each for some of the results) read the padded image at the start of `own`; their results
    follow it there. `panels` are the packed weights, and `first` is the first row of the band.
    """
    b1, b2 = g[BOX + 1], g[BOX + 2]
    blocks = (g[RESULTS] + ROWS - 1) // ROWS * ROWS * g[CHANNELS]
    pitch = g[BAND] * b1 * b2 + TILE
    to = ((image * g[GROUPS] + group) * g[RESULTS] + m0) * g[OUT_EXTENTS] * g[OUT_EXTENTS + 1] * g[OUT_EXTENTS + 2]
    for j in range(g[PROBLEMS]):
        problem = g[PROBLEM_LIST] + 8 * j
        rows = min(g[BAND], g[problem + 5] - first)
        if rows > 0:
            length = ((rows - 1) * b1 + g[problem + 6] - 1) * b2 + g[problem + 7]
            taps = g[problem + 1] - g[problem]
            place = blocks * (group * g[ALL_TAPS] + g[problem]) + m0 * taps * g[CHANNELS]
            panel, wide = address(panels) + 4 * place, address(own) + 4 * g[IMAGE]
            _run(panel, g, problem, address(own), wide, pitch, length, m1 - m0)
            _scatter(own, g[IMAGE], pitch, y, to, g, problem, first, m1 - m0)


@typed("void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, x: Any, w: Any, y: Any) -> None:
    """Compute the convolution y of x with the weights w.

    Phase 0 packs the weights into `shared`. A part of phase 1 is some images, a band of rows and some channels, and
    uses the scratch buffer `own`.

    The geometry `g` is described in `kernels.convolution_geometry`.
    """
    if phase == 0:
        _pack(g, w, shared)
        return
    chunk, rest = part % g[CHUNKS], part // g[CHUNKS]
    band, batch = rest % g[BANDS], rest // g[BANDS]
    groups = g[GROUPS_EACH]
    m0 = chunk * g[RESULTS_EACH] if g[GROUPS] == 1 else 0
    m1 = min(m0 + g[RESULTS_EACH], g[RESULTS])
    first_group = 0 if g[GROUPS] == 1 else chunk * groups
    size = g[EXTENTS] * g[EXTENTS + 1] * g[EXTENTS + 2] * g[CHANNELS]
    for image in range(batch * g[IMAGES_EACH], min((batch + 1) * g[IMAGES_EACH], g[IMAGES])):
        for group in range(first_group, min(first_group + groups, g[GROUPS])):
            at = (image * g[GROUPS] + group) * size
            skip = band * g[BAND]
            gather(x, at, g, skip, own, 0)
            _band(g, shared, own, image, group, m0, m1, skip, y)
