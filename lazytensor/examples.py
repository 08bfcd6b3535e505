"""Examples of public functions and layers: a table, since the docstrings of whole families are made from one.

`examples.txt` has a block for each name, as it is typed and as PyTorch 2.13.0 answered.
"""

import functools
import inspect
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

_IMPORT = ">>> import lazytensor as lt\n"


@functools.cache
def examples() -> dict[str, str]:
    """The example of each name, as it is typed behind the import of the package."""
    blocks = pathlib.Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split("\n\n")[1:]
    heads = (block.partition("\n") for block in blocks)
    return {name: inspect.cleandoc(typed) for name, _, typed in heads}


def show(offered: Mapping[str, Any], names: Iterable[str] | None = None) -> None:
    """Put the examples behind the docstrings of what a module offers; what shows one of its own keeps it."""
    for name in offered if names is None else names:
        thing = offered[name]
        # `absolute` is `abs` under another name.
        typed = examples().get(name) or examples().get(getattr(thing, "__name__", ""))
        # As `help` finds it: a class without a text of its own says what its parent says.
        said = inspect.getdoc(thing) or "" if typed else ""
        if typed and ">>> " not in said:
            thing.__doc__ = f"{said}\n\n{_IMPORT}{typed}"
