"""Content digests of dataclasses such as programs, machines and hosts. They are equal on every machine."""

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
    """Return 32 hexadecimal digits that depend only on the content of `value`.

    Supported are strings, numbers, None, arrays, dtypes, mappings, lists, tuples, sets and dataclasses. Lists and
    tuples with equal items are equal. Mappings and sets have no order. Script locations count with their module scope
    only, so moving a script does not change its digest. Raise LazyError for other types.
    """
    return hashlib.blake2b(_encode_value(value, {}), digest_size=16).hexdigest()


_PLAIN_TYPES = {str, int, float, bool, type(None)}


def _encode_value(value: Any, known: dict[int, tuple[Any, bytes]]) -> bytes:
    """Return the encoding of a value as bytes, equal for equal content. Raise LazyError for other types.

    A pickle would not do, because it depends on which parts are the same object. `known` caches the encodings of
    composite parts by id, because equal layers share objects. It keeps these parts alive, so that their ids are not
    reused.
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
    """Return the names of the constructor's fields of a dataclass."""
    return [field.name for field in fields(kind) if field.init]


def _describe_value(value: Any) -> tuple[str, Collection[Any]]:
    """Return a word that describes a value, and the parts that it consists of in a fixed order.

    Only the constructor's fields of a dataclass are parts. Raise LazyError for a type that has no digest.
    """
    if value is None or isinstance(value, str | int | float):
        return f"{type(value).__name__} {value!r}", ()
    if isinstance(value, DType):
        return value.name, ()
    if isinstance(value, Where):
        # Ignore file and line, so that a moved script is the same program. Its module scopes determine layers.
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
    raise LazyError(f"a {type(value).__name__} has no digest", hint="Use programs that consist of plain records.")
