"""Where a line was written, as MLIR says it: a reference behind each line, and a table of the places at the end."""

import functools
import os
import re
import sys
from collections.abc import Iterable

from lazytensor.core import source
from lazytensor.ir.graph import Node

UNKNOWN = "unknown"


def location(n: Node | None) -> str:
    """As in "fc.fwd/aten::add"("forward"("train.py":12:0)), callers behind; a gradient has its forward's line."""
    if n is None or n.where is None:
        return UNKNOWN
    place = n.where
    # Modules are said with the direction; the scope of a gradient has it already.
    way = "" if place.scope.endswith(".bwd") else ".fwd"
    scope = f"{source.block_names.get(place.scope, place.scope + way)}/" if place.scope else ""
    folders = tuple(sys.path)
    frames = [f"{_quote(name)}({_line(file, line, folders)})" for name, file, line in place.frames]
    last = frames.pop() if frames else _line(place.file, place.line, folders)
    # The innermost frame stands first, and what called it behind `at`, again with its callers.
    chain = functools.reduce(lambda callers, frame: f"callsite({frame} at {callers})", reversed(frames), last)
    return f"{_quote(f'{scope}aten::{place.operation or n.op}')}({chain})"


def append_locations(rows: Iterable[tuple[str, Node | None]]) -> list[str]:
    """Lines of a module with their locations, between the unknown one and the table of the others."""
    numbers = {UNKNOWN: 0}
    lines = [f"{text} loc(#loc{numbers.setdefault(location(n), len(numbers))})" for text, n in rows]
    unknown, *table = (f"#loc{number} = loc({place})" for place, number in numbers.items())
    return [unknown, *lines, *table]


# The operations of a large model come from few lines.
@functools.lru_cache(maxsize=4096)
def _line(file: str, line: int, folders: tuple[str, ...]) -> str:
    # As the module is imported: what lies above it differs from machine to machine.
    above = [len(folder) for p in folders if p and file.startswith(folder := p.rstrip(os.sep) + os.sep)]
    return f"{_quote(file[max(above, default=0) :])}:{line}:0"


@functools.lru_cache(maxsize=4096)
def _quote(text: str) -> str:
    """A string of MLIR: quotes, backslashes and what is not printed ASCII by their bytes."""
    plain = re.sub(rb'[^ -~]|["\\]', lambda m: b"\\%02X" % m[0][0], text.encode(errors="surrogateescape"))
    return f'"{plain.decode()}"'
