"""The formats of the tools: one row for each, with how it is read and written."""

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
    """A file format. `write(path, tree, replace=)` takes a tree whose arrays are LazyArrays."""

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[str], Any]
    write: Callable[..., None]
    is_flat: bool  # it holds one dict of arrays, and nothing else


def _read_h5(path: str) -> Any:
    return h5read.read(path, lambda lazy: lazy)


def _write_h5(path: str, tree: Any, *, replace: bool) -> None:
    h5write.write(path, tree, lambda leaf: leaf if isinstance(leaf, LazyArray) else None, replace=replace)


def _read_torch(path: str) -> Any:
    try:
        # Storages of a torch file have numbers for names; the dotted names of the tree are what users know.
        tree = serialization.load_lazily(RawFile(path).stream(), path)
        # A listing names what is shared each time: this bounds its lines by the bytes that describe them.
        check_walk(tree, max(1 << 16, os.path.getsize(path)), "the file")
        return assign_keys(tree, {})
    except CheckpointError as e:
        raise CheckpointError(e.what, where=path, hint=e.hint) from e  # no line of a script
    except RecursionError as e:
        raise CheckpointError(f"{path} is nested too deeply, or holds itself", hint="Save a flat dict of it.") from e


def _write_torch(path: str, tree: Any, *, replace: bool) -> None:
    with new_file(path, replace) as temporary:
        # torch.save writes in place, so the way over a temporary name is put around it here.
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


def read(path: str) -> tuple[Format, Any]:
    """The format of a file, and the tree in it with a LazyArray for each array.

    Raises CheckpointMissing, or CheckpointError for what is none of the formats or damaged.
    """
    if not pathlib.Path(path).is_file():
        raise CheckpointMissing(f"there is no file {path}", hint="Look for a typing error in the path.")
    kind = detect_format(path)
    if kind == "legacy torch":
        raise CheckpointError(
            f"{path} has the format of torch.save before PyTorch 1.6, which this command does not read",
            hint="Write it again: torch.save(torch.load(path), new_path).",
        )
    if kind == "unknown":
        raise CheckpointError(f"{path} is none of {', '.join(FORMATS)}", hint="It may be cut short: use another copy.")
    return FORMATS[kind], FORMATS[kind].read(path)


def select_target_format(path: str, name: str | None) -> Format:
    """The format to write: the one asked for, or the one that the suffix says."""
    if name is not None:
        return FORMATS[name]
    # Only for a file that is yet to be written; one that exists is known by its bytes.
    suffix = pathlib.Path(path).suffix
    for row in FORMATS.values():
        if suffix in row.suffixes:
            return row
    known = ", ".join(s for f in FORMATS.values() for s in f.suffixes)
    raise CheckpointError(f"{path} does not say which format it is to have", hint=f"Use one of {known}, or --to.")
