"""Source locations in MLIR's form: a reference after each line, and a table of the locations at the end."""

import functools
import os
import re
import sys
from collections.abc import Iterable

from lazytensor.core import source
from lazytensor.ir.graph import Node

UNKNOWN = "unknown"


def location(n: Node | None, operation: str = "") -> str:
    """Return the location of a node, such as "fc.fwd/aten::add"("forward"("train.py":12:0)).

    `operation` is the name of the ATen operation if the location of the node has none; by default that of the node.
    Callers follow the innermost frame. A gradient has the location of its forward operation. "unknown" for no location.
    """
    if n is None or n.where is None:
        return UNKNOWN
    place = n.where
    # The scope is printed with the direction; the scope of a gradient contains it already.
    way = "" if place.scope.endswith(".bwd") else ".fwd"
    scope = f"{source.block_names.get(place.scope, place.scope + way)}/" if place.scope else ""
    folders = tuple(sys.path)
    frames = [f"{_quote(name)}({_line(file, line, folders)})" for name, file, line in place.frames]
    last = frames.pop() if frames else _line(place.file, place.line, folders)
    # The innermost frame comes first, and its caller follows `at`, with its own callers.
    chain = functools.reduce(lambda callers, frame: f"callsite({frame} at {callers})", reversed(frames), last)
    return f"{_quote(f'{scope}aten::{place.operation or operation or n.op}')}({chain})"


def append_locations(rows: Iterable[tuple[str, Node | None]]) -> list[str]:
    """Return lines of a module with references to their locations, preceded by the unknown one and followed by the
    table.

    `rows` holds each line with its node, or None. Equal locations share a number.
    """
    numbers = {UNKNOWN: 0}
    lines = [f"{text} loc(#loc{numbers.setdefault(location(n), len(numbers))})" for text, n in rows]
    unknown, *table = (f"#loc{number} = loc({place})" for place, number in numbers.items())
    return [unknown, *lines, *table]


# Cached, because the operations of a large model come from few lines.
@functools.lru_cache(maxsize=4096)
def _line(file: str, line: int, folders: tuple[str, ...]) -> str:
    # Print the path relative to the folder of `sys.path` it was imported from, which is the same on all machines.
    above = [len(folder) for p in folders if p and file.startswith(folder := p.rstrip(os.sep) + os.sep)]
    return f"{_quote(file[max(above, default=0) :])}:{line}:0"


@functools.lru_cache(maxsize=4096)
def _quote(text: str) -> str:
    """Return a string in MLIR's quotes.

    Quotes, backslashes and bytes that are not printable ASCII are in hexadecimal.
    """
    plain = re.sub(rb'[^ -~]|["\\]', lambda m: b"\\%02X" % m[0][0], text.encode(errors="surrogateescape"))
    return f'"{plain.decode()}"'
