"""Points for TensorBoard's projector: tables beside the event file, and a list of them that the projector reads."""

import math
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from cstorch_compat.summaries.png import encode_png_image, to_pixels

CONFIG_FILE = "projector_config.pbtxt"
"""Where the projector looks for what there is."""


def write_points(
    folder: pathlib.Path,
    place: str,
    tag: str,
    points: np.ndarray,
    labels: tuple[Sequence[Any] | None, Sequence[str] | None],
    pictures: np.ndarray | None,
) -> None:
    """Write points, [rows, dimensions], below `folder`, with labels, their header, and pictures, NCHW.

    Raises ValueError if labels or pictures are not as many as the points.
    """
    metadata, header = labels
    for what, rows in (("labels", metadata), ("images", pictures)):
        if rows is not None and len(rows) != len(points):
            raise ValueError(f"#{what} should equal with #data points")
    own = folder / place
    # The name that the projector shows ends with the step, so that points of several steps can be told apart.
    own.mkdir(parents=True, exist_ok=True)
    lines = [f'tensor_name: "{_escape_text(tag)}:{place[:5]}"', f'tensor_path: "{_escape_text(place)}/tensors.tsv"']
    _write_table(own / "tensors.tsv", [row.tolist() for row in points])
    if metadata is not None:
        # A header only where there are several columns: of one column the projector takes each line for a label.
        rows = [list(row) if header else [row] for row in metadata]
        _write_table(own / "metadata.tsv", [list(header), *rows] if header else rows)
        lines.append(f'metadata_path: "{_escape_text(place)}/metadata.tsv"')
    if pictures is not None:
        (own / "sprite.png").write_bytes(_make_sprite(pictures))
        sides = f"single_image_dim: {pictures.shape[3]}\nsingle_image_dim: {pictures.shape[2]}"
        lines.append(f'sprite {{\nimage_path: "{_escape_text(place)}/sprite.png"\n{sides}\n}}')
    # Added to: points of other steps and tags stand there already.
    with (folder / CONFIG_FILE).open("a", encoding="utf-8") as file:
        file.write("embeddings {\n" + "\n".join(lines) + "\n}\n")


def _write_table(path: pathlib.Path, rows: Sequence[Sequence[Any]]) -> None:
    # A tab or an end of line in a label would begin another.
    cells = ["\t".join(str(v).replace("\t", " ").replace("\n", " ") for v in row) for row in rows]
    path.write_text("\n".join(cells) + "\n", encoding="utf-8")


def _escape_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _make_sprite(pictures: np.ndarray) -> bytes:
    """All pictures in a square, as many in a row as in a column."""
    # The projector finds a picture by its number, in rows of a square.
    side = math.ceil(math.sqrt(len(pictures)))
    each = [to_pixels(p, "CHW") for p in pictures]
    each += [np.zeros_like(each[0])] * (side * side - len(each))
    return encode_png_image(
        np.concatenate([np.concatenate(each[r * side : (r + 1) * side], 1) for r in range(side)], 0)
    )
