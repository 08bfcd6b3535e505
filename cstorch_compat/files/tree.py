"""Nested structures of tensors, such as batches, closure arguments and state dicts."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lazytensor.core.tensor import Tensor
from lazytensor.functional.in_place import write_values


def _children(tree: Any) -> Iterable[tuple[Any, Any]]:
    """Return keys and members of a list, tuple or mapping. Other objects have no members, as in the original."""
    # As with the original's batches, tensors inside other objects are ignored.
    if isinstance(tree, list | tuple):
        return enumerate(tree)
    return tree.items() if isinstance(tree, Mapping) else ()


def flatten(tree: Any, path: str = "") -> list[tuple[str, Tensor]]:
    """Return path and tensor of each tensor in a structure, with paths such as "_0_labels".

    Lists, tuples and mappings are traversed. `path` is the prefix of the paths.
    """
    if isinstance(tree, Tensor):
        return [(path, tree)]
    return [leaf for key, child in _children(tree) for leaf in flatten(child, f"{path}_{key}")]


def map_tensors(tree: Any, change: Callable[[Tensor], Any]) -> Any:
    """Return a copy of a structure with each tensor `t` replaced by `change(t)`.

    Lists, tuples, namedtuples and mappings are copied at every level and keep their class. Other objects are not
    copied, and tensors inside them are not replaced. A Counter is not copied either.
    """
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        # The constructor of a namedtuple takes the fields as separate arguments.
        return type(tree)(*(map_tensors(v, change) for v in tree))
    if isinstance(tree, list | tuple):
        return type(tree)([map_tensors(v, change) for v in tree])
    if isinstance(tree, Mapping):
        return replace_values(tree, [map_tensors(v, change) for v in tree.values()])
    return tree


def replace_values(mapping: Mapping[Any, Any], values: Iterable[Any]) -> Mapping[Any, Any]:
    """Return a new mapping of the class and with the keys of `mapping`, and with `values`, in its order.

    A defaultdict keeps its factory. A Counter is returned itself, because its values are numbers.
    """
    if isinstance(mapping, Counter):
        return mapping
    pairs = zip(mapping, values, strict=True)
    if isinstance(mapping, defaultdict):
        return type(mapping)(mapping.default_factory, pairs)
    # dict, OrderedDict and most of their subclasses accept pairs.
    return type(mapping)(pairs)  # type: ignore[call-arg]


def update_tensors(tensors: Iterable[Tensor], function: Callable[[Tensor], Tensor | None]) -> None:
    """Call `function` with each tensor and copy its result into the tensor in place, unless it is None.

    The result is converted to the tensor's dtype and broadcast.
    """
    for t in tensors:
        changed = function(t)
        # Copy the result into the tensor instead of replacing it, so that state keeps its name and all references see
        # the change.
        if changed is not None:
            write_values(t, changed)
