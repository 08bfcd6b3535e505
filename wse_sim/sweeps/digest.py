"""A digest of what a record says, equal on every machine: of a program, a machine or a host."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np

from lazytensor.core.dtype import DType
from lazytensor.errors import LazyError
from lazytensor.ir.types import Where


def content_digest(value: Any) -> str:
    """32 hexadecimal digits of a record's content: numbers, names, arrays, and of places in a script the module alone.

    Raises LazyError for what is no data.
    """
    return hashlib.blake2b(_encode_value(value, {}), digest_size=16).hexdigest()


_PLAIN_TYPES = {str, int, float, bool, type(None)}


def _encode_value(value: Any, known: dict[int, tuple[Any, bytes]]) -> bytes:
    """The words of a value. Not its pickle: that depends on which of its parts are one object.

    `known` has what parts say that are one object in many places, as the loops of equal layers are, and the parts:
    the number of one that is gone may be another's.
    """
    if value.__class__ in _PLAIN_TYPES:
        return f"{value.__class__.__name__} {value!r}\0".encode()
    if id(value) in known:
        return known[id(value)][1]
    word, parts = _describe_value(value)
    said = f"{word}\0".encode()
    if parts:
        said += b"".join([_encode_value(part, known) for part in parts])
        known[id(value)] = value, said
    return said


@cache
def _field_names(kind: type[Any]) -> list[str]:
    return [field.name for field in fields(kind) if field.init]


def _describe_value(value: Any) -> tuple[str, Collection[Any]]:
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
        return type(value).__name__, [getattr(value, name) for name in _field_names(value.__class__)]
    raise LazyError(f"a {type(value).__name__} is no data that has a digest", hint="Give programs of plain records.")
