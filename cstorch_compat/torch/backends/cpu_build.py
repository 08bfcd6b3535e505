"""What a CPU build of PyTorch answers to questions about other devices, as data: `cpu_build.txt`.

`tests.golden.record_cpu_build` writes that file from PyTorch's own answers. Of each public module it has the names
that are a plain value (`benchmark = False`), and the functions with what a call gives back (`device_count() 0`) or
raises (`synchronize() raises AssertionError: ...`).
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


@functools.cache
def make_namespaces() -> dict[str, SimpleNamespace]:
    """The answers of each public module, by its path with underscores: `cuda_amp` for torch.cuda.amp."""
    answers: dict[str, SimpleNamespace] = {}
    for path, name, said in parse_rows():
        space = answers.setdefault(path.removeprefix("torch.").replace(".", "_"), SimpleNamespace())
        is_function = name.endswith("()")
        plain = name.removesuffix("()")
        setattr(space, plain, _make_function(path, plain, said) if is_function else ast.literal_eval(said))
    return answers


def parse_rows() -> Iterator[tuple[str, str, str]]:
    """Module, name (of a function with brackets) and answer of each line of the table."""
    path = ""
    for line in TABLE_PATH.read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            name, _, said = line.strip().partition(" ")
            yield path, name, said.removeprefix("= ")
        elif line and not line.startswith("#"):
            path = line


def _make_function(path: str, name: str, said: str) -> Any:
    def answer(*args: Any, **kwargs: Any) -> Any:
        if said.startswith(RAISES_PREFIX):
            kind, _, message = said.removeprefix(RAISES_PREFIX).partition(": ")
            raise getattr(builtins, kind)(ast.literal_eval(message))
        # Read anew each time: a list is the caller's to change.
        return ast.literal_eval(said)

    answer.__name__ = answer.__qualname__ = name
    answer.__module__ = path
    answer.__doc__ = f"As PyTorch without such a device: {said}."
    return answer


def __getattr__(name: str) -> Any:
    if name in make_namespaces():
        return make_namespaces()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
