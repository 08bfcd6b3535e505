"""A digest of what a record says, equal on every machine: of a program, a machine or a host."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from lazytensor.dtype import DType
from lazytensor.errors import LazyError
from lazytensor.ir.types import Where


def content_digest(value: Any) -> str:
    """32 hexadecimal digits of a record's content: numbers, names, arrays, and of places in a script the module alone.

    Raises LazyError for what is no data.
    """
    hasher = hashlib.blake2b(digest_size=16)
    _tell(value, lambda word: hasher.update(f"{word}\0".encode()))
    return hasher.hexdigest()


def _tell(value: Any, say: Callable[[str], None]) -> None:
    """Say a value word by word. Not its pickle: that depends on which of its parts are one object."""
    word, parts = _spoken(value)
    say(word)
    for part in parts:
        _tell(part, say)


def _spoken(value: Any) -> tuple[str, Iterable[Any]]:
    """A word for a value, and what it consists of."""
    if value is None or isinstance(value, str | int | float):
        return f"{type(value).__name__} {value!r}", ()
    if isinstance(value, DType):
        return value.name, ()
    if isinstance(value, Where):
        # A script that was moved, or has a comment more, is the same program; its modules make layers.
        return f"in {value.scope}", ()
    if isinstance(value, np.ndarray | np.generic):
        return f"{value.dtype.str} {value.shape} {hashlib.blake2b(value.tobytes()).hexdigest()}", ()
    if isinstance(value, Mapping):
        return f"mapping {len(value)}", [part for key in sorted(value, key=repr) for part in (key, value[key])]
    if isinstance(value, list | tuple):
        return f"list {len(value)}", value
    if isinstance(value, set | frozenset):
        return f"set {len(value)}", sorted(map(content_digest, value))
    if is_dataclass(value):
        return type(value).__name__, [getattr(value, field.name) for field in fields(value) if field.init]
    raise LazyError(f"a {type(value).__name__} is no data that has a digest", hint="Give programs of plain records.")
