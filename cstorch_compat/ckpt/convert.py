"""`ckpt convert`: convert between file formats with one array in memory at a time."""

import os
from typing import Any

from cstorch_compat.ckpt.formats import Format, read, select_target_format
from cstorch_compat.ckpt.leaves import find_subtree, flatten_tree, leaves
from cstorch_compat.files.atomic_write import CheckpointExists
from cstorch_compat.files.pickled import DeferredObject
from lazytensor.core.file_array import LazyArray
from lazytensor.errors import CheckpointError

_MAX_LISTED_NAMES = 3
"""Maximum number of names in an error message."""


def convert(source: str, target: str, *, to: str | None, key: str | None, flatten: bool, force: bool) -> Format:
    """Write the values of the file `source` to the new file `target` and return the format written.

    `to` names the format; None stands for the one of the target's suffix. `key` selects the values under one dotted
    name. `flatten` joins nested names with dots. Raises CheckpointExists if `target` exists, unless `force`. Raises
    CheckpointError for values that the format cannot hold. On an error an existing target is not changed.
    """
    wanted = select_target_format(target, to)
    # Test this before reading the source, which may take long.
    if os.path.lexists(target) and not force:
        raise CheckpointExists(f"{target} exists already", hint="Pass --force to replace it, or choose another name.")
    _, tree = read(source)
    if key is not None:
        tree = find_subtree(tree, key, source)
    if flatten:
        tree = flatten_tree(tree)
    # Raise errors before the first byte is written.
    _refuse_pickles(tree)
    if wanted.is_flat:
        _refuse_nested_tree(tree, wanted.name)
    wanted.write(target, tree, replace=force)
    return wanted


def _refuse_pickles(tree: Any) -> None:
    """Raise CheckpointError if the tree contains pickled objects."""
    closed = [name for name, leaf in leaves(tree) if isinstance(leaf, DeferredObject)]
    if closed:
        raise CheckpointError(
            f"{_format_names(closed)} are pickled Python objects, which are never loaded",
            hint="Convert a part without them with --key NAME.",
        )


def _refuse_nested_tree(tree: Any, name: str) -> None:
    """Raise CheckpointError unless the tree is a flat dict of arrays with string keys. `name` is the format."""
    if not isinstance(tree, dict):
        raise CheckpointError(f"{name} files contain a dict of arrays, not a {type(tree).__name__}", hint=_FLATTEN_HINT)
    others = [key for key, leaf in leaves(tree) if not isinstance(leaf, LazyArray)]
    if others:
        raise CheckpointError(
            f"{name} files can contain only arrays, not {_format_names(others)}",
            hint="Convert only the part with the arrays with --key NAME, for example --key model.",
        )
    nested = [str(key) for key, leaf in tree.items() if not isinstance(leaf, LazyArray) or not isinstance(key, str)]
    if nested:
        raise CheckpointError(
            f"{name} files have no nested values, and their names are strings; see {_format_names(nested)}",
            hint=_FLATTEN_HINT,
        )


_FLATTEN_HINT = "Pass --flatten to join nested names with dots, or --key NAME to convert one level."
"""The hint for nested trees."""


def _format_names(names: list[str]) -> str:
    """Return the first names and the number of the remaining ones as text."""
    more = len(names) - _MAX_LISTED_NAMES
    return ", ".join(repr(n) for n in names[:_MAX_LISTED_NAMES]) + (f" and {more} more" if more > 0 else "")
