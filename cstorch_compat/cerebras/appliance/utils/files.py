"""Files, links and classes: small functions that scripts of the Model Zoo take from the package."""

import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

from cstorch_compat.cerebras.appliance.utils.units import convert_byte_unit

StrPath = str | os.PathLike[str]


def create_symlink(src: StrPath, dst: StrPath, num_retries: int = 5, **kwargs: Any) -> None:
    """Make `src` a link to `dst`; a link that is there is replaced. `kwargs` go to Path.symlink_to.

    Another process may make the same link meanwhile, so it is tried `num_retries` times. Raises FileExistsError for a
    file or folder in the way.
    """
    link = pathlib.Path(src)
    for left in reversed(range(num_retries)):
        # Not `exists`, which follows the link: one to nowhere is in the way too.
        if link.is_symlink():
            link.unlink(missing_ok=True)
        try:
            link.symlink_to(dst, **kwargs)
            return
        except FileExistsError:
            if not left:
                raise


def is_pathlike(name: Any) -> bool:
    """Whether something is a path, or text that could be one."""
    return isinstance(name, str | os.PathLike)


def get_path_size(
    path: StrPath, unit: str = "B", recurse: bool = False, raise_if_not_found: bool = True
) -> int | float | None:
    """The bytes of a file, or with `recurse` of all files of a folder, in a unit; None for a path that is not there.

    Raises FileNotFoundError for it unless `raise_if_not_found` is off.
    """
    place = pathlib.Path(path)
    if not place.exists():
        if raise_if_not_found:
            raise FileNotFoundError(f"Path `{place}` does not exist")
        return None
    # A folder by itself has the size of its own table, as `os.stat` says it.
    files = [p for p in place.rglob("*") if p.is_file()] if recurse and place.is_dir() else [place]
    return convert_byte_unit(sum(p.stat().st_size for p in files), unit)


def retrieve_all_subclasses(cls: type, condition: Callable[[type], bool] | None = None) -> Iterator[type]:
    """Every class below a class, those directly below before what is below them."""
    # Asked at each call: scripts define classes of their own, which configuration tools have to find.
    below: list[type] = cls.__subclasses__()
    for child in below:
        if condition is None or condition(child):
            yield child
        yield from retrieve_all_subclasses(child, condition)
