"""Pictures for notebooks, as HTML that needs nothing beside it: numbers as colours, and graphs as boxes and lines."""

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

MOST_PIXELS = 128
"""Rows and columns of a picture of numbers; of more, each so many-th is shown."""
WIDE, HIGH, GAP_X, GAP_Y = 116, 30, 10, 22
_MIDDLE = 128
_COLD, _WHITE, _WARM = np.array([42, 94, 154]), np.array([255, 255, 255]), np.array([188, 75, 81])


def heat_map(values: np.ndarray) -> str:
    """An image of a matrix: white is zero, blue below, red above, as strong as the largest; grey is no number."""
    rows, columns = (max(1, -(-extent // MOST_PIXELS)) for extent in values.shape)
    shown = values[::rows, ::columns].astype(np.float64)
    finite = np.isfinite(shown)
    most = np.abs(shown[finite]).max(initial=0.0) or 1.0
    # Number 0 of the palette is for what is no number.
    scaled = np.rint(np.where(finite, shown, 0) / most * (_MIDDLE - 1)) + _MIDDLE
    data = base64.b64encode(_png(np.where(finite, scaled, 0).astype(np.uint8))).decode()
    side = max(shown.shape)
    zoom = max(1, 240 // side)
    size = f"width:{shown.shape[1] * zoom}px;height:{shown.shape[0] * zoom}px;image-rendering:pixelated"
    return f'<img alt="values as colours" src="data:image/png;base64,{data}" style="{size};border:1px solid #888"/>'


def _png(pixels: np.ndarray) -> bytes:
    """A picture of palette numbers as a PNG file."""
    height, width = pixels.shape
    shares = np.linspace(0, 1, _MIDDLE)[:, None]
    palette = np.concatenate([_COLD + (_WHITE - _COLD) * shares, _WHITE + (_WARM - _WHITE) * shares])
    palette[0] = 128
    # Each row begins with the number of its filter, 0 for none.
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
    """A box of a drawing: two lines, what a pointer over it shows, a colour, and the boxes that it comes from."""

    title: str
    below: str
    hover: str
    fill: str
    inputs: tuple[int, ...]


def layers(boxes: Sequence[Box]) -> str:
    """Boxes from top to bottom, each below all that it comes from, with lines between them, as SVG.

    Boxes are given inputs first.
    """
    depth: list[int] = []
    for box in boxes:
        depth.append(1 + max((depth[i] for i in box.inputs), default=-1))
    column = [depth[:n].count(d) for n, d in enumerate(depth)]
    at = [(c * (WIDE + GAP_X) + 2, d * (HIGH + GAP_Y) + 2) for c, d in zip(column, depth, strict=True)]
    width, height = (max((a[k] for a in at), default=0) for k in (0, 1))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + WIDE + 4} {height + HIGH + 4}" '
        f'width="{min(900, width + WIDE + 4)}" font-family="sans-serif" font-size="10" text-anchor="middle">'
    ]
    for box, (x, y) in zip(boxes, at, strict=True):
        for i in box.inputs:
            ends = f'x1="{at[i][0] + WIDE // 2}" y1="{at[i][1] + HIGH}" x2="{x + WIDE // 2}" y2="{y}"'
            lines.append(f'<line {ends} stroke="#888"/>')
    for box, (x, y) in zip(boxes, at, strict=True):
        middle = x + WIDE // 2
        lines.append(
            f"<g><title>{escape(box.hover)}</title>"
            f'<rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="4" fill="{box.fill}" stroke="#666"/>'
            f'<text x="{middle}" y="{y + 12}" font-weight="bold" fill="#111">{escape(_short(box.title))}</text>'
            f'<text x="{middle}" y="{y + 24}" fill="#333">{escape(_short(box.below))}</text></g>'
        )
    return "".join([*lines, "</svg>"])


def _short(text: str) -> str:
    return text if len(text) <= 20 else text[:17] + "..."
