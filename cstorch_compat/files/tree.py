"""Nested structures of tensors: batches, arguments of closures, state dicts."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lazytensor.core.tensor import Tensor
from lazytensor.functional.in_place import write_values


def _children(tree: Any) -> Iterable[tuple[Any, Any]]:
    # Only these are walked, as the original's batches are: a tensor inside any other object does not take part.
    if isinstance(tree, list | tuple):
        return enumerate(tree)
    return tree.items() if isinstance(tree, Mapping) else ()


def flatten(tree: Any, path: str = "") -> list[tuple[str, Tensor]]:
    """The tensors in a structure, with paths such as "_0_labels"."""
    if isinstance(tree, Tensor):
        return [(path, tree)]
    return [leaf for key, child in _children(tree) for leaf in flatten(child, f"{path}_{key}")]


def map_tensors(tree: Any, change: Callable[[Tensor], Any]) -> Any:
    """The structure with every tensor replaced; everything else stays as it is."""
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        # A namedtuple is a tuple whose class takes its fields one by one.
        return type(tree)(*(map_tensors(v, change) for v in tree))
    if isinstance(tree, list | tuple):
        return type(tree)([map_tensors(v, change) for v in tree])
    if isinstance(tree, Mapping):
        # A mapping is made anew from pairs, which dict, OrderedDict and most of their subclasses take; a
        # defaultdict does not.
        return type(tree)((k, map_tensors(v, change)) for k, v in tree.items())  # type: ignore[call-arg]
    return tree


def update_tensors(tensors: Iterable[Tensor], function: Callable[[Tensor], Tensor | None]) -> None:
    """Call a function with every tensor; what it returns takes the place of the values."""
    for t in tensors:
        changed = function(t)
        # A function that only looks returns nothing. Copied into the tensor and not put in its place: state keeps
        # its name, and whoever holds the tensor sees the change.
        if changed is not None:
            write_values(t, changed)
