"""Write points for TensorBoard's projector: tables next to the event file, and the configuration that lists them."""

import math
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from cstorch_compat.summaries.png import encode_png_image, to_pixels
from lazytensor.core import source
from lazytensor.errors import OptionInvalid

CONFIG_FILE = "projector_config.pbtxt"
"""The configuration file of the projector."""


def write_points(
    folder: pathlib.Path,
    place: str,
    tag: str,
    points: np.ndarray,
    labels: tuple[Sequence[Any] | None, Sequence[str] | None],
    pictures: np.ndarray | None,
) -> None:
    """Write points of shape [rows, dimensions] into `folder`/`place` and add them to the configuration.

    labels: a label for each point and the header of the columns, each of which may be None
    pictures: an image for each point, of shape [rows, channels, height, width], or None

    `place` begins with the step in five digits. Raises ValueError if there are not as many labels or images as points.
    """
    metadata, header = labels
    for what, rows in (("labels", metadata), ("images", pictures)):
        if rows is not None and len(rows) != len(points):
            raise OptionInvalid(
                f"#{what} should equal with #data points",
                where=source.where(),
                hint="Pass one entry for each data point.",
            )
    own = folder / place
    # The name ends with the step, so that points of several steps differ.
    own.mkdir(parents=True, exist_ok=True)
    lines = [f'tensor_name: "{_escape_text(tag)}:{place[:5]}"', f'tensor_path: "{_escape_text(place)}/tensors.tsv"']
    _write_table(own / "tensors.tsv", [row.tolist() for row in points])
    if metadata is not None:
        # Write a header only for several columns: with one column the projector reads each line as a label.
        rows = [list(row) if header else [row] for row in metadata]
        _write_table(own / "metadata.tsv", [list(header), *rows] if header else rows)
        lines.append(f'metadata_path: "{_escape_text(place)}/metadata.tsv"')
    if pictures is not None:
        (own / "sprite.png").write_bytes(_make_sprite(pictures))
        sides = f"single_image_dim: {pictures.shape[3]}\nsingle_image_dim: {pictures.shape[2]}"
        lines.append(f'sprite {{\nimage_path: "{_escape_text(place)}/sprite.png"\n{sides}\n}}')
    # Append, because the file may list points of other steps and tags.
    with (folder / CONFIG_FILE).open("a", encoding="utf-8") as file:
        file.write("embeddings {\n" + "\n".join(lines) + "\n}\n")


def _write_table(path: pathlib.Path, rows: Sequence[Sequence[Any]]) -> None:
    """Write rows as tab-separated values."""
    # Replace tabs and newlines, which would begin another cell or row.
    cells = ["\t".join(str(v).replace("\t", " ").replace("\n", " ") for v in row) for row in rows]
    path.write_text("\n".join(cells) + "\n", encoding="utf-8")


def _escape_text(text: str) -> str:
    """Return a text escaped for a quoted string in the configuration."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _make_sprite(pictures: np.ndarray) -> bytes:
    """Return all images [count, channels, height, width] as one PNG, in a square grid in row-major order.

    Cells without an image are black.
    """
    # The projector finds an image by its index in a square grid.
    side = math.ceil(math.sqrt(len(pictures)))
    each = [to_pixels(p, "CHW") for p in pictures]
    each += [np.zeros_like(each[0])] * (side * side - len(each))
    return encode_png_image(
        np.concatenate([np.concatenate(each[r * side : (r + 1) * side], 1) for r in range(side)], 0)
    )
