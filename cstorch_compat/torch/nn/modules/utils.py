"""Helpers of `torch.nn.modules.utils` for sizes given as one number or as one number for each dimension."""

import itertools
from collections.abc import Callable, Iterable
from typing import Any


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that repeats a number `n` times as a tuple, and converts an iterable to a tuple.

    The length of an iterable is not checked.
    """

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(itertools.repeat(x, n))

    parse.__name__ = name
    return parse


_single, _pair = _ntuple(1, "_single"), _ntuple(2, "_pair")
_triple, _quadruple = _ntuple(3, "_triple"), _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: Iterable[Any], n: int) -> tuple[Any, ...]:
    """Return the elements of `t` in reverse order, each `n` times, as in padding arguments."""
    return tuple(x for x in reversed(tuple(t)) for _ in range(n))


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Remove a prefix such as "module." from the keys of a state dict and of its `_metadata`, in place."""
    for key in [k for k in state_dict if k.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    versions = getattr(state_dict, "_metadata", {})
    for path in list(versions):
        # The key of the wrapped module itself is the prefix without the dot.
        if path == prefix[:-1] or path.startswith(prefix):
            versions[path[len(prefix) :]] = versions.pop(path)
