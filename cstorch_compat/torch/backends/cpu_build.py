"""Constants and functions of device modules with the behaviour of PyTorch's CPU build, from the table `cpu_build.txt`.

`tests.golden.record_cpu_build` generates that table from PyTorch. For each public module it lists constants (`benchmark
= False`), and functions with their result (`device_count() 0`) or error (`synchronize() raises AssertionError: ...`).
"""

import ast
import builtins
import functools
import pathlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

TABLE_PATH = pathlib.Path(__file__).with_name("cpu_build.txt")
RAISES_PREFIX = "raises "
"""The prefix of a function's entry that is an error."""


@functools.cache
def make_namespaces() -> dict[str, SimpleNamespace]:
    """Return the constants and functions of PyTorch's CPU build by module.

    A key is the module's path without "torch." and with underscores, such as `cuda_amp` for torch.cuda.amp. They are
    read from the table file.
    """
    answers: dict[str, SimpleNamespace] = {}
    for path, name, said in parse_rows():
        space = answers.setdefault(path.removeprefix("torch.").replace(".", "_"), SimpleNamespace())
        is_function = name.endswith("()")
        plain = name.removesuffix("()")
        setattr(space, plain, _make_function(path, plain, said) if is_function else ast.literal_eval(said))
    return answers


def parse_rows() -> Iterator[tuple[str, str, str]]:
    """Yield the module, the name and the value of each line of the table. Names of functions end in "()"."""
    path = ""
    for line in TABLE_PATH.read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            name, _, said = line.strip().partition(" ")
            yield path, name, said.removeprefix("= ")
        elif line and not line.startswith("#"):
            path = line


def _make_function(path: str, name: str, said: str) -> Any:
    """Return a function that returns or raises what its table entry `said` states, whatever its arguments.

    `said` is a Python literal, or RAISES_PREFIX with the name of a built-in exception and its message. Each call
    returns a new object.
    """

    def answer(*args: Any, **kwargs: Any) -> Any:
        if said.startswith(RAISES_PREFIX):
            kind, _, message = said.removeprefix(RAISES_PREFIX).partition(": ")
            raise getattr(builtins, kind)(ast.literal_eval(message))
        # Parse at each call, because the caller may modify a list.
        return ast.literal_eval(said)

    answer.__name__ = answer.__qualname__ = name
    answer.__module__ = path
    verb = "Raise" if said.startswith(RAISES_PREFIX) else "Return"
    answer.__doc__ = f"{verb} {said.removeprefix(RAISES_PREFIX)}, as PyTorch's CPU build does. Arguments are ignored."
    return answer


def __getattr__(name: str) -> Any:
    if name in make_namespaces():
        return make_namespaces()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
