"""Draw rectangles on a mesh as text (one letter for each rectangle) or as an SVG picture."""

from collections.abc import Sequence
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Protocol, TypeVar
from xml.sax.saxutils import escape

_LETTERS = ascii_uppercase + ascii_lowercase + digits
_EMPTY_CELL, _OVERFLOW_LETTER = ".", "*"
_FILL_COLOURS = ("#a9c4d6", "#f4c99b", "#b8d8b0", "#d9b3c9", "#cfc3e6", "#e8dd9c", "#9fd1cb", "#e3b5a4")

RectTuple = tuple[int, int, int, int]
"""A rectangle as (x, y, width, height), in PEs."""


class PlacedLayer(Protocol):
    """A protocol with the attributes of a layer that floor plans use."""

    @property
    def rect(self) -> RectTuple | None:
        """The rectangle of the layer's stage, or None if the layer is not on the mesh."""

    @property
    def cycles(self) -> int:
        """Cycles that the layer takes in one step."""


LayerT = TypeVar("LayerT", bound=PlacedLayer)


def group_by_rectangle(layers: Sequence[LayerT]) -> dict[RectTuple, list[LayerT]]:
    """Return a dict from each rectangle to its layers, the layer with the most cycles first.

    Layers without a rectangle are left out. Several layers share a rectangle if they belong to one stage. In
    weight-streaming mode all layers share one.
    """
    # Drawing a rectangle once for each layer would show the name of the last layer, which may have no work.
    groups: dict[RectTuple, list[LayerT]] = {}
    for layer in layers:
        if layer.rect:
            groups.setdefault(layer.rect, []).append(layer)
    return {rect: sorted(group, key=lambda layer: -layer.cycles) for rect, group in groups.items()}


def index_letter(n: int) -> str:
    """Return the letter that represents rectangle number `n`: A-Z, a-z, 0-9, and "*" for all further numbers."""
    return _LETTERS[n] if n < len(_LETTERS) else _OVERFLOW_LETTER


def draw_text(rects: Sequence[RectTuple], width: int, height: int, columns: int) -> tuple[list[str], str]:
    """Return a drawing of `rects` on a `width` x `height` mesh as lines of letters, and a sentence with its scale.

    A line has at most `columns` characters. A character covers about twice as many PEs in y as in x, because characters
    are taller than wide. If the mesh fits without scaling, each character is one PE. A character shows the rectangle
    that covers the most PEs of its cell, and "." if none does. Rectangle i is drawn as `index_letter(i)`.
    """
    wide = min(columns, width)
    high = height if wide == width else max(1, round(height * wide / width / 2))
    high = min(high, height)
    lines = ["".join(_cell_letter(rects, x, y, wide, high, width, height) for x in range(wide)) for y in range(high)]
    return lines, f"a character is {width / wide:.1f} x {height / high:.1f}"


def _cell_letter(rects: Sequence[RectTuple], x: int, y: int, wide: int, high: int, width: int, height: int) -> str:
    """Return the letter of the rectangle that covers the most of cell (x, y) in a grid of `wide` x `high` cells."""
    left, right = x * width // wide, (x + 1) * width // wide
    top, bottom = y * height // high, (y + 1) * height // high
    best, shown = 0, _EMPTY_CELL
    for n, (rx, ry, rw, rh) in enumerate(rects):
        shared = max(0, min(right, rx + rw) - max(left, rx)) * max(0, min(bottom, ry + rh) - max(top, ry))
        # On a tie the later rectangle wins: in weight-streaming mode all rectangles overlap.
        if shared and shared >= best:
            best, shown = shared, index_letter(n)
    return shown


def draw_svg(
    names: Sequence[str], rects: Sequence[RectTuple], edges: Sequence[tuple[int, int]], width: int, height: int
) -> str:
    """Return an SVG document with the rectangles `rects`, labelled with `names`, on a `width` x `height` mesh.

    `edges` are pairs of indices into `rects`. Each edge is a line between the centres of two rectangles. Raises
    ValueError if `names` and `rects` have different lengths.
    """
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1 -1 {width + 2} {height + 2}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="#f2f2f2" stroke="#808080"/>',
    ]
    for n, (name, (x, y, w, h)) in enumerate(zip(names, rects, strict=True)):
        # The font size makes a name fit its rectangle, with a minimum that stays legible for thin ones.
        size = max(1.0, min(w / max(1, len(name)), h / 1.5, height / 40))
        lines.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" fill="{_FILL_COLOURS[n % len(_FILL_COLOURS)]}" '
            f'stroke="white"/>'
            f'<text x="{x + w / 2}" y="{y + h / 2}" font-size="{size:.1f}" text-anchor="middle" '
            f'dominant-baseline="central">{escape(name)}</text>'
        )
    for a, b in edges:
        (x1, y1), (x2, y2) = ((r[0] + r[2] / 2, r[1] + r[3] / 2) for r in (rects[a], rects[b]))
        lines.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#bc4b51" stroke-opacity="0.6"/>')
    return "\n".join([*lines, "</svg>"]) + "\n"
