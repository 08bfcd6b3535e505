"""The values of a tree under their dotted names."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from lazytensor.core.file_array import LazyArray
from lazytensor.errors import CheckpointError


def children(tree: Any) -> Iterator[tuple[Any, Any]] | None:
    """The labels and members of a container, or None for a value."""
    if isinstance(tree, Mapping):
        return iter(tree.items())
    if isinstance(tree, list | tuple | set):
        return iter(enumerate(tree))
    return None


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that is no container, in order. An empty container is a value."""
    members = children(tree)
    # Otherwise an empty dict would vanish from listings and differences; an empty file has no values at all.
    if members is None or (path and not tree):
        yield path, tree
        return
    for label, child in members:
        yield from leaves(child, f"{path}.{label}" if path else str(label))


def flatten_tree(tree: Any) -> dict[str, Any]:
    """One dict of all values, nested names joined by dots. Raises CheckpointError if two become one."""
    values: dict[str, Any] = {}
    for name, leaf in leaves(tree):
        if name in values:
            raise CheckpointError(
                f"two values would both be called {name!r}", hint="Rename one of them: dots join nested names."
            )
        values[name] = leaf
    return values


def assign_keys(tree: Any, known: dict[int, LazyArray], path: str = "") -> Any:
    """The tree with each array's `key` the name under which it stands first; `known` collects them by identity."""
    if isinstance(tree, LazyArray):
        # One object for each array, so that tied weights are still told by identity when they are written.
        return known.setdefault(id(tree), replace(tree, key=path))
    members = children(tree)
    if members is None:
        return tree
    named = [(label, assign_keys(child, known, f"{path}.{label}" if path else str(label))) for label, child in members]
    kind: Any = type(tree)
    return kind(named) if isinstance(tree, Mapping) else kind(child for _, child in named)


def find_subtree(tree: Any, key: str, where: str) -> Any:
    """What stands under a dotted key, whose parts may have dots themselves. Raises CheckpointError with near names."""
    matches = list(_find_by_key(tree, key))
    if matches:
        return matches[0]
    near = get_close_matches(key, [name for name, _ in leaves(tree)], 3, 0.4)
    raise CheckpointError(f"there is no {key!r} in {where}", hint=f"Did you mean {', '.join(near) or 'another file'}?")


def _find_by_key(tree: Any, key: str) -> Iterator[Any]:
    for label, child in children(tree) or ():
        name = str(label)
        if name == key:
            yield child
        # Every split is tried, since names of files may hold dots of their own.
        elif key.startswith(name + "."):
            yield from _find_by_key(child, key[len(name) + 1 :])
