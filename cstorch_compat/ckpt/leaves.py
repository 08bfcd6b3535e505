"""Trees of values (nested dicts, lists, tuples and sets) and the dotted names of their leaves."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from lazytensor.core.file_array import LazyArray
from lazytensor.errors import CheckpointError


def children(tree: Any) -> Iterator[tuple[Any, Any]] | None:
    """Return an iterator over the keys and members of a container, or None if `tree` is no container.

    The keys of a list, tuple or set are positions.
    """
    if isinstance(tree, Mapping):
        return iter(tree.items())
    if isinstance(tree, list | tuple | set):
        return iter(enumerate(tree))
    return None


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted name and value of each leaf, in order. `path` is the prefix of the names.

    An empty container is a leaf, unless it is the whole tree.

    >>> list(leaves({"a": [1, 2], "b": {}}))
    [('a.0', 1), ('a.1', 2), ('b', {})]
    """
    members = children(tree)
    # Yield an empty container, so that listings and differences show it. An empty file has no values.
    if members is None or (path and not tree):
        yield path, tree
        return
    for label, child in members:
        yield from leaves(child, f"{path}.{label}" if path else str(label))


def flatten_tree(tree: Any) -> dict[str, Any]:
    """Return a dict of all leaves by dotted name. Raises CheckpointError if two leaves have the same name."""
    values: dict[str, Any] = {}
    for name, leaf in leaves(tree):
        if name in values:
            raise CheckpointError(
                f"two values would have the name {name!r}", hint="Rename one of them: dots join nested names."
            )
        values[name] = leaf
    return values


def assign_keys(tree: Any, known: dict[int, LazyArray], path: str = "") -> Any:
    """Return a copy of the tree in which each array's `key` is its first dotted name.

    An array that occurs several times stays one object. `known` maps the ids of arrays to their copies and is updated.
    """
    if isinstance(tree, LazyArray):
        # Keep one object per array, so that the writer recognizes tied weights by identity.
        return known.setdefault(id(tree), replace(tree, key=path))
    members = children(tree)
    if members is None:
        return tree
    named = [(label, assign_keys(child, known, f"{path}.{label}" if path else str(label))) for label, child in members]
    kind: Any = type(tree)
    return kind(named) if isinstance(tree, Mapping) else kind(child for _, child in named)


def find_subtree(tree: Any, key: str, where: str) -> Any:
    """Return the value or subtree with a dotted name, whose parts may contain dots; the first one if there are several.

    Raises CheckpointError with similar names if there is none. `where` is the file in the message.
    """
    matches = list(_find_by_key(tree, key))
    if matches:
        return matches[0]
    near = get_close_matches(key, [name for name, _ in leaves(tree)], 3, 0.4)
    hint = f"Did you mean {', '.join(near)}?" if near else f"List the names with `lazywafer ckpt ls {where}`."
    raise CheckpointError(f"{where} has no value {key!r}", hint=hint)


def _find_by_key(tree: Any, key: str) -> Iterator[Any]:
    """Yield each value with the dotted name `key`."""
    for label, child in children(tree) or ():
        name = str(label)
        if name == key:
            yield child
        # Try every split, because names may contain dots.
        elif key.startswith(name + "."):
            yield from _find_by_key(child, key[len(name) + 1 :])
