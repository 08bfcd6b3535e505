"""What `help` shows of every name that scripts and readers can import, as JSON: `python -m tests.public_docs`."""

import importlib
import inspect
import json
import sys
from collections.abc import Iterator
from typing import Any

from cstorch_compat.names import mirror, table
from lazytensor import config

PACKAGES = ("lazytensor", "wse_sim", "cstorch_compat")


def names() -> Iterator[tuple[str, Any]]:
    """Every callable of the modules that scripts see, and of the packages and the modules at their top."""
    for path in sorted(table.entries()):
        module: Any = mirror.mirror(path)
        yield from ((f"{path}.{name}", getattr(module, name, None)) for name in module.__all__)
    for package in PACKAGES:
        whole = importlib.import_module(package)
        for name, thing in [*vars(whole).items()]:
            if inspect.ismodule(thing) and thing.__name__ == f"{package}.{name}":
                own = [(n, t) for n, t in vars(thing).items() if getattr(t, "__module__", "") == thing.__name__]
                yield from ((f"{package}.{name}.{n}", t) for n, t in own)
            yield f"{package}.{name}", thing


def docs() -> dict[str, str | None]:
    """The text of each name and, of a class, of what it has; a thing of several names counts under the first."""
    said: dict[int, tuple[str, str | None]] = {}
    # Until all are known by their numbers: that of one which is made anew at each look would soon be another one's.
    alive: list[Any] = []
    for full, thing in names():
        alive.append(thing)
        if full.rpartition(".")[2].startswith("_") or not callable(thing) or id(thing) in said:
            continue
        said[id(thing)] = full, inspect.getdoc(thing)
        if inspect.isclass(thing) and thing.__module__.startswith(PACKAGES):
            own = [(n, inspect.getattr_static(thing, n, None)) for n in dir(thing) if not n.startswith("_")]
            alive += own
            said.update({id(t): (f"{full}.{n}", inspect.getdoc(t)) for n, t in own if id(t) not in said})
    # The one module whose text a command prints.
    return dict(said.values()) | {"lazytensor.config": config.__doc__}


if __name__ == "__main__":
    print(sys.modules["cstorch_compat"].__file__)
    print(json.dumps(docs()))
