"""Utilities for files, symbolic links and subclasses, which Model Zoo scripts import."""

import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

from cstorch_compat.cerebras.appliance.utils.units import convert_byte_unit

StrPath = str | os.PathLike[str]


def create_symlink(src: StrPath, dst: StrPath, num_retries: int = 5, **kwargs: Any) -> None:
    """Create a symbolic link at `src` that points to `dst`, replacing an existing link.

    `kwargs` go to `Path.symlink_to`. If another process creates the same link at the same time, the call tries again,
    `num_retries` times in total. Raises FileExistsError if a file or folder is at `src`.
    """
    link = pathlib.Path(src)
    for left in reversed(range(num_retries)):
        # `exists` follows a link and would miss one whose target does not exist.
        if link.is_symlink():
            link.unlink(missing_ok=True)
        try:
            link.symlink_to(dst, **kwargs)
            return
        except FileExistsError:
            if not left:
                raise


def is_pathlike(name: Any) -> bool:
    """Return whether `name` is text or an `os.PathLike`."""
    return isinstance(name, str | os.PathLike)


def get_path_size(
    path: StrPath, unit: str = "B", recurse: bool = False, raise_if_not_found: bool = True
) -> int | float | None:
    """Return the size of a file in `unit`, such as "B", "MB" or "MiB", rounded to an integer.

    For a folder with `recurse`, return the sum over all files below it. Without `recurse`, return the size of its
    directory entry. If `path` does not exist, raise FileNotFoundError, or return None if `raise_if_not_found` is False.
    Raises ValueError for an unknown unit.
    """
    place = pathlib.Path(path)
    if not place.exists():
        if raise_if_not_found:
            raise FileNotFoundError(f"Path `{place}` does not exist")
        return None
    # Without `recurse`, the size of a folder is that of its directory entry, as in os.stat.
    files = [p for p in place.rglob("*") if p.is_file()] if recurse and place.is_dir() else [place]
    return convert_byte_unit(sum(p.stat().st_size for p in files), unit)


def retrieve_all_subclasses(cls: type, condition: Callable[[type], bool] | None = None) -> Iterator[type]:
    """Yield every direct and indirect subclass of `cls`, a class before its own subclasses.

    If `condition` is given, yield only classes for which it returns True. Subclasses of a skipped class are still
    visited.
    """
    # The result is not cached, because configuration tools have to find classes that scripts define later.
    below: list[type] = cls.__subclasses__()
    for child in below:
        if condition is None or condition(child):
            yield child
        yield from retrieve_all_subclasses(child, condition)
