"""`ckpt convert`: from one format to another, holding one array at a time."""

import os
from typing import Any

from cstorch_compat.ckpt.formats import Format, read, select_target_format
from cstorch_compat.ckpt.leaves import find_subtree, flatten_tree, leaves
from cstorch_compat.files.atomic_write import CheckpointExists
from cstorch_compat.files.pickled import DeferredObject
from lazytensor.core.file_array import LazyArray
from lazytensor.errors import CheckpointError

_MAX_LISTED_NAMES = 3


def convert(source: str, target: str, *, to: str | None, key: str | None, flatten: bool, force: bool) -> Format:
    """Write what is in one file, or under one of its keys, to a new one. Returns the format that was written.

    Raises CheckpointExists unless `force`, and CheckpointError for what the target's format cannot hold; then what was
    at the target is untouched.
    """
    wanted = select_target_format(target, to)
    # Before the source is read, which may take long.
    if os.path.lexists(target) and not force:
        raise CheckpointExists(f"{target} exists already", hint="Give --force to replace it, or another name.")
    _, tree = read(source)
    if key is not None:
        tree = find_subtree(tree, key, source)
    if flatten:
        tree = flatten_tree(tree)
    # Refusals come before the first byte is written; with --force the old target is still whole.
    _refuse_pickles(tree)
    if wanted.is_flat:
        _refuse_nested_tree(tree, wanted.name)
    wanted.write(target, tree, replace=force)
    return wanted


def _refuse_pickles(tree: Any) -> None:
    closed = [name for name, leaf in leaves(tree) if isinstance(leaf, DeferredObject)]
    if closed:
        raise CheckpointError(
            f"{_format_names(closed)} are pickled Python objects, and pickles are never loaded",
            hint="Convert a part without them: --key NAME.",
        )


def _refuse_nested_tree(tree: Any, name: str) -> None:
    if not isinstance(tree, dict):
        raise CheckpointError(f"a {name} file holds a dict of arrays, not a {type(tree).__name__}", hint=_FLATTEN_HINT)
    others = [key for key, leaf in leaves(tree) if not isinstance(leaf, LazyArray)]
    if others:
        raise CheckpointError(
            f"a {name} file holds arrays only, and {_format_names(others)} are none",
            hint="Convert the part that holds the arrays: --key NAME, for example --key model.",
        )
    nested = [str(key) for key, leaf in tree.items() if not isinstance(leaf, LazyArray) or not isinstance(key, str)]
    if nested:
        raise CheckpointError(
            f"a {name} file has no nesting, and only texts as names: see {_format_names(nested)}", hint=_FLATTEN_HINT
        )


_FLATTEN_HINT = "Give --flatten, which joins the nested names with dots, or take one level: --key NAME."


def _format_names(names: list[str]) -> str:
    more = len(names) - _MAX_LISTED_NAMES
    return ", ".join(repr(n) for n in names[:_MAX_LISTED_NAMES]) + (f" and {more} more" if more > 0 else "")
