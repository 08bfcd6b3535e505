"""Self-contained HTML images for notebooks: heat maps of numbers, and drawings of graphs."""

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

MAX_IMAGE_PIXELS = 128
"""Maximum number of rows and columns of a heat map; larger matrices are subsampled."""
BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y = 116, 30, 10, 22
_ZERO_COLOUR = 128
_NEGATIVE_RGB, _ZERO_RGB, _POSITIVE_RGB = np.array([42, 94, 154]), np.array([255, 255, 255]), np.array([188, 75, 81])


def heat_map(values: np.ndarray) -> str:
    """Return an HTML image of a matrix: white is zero, blue negative, red positive, grey not finite.

    The colour is strongest at the largest absolute value. Of a matrix with more than MAX_IMAGE_PIXELS rows or columns,
    only every k-th one is shown. The matrix must not be empty.
    """
    rows, columns = (max(1, -(-extent // MAX_IMAGE_PIXELS)) for extent in values.shape)
    shown = values[::rows, ::columns].astype(np.float64)
    finite = np.isfinite(shown)
    most = np.abs(shown[finite]).max(initial=0.0) or 1.0
    # Palette index 0 is for values that are not finite.
    scaled = np.rint(np.where(finite, shown, 0) / most * (_ZERO_COLOUR - 1)) + _ZERO_COLOUR
    data = base64.b64encode(_png(np.where(finite, scaled, 0).astype(np.uint8))).decode()
    side = max(shown.shape)
    zoom = max(1, 240 // side)
    size = f"width:{shown.shape[1] * zoom}px;height:{shown.shape[0] * zoom}px;image-rendering:pixelated"
    return f'<img alt="values as colours" src="data:image/png;base64,{data}" style="{size};border:1px solid #888"/>'


def _png(pixels: np.ndarray) -> bytes:
    """Return a PNG file of an image of palette indices, given as uint8 with one row for each row of pixels.

    Index 0 is grey; the others go from blue through white (`_ZERO_COLOUR`) to red.
    """
    height, width = pixels.shape
    shares = np.linspace(0, 1, _ZERO_COLOUR)[:, None]
    palette = np.concatenate(
        [_NEGATIVE_RGB + (_ZERO_RGB - _NEGATIVE_RGB) * shares, _ZERO_RGB + (_POSITIVE_RGB - _ZERO_RGB) * shares]
    )
    palette[0] = 128
    # Each row of a PNG starts with its filter type, 0 for none.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels], axis=1)
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", head), (b"PLTE", palette.astype(np.uint8).tobytes()), (b"IDAT", zlib.compress(rows.tobytes())))
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in (*parts, (b"IEND", b""))
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


@dataclass(frozen=True)
class Box:
    """A box of a drawing: two lines of text, a tooltip, a colour, and the indices of the boxes that are its inputs."""

    title: str
    below: str
    hover: str
    fill: str
    inputs: tuple[int, ...]


def layered_boxes_svg(boxes: Sequence[Box]) -> str:
    """Return an SVG drawing of boxes, each below all of its inputs and connected to them by lines.

    `boxes` must be in topological order, inputs first. Long titles are shortened; the tooltip is `Box.hover`.
    """
    depth: list[int] = []
    for box in boxes:
        depth.append(1 + max((depth[i] for i in box.inputs), default=-1))
    column = [depth[:n].count(d) for n, d in enumerate(depth)]
    at = [(c * (BOX_WIDTH + GAP_X) + 2, d * (BOX_HEIGHT + GAP_Y) + 2) for c, d in zip(column, depth, strict=True)]
    width, height = (max((a[k] for a in at), default=0) for k in (0, 1))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + BOX_WIDTH + 4} {height + BOX_HEIGHT + 4}" '
        f'width="{min(900, width + BOX_WIDTH + 4)}" font-family="sans-serif" font-size="10" text-anchor="middle">'
    ]
    for box, (x, y) in zip(boxes, at, strict=True):
        for i in box.inputs:
            ends = f'x1="{at[i][0] + BOX_WIDTH // 2}" y1="{at[i][1] + BOX_HEIGHT}" x2="{x + BOX_WIDTH // 2}" y2="{y}"'
            lines.append(f'<line {ends} stroke="#888"/>')
    for box, (x, y) in zip(boxes, at, strict=True):
        middle = x + BOX_WIDTH // 2
        lines.append(
            f"<g><title>{escape(box.hover)}</title>"
            f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="4" fill="{box.fill}" stroke="#666"/>'
            f'<text x="{middle}" y="{y + 12}" font-weight="bold" fill="#111">{escape(_shorten(box.title))}</text>'
            f'<text x="{middle}" y="{y + 24}" fill="#333">{escape(_shorten(box.below))}</text></g>'
        )
    return "".join([*lines, "</svg>"])


def _shorten(text: str) -> str:
    return text if len(text) <= 20 else text[:17] + "..."
