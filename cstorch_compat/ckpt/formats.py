"""The file formats of `lazywafer ckpt`, with their readers and writers."""

import os
import pathlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cstorch_compat.ckpt import npz
from cstorch_compat.ckpt.leaves import assign_keys
from cstorch_compat.files import h5read, h5write, safetensors
from cstorch_compat.files.atomic_write import CheckpointMissing, new_file
from cstorch_compat.files.detect_format import detect_format
from cstorch_compat.files.rawfile import RawFile
from lazytensor import serialization
from lazytensor.core.file_array import LazyArray
from lazytensor.errors import CheckpointError
from lazytensor.serialization.layout import check_walk


@dataclass(frozen=True)
class Format:
    """A file format.

    name, suffixes: its name and its file suffixes
    read: returns the tree of values in a file, with LazyArrays
    write: `write(path, tree, replace=)` writes a tree with LazyArrays
    is_flat: whether a file holds only one dict of arrays
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[str], Any]
    write: Callable[..., None]
    is_flat: bool


def _read_h5(path: str) -> Any:
    return h5read.read(path, lambda lazy: lazy)


def _write_h5(path: str, tree: Any, *, replace: bool) -> None:
    h5write.write(path, tree, lambda leaf: leaf if isinstance(leaf, LazyArray) else None, replace=replace)


def _read_torch(path: str) -> Any:
    """Return the tree in a file of `torch.save`. Each array's key is its dotted name in the tree.

    Raises CheckpointError that names the file if it is damaged, nested too deeply, or contains itself.
    """
    try:
        # Storages in a torch file are numbered. Users need the dotted names of the tree.
        tree = serialization.load_lazily(RawFile(path).stream(), path)
        # A listing has a line for each occurrence of a shared value. Bound their number by the size of the file.
        check_walk(tree, max(1 << 16, os.path.getsize(path)), "the file")
        return assign_keys(tree, {})
    except CheckpointError as e:
        raise CheckpointError(e.what, where=path, hint=e.hint) from e  # report the file instead of a line of a script
    except RecursionError as e:
        raise CheckpointError(
            f"{path} is nested too deeply, or contains itself", hint="Save the values in a flat dict."
        ) from e


def _write_torch(path: str, tree: Any, *, replace: bool) -> None:
    """Write a file as `torch.save` does."""
    with new_file(path, replace) as temporary:
        # `serialization.save` writes in place, so use a temporary file.
        serialization.save(tree, temporary)


FORMATS = {
    f.name: f
    for f in (
        Format("h5", (".mdl", ".h5", ".hdf5"), _read_h5, _write_h5, False),
        Format("torch", (".pt", ".pth", ".bin"), _read_torch, _write_torch, False),
        Format("safetensors", (".safetensors",), safetensors.read, safetensors.write, True),
        Format("npz", (".npz",), npz.read, npz.write, True),
    )
}
"""The formats by name."""


def read(path: str) -> tuple[Format, Any]:
    """Return the format of a file, and the tree of its values with a LazyArray for each array.

    The format is detected from the contents. Raises CheckpointMissing if there is no file, and CheckpointError for an
    unknown format and for a damaged file.
    """
    if not pathlib.Path(path).is_file():
        raise CheckpointMissing(f"the file {path} does not exist", hint="Check the path.")
    kind = detect_format(path)
    if kind == "legacy torch":
        raise CheckpointError(
            f"{path} has the format of torch.save before PyTorch 1.6, which this command does not read",
            hint="Write it again with torch.save(torch.load(path), new_path).",
        )
    if kind == "unknown":
        raise CheckpointError(
            f"{path} has none of the formats {', '.join(FORMATS)}", hint="Use another copy: it may be truncated."
        )
    return FORMATS[kind], FORMATS[kind].read(path)


def select_target_format(path: str, name: str | None) -> Format:
    """Return the format to write: the one called `name`, or the one of the path's suffix if `name` is None.

    Raises CheckpointError for an unknown suffix.
    """
    if name is not None:
        return FORMATS[name]
    # The suffix matters only for a file to be written; existing files are detected by their contents.
    suffix = pathlib.Path(path).suffix
    for row in FORMATS.values():
        if suffix in row.suffixes:
            return row
    known = ", ".join(s for f in FORMATS.values() for s in f.suffixes)
    raise CheckpointError(f"{path} has no suffix of a known format", hint=f"Use one of {known}, or pass --to.")
