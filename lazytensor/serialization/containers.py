"""Constructors of Python containers and values for the pickle interpreter, with checks of the arguments in the file."""

from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

from lazytensor.serialization.layout import check_hashable, file_error

DEFAULT_FACTORIES = (list, dict, set, int, float, str, bool, tuple, OrderedDict, Counter, None)
"""Allowed values of a defaultdict's `default_factory`; any other function in a file could do harm when it is called."""


def _ordered_dict(items: Any = ()) -> OrderedDict[Any, Any]:
    return OrderedDict((check_hashable(key), value) for key, value in items)


def _counter(counts: Any = ()) -> Counter[Any]:
    if isinstance(counts, dict):
        return Counter(counts)
    return Counter([check_hashable(item) for item in _sequence(counts)])


def _default_dict(factory: Any = None, items: Any = ()) -> defaultdict[Any, Any]:
    if not any(factory is allowed for allowed in DEFAULT_FACTORIES):
        raise file_error(
            f"the file has a defaultdict whose factory is {getattr(factory, '__name__', 'an object')!r}, which "
            "is not allowed, because looking up a missing key calls it",
            "Save dict(the defaultdict), or use list, dict, set, int, float or str as the factory.",
        )
    return defaultdict(factory, items if isinstance(items, dict) else ())


def _deque(items: Any = (), maxlen: Any = None) -> deque[Any]:
    return deque(_sequence(items), maxlen if maxlen is None else _integer(maxlen))


def _set(items: Any = ()) -> set[Any]:
    return {check_hashable(item) for item in _sequence(items)}


def _frozenset(items: Any = ()) -> frozenset[Any]:
    return frozenset(_set(items))


def _sequence(items: Any) -> Any:
    # Other iterables, such as a range of 10^15 numbers, could be huge.
    if not isinstance(items, list | tuple):
        raise file_error(
            f"the file fills a container with the items of a {type(items).__name__}, which is not a list or tuple"
        )
    return items


def _integer(value: Any) -> int:
    if not isinstance(value, int):
        raise file_error(f"the file has a {type(value).__name__} where an integer is expected")
    return value


def _bytearray(content: Any = b"", coding: str = "latin-1") -> bytearray:
    return bytearray(_bytes(content, coding))


def _bytes(content: Any = b"", coding: str = "latin-1") -> bytes:
    # `bytes(number)` would allocate that many bytes.
    return content if isinstance(content, bytes) else encode_text(content, coding)


def encode_text(text: Any, coding: Any = "latin-1") -> bytes:
    """Return the bytes of a Latin-1 text, the form in which pickle protocol 2 stores bytes.

    Raises CheckpointError for another encoding or no string, and UnicodeEncodeError for characters that Latin-1 lacks.
    """
    if not isinstance(text, str) or coding not in ("latin-1", "latin1"):
        raise file_error("the file has bytes in an unknown encoding")
    return text.encode("latin-1")


def _complex(*parts: Any) -> complex:
    if not all(isinstance(part, int | float) for part in parts):
        raise file_error("the file has a complex number whose parts are not numbers")
    return complex(*parts)


def _slice(*parts: Any) -> slice:
    return slice(*(None if part is None else _integer(part) for part in parts))


def _range(*parts: Any) -> range:
    return range(*map(_integer, parts))


CONSTRUCTORS: dict[Any, Any] = {
    OrderedDict: _ordered_dict,
    Counter: _counter,
    defaultdict: _default_dict,
    deque: _deque,
    set: _set,
    frozenset: _frozenset,
    bytes: _bytes,
    bytearray: _bytearray,
    complex: _complex,
    slice: _slice,
    range: _range,
}
"""The function that creates an object of each class from the arguments in a file."""
CLASSES: dict[str, Any] = {
    f"{kind.__module__} {kind.__name__}": kind
    for kind in (*CONSTRUCTORS, list, dict, tuple, str, int, float, bool, type(None), object)
} | {"builtins Ellipsis": ..., "builtins NotImplemented": NotImplemented}
"""Python classes that a file may name, by "module name". Only those in `CONSTRUCTORS` may be called."""
