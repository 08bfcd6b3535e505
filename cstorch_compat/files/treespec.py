"""The tree of a checkpoint: convert containers to dotted leaves and a JSON description, and back.

A checkpoint has the description in `__spec__`: `[outline, "[1, node]"]`. The outline is for human readers. Each node
has the type of a container, its keys (`context`) and its children.
"""

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lazytensor.errors import CheckpointError

Description = dict[str, Any]
"""A node of the description, as JSON."""
_DICTS: dict[str, type] = {"builtins.dict": dict, "collections.OrderedDict": OrderedDict}
_SEQUENCES: dict[str, type] = {"builtins.list": list, "builtins.tuple": tuple, "builtins.set": set}
# Callers list the namedtuple classes, because importing a class that a file names could run any code.
_NAMEDTUPLE = "collections.namedtuple"
_TYPE_NAMES = {kind: name for name, kind in (_DICTS | _SEQUENCES).items()}
# The nodes have the form of PyTorch's pytree serialization, protocol 1, which the original uses and its reader
# requires.
_LEAF_SPEC: Description = {"type": None, "context": None, "children_spec": []}
# A tuple as a key would be read back as a list, on which the original's load fails.
_KEY_TYPES = (str, int, float, bool, type(None))  # types that JSON restores exactly
_SPEC_PROTOCOL = 1


@dataclass(frozen=True)
class TreeLeaf:
    """A value with its dotted key. `original` is the key of the first leaf that is the same object."""

    key: str
    value: object
    original: str


@dataclass(frozen=True)
class FlatTree:
    """The leaves of a tree, in order, and the `__spec__` text that describes its containers."""

    leaves: tuple[TreeLeaf, ...]
    spec: str


@dataclass(frozen=True)
class TreeNode:
    """A container of a described tree, or a leaf if `make` is None. `labels` are its keys or positions."""

    make: Any
    labels: tuple[Any, ...]
    children: tuple["TreeNode", ...]


def flatten(tree: object, namedtuples: Mapping[str, type]) -> FlatTree:
    """Return the leaves and the description of `tree`.

    `namedtuples` are the namedtuple classes that may occur, by the name to record. Containers of other classes are
    leaves. Raises CheckpointError

    - for a key of a dict that is not a str, int, float, bool or None,
    - for two leaves with the same dotted key, and for a dotted key that `check_name` refuses,
    - for a tree that is nested too deeply or contains itself.
    """
    pairs: list[tuple[str, object]] = []
    names = {kind: name for name, kind in namedtuples.items()}
    try:
        node = _describe(tree, (), pairs, names)
        spec = format_spec(node)
    except RecursionError as e:
        raise CheckpointError(
            "the saved object is nested too deeply",
            hint="Save a flat dict. Look for a list or dict that contains itself.",
        ) from e
    # Check all keys together: `{"a.b": x, "a": {"b": y}}` is a valid tree, but gives two equal names. The original
    # writes such a file and cannot load it.
    _check_keys([key for key, _ in pairs])
    # By identity, as in the original. The tree keeps all leaves alive, so no id is reused.
    first: dict[int, str] = {}
    return FlatTree(tuple(TreeLeaf(key, value, first.setdefault(id(value), key)) for key, value in pairs), spec)


def leaf_spec(key: str) -> list[Any]:
    """Return the `__spec__` pair in the metadata of a leaf: a dict with only this leaf."""
    return _spec_pair(key, "*", _LEAF_SPEC)


def nested_leaf_spec(key: str) -> list[Any]:
    """Return the `__spec__` pair of a leaf that consists of two objects: the fill value, and the tensor."""
    # The original describes such tensors by a namedtuple class of this name with two leaves.
    nested = {"type": "collections.namedtuple", "context": "NestedObject", "children_spec": [_LEAF_SPEC, _LEAF_SPEC]}
    return _spec_pair(key, ["*", "*"], nested)


def _spec_pair(key: str, outline: object, child: Description) -> list[Any]:
    """Return outline and description of a dict with one child."""
    node = {"type": "builtins.dict", "context": json.dumps([key]), "children_spec": [child]}
    return [{key: outline}, json.dumps([_SPEC_PROTOCOL, node])]


def format_spec(node: Description) -> str:
    """Return the `__spec__` text for the root node. The outline is null if the tree contains a set."""
    # JSON has no sets. As in the original, the outline is then omitted; only human readers need it.
    outline = None if _holds_set(node) else _outline(node)
    return json.dumps([outline, json.dumps([_SPEC_PROTOCOL, node])], indent=4)


def _describe(
    tree: object, path: tuple[str, ...], leaves: list[tuple[str, object]], names: Mapping[type, str]
) -> Description:
    """Return the description of `tree` and append its leaves, with their keys, to `leaves`.

    `path` are the labels from the root. `names` are the recorded names of namedtuple classes.
    """
    kind = type(tree)
    # Compare exact types: a subclass would be read back as its base. It counts as a leaf, which the writer refuses.
    if isinstance(tree, dict) and kind in _TYPE_NAMES:
        name, context = _TYPE_NAMES[kind], _dict_context(tree, path)
        items: Iterable[tuple[Any, object]] = tree.items()
    elif isinstance(tree, (list, tuple, set)) and (kind in _TYPE_NAMES or kind in names):
        name, context = (_NAMEDTUPLE, names[kind]) if kind in names else (_TYPE_NAMES[kind], "null")
        items = enumerate(tree)
    else:
        leaves.append((".".join(path), tree))
        return _LEAF_SPEC
    # Depth first, in the order of the containers. Leaves are matched by this order when the tree is rebuilt.
    children = [_describe(child, (*path, str(label)), leaves, names) for label, child in items]
    return {"type": name, "context": context, "children_spec": children}


def _dict_context(tree: dict[Any, Any], path: tuple[str, ...]) -> str:
    """Return the keys of a dict as JSON. Raises CheckpointError for keys that JSON does not preserve."""
    for key in tree:
        # Compare exact types: an IntEnum is an int for isinstance and would be read back as a plain int.
        if type(key) not in _KEY_TYPES:
            raise CheckpointError(
                f"the dict at {'.'.join(path)!r} has a key {key!r} of type {type(key).__name__}",
                hint="Convert the key to str, int, float, bool or None.",
            )
    return json.dumps(list(tree))


def _check_keys(keys: list[str]) -> None:
    """Raise CheckpointError if a key occurs twice or is no valid name."""
    seen = set()
    for key in keys:
        if key in seen:
            raise CheckpointError(
                f"two values would be stored as {key!r}",
                hint="Rename one of them. Dotted keys and nested dicts share one namespace, as do 1 and '1'.",
            )
        check_name(key)
        seen.add(key)


MAX_KEY_BYTES = 60_000
"""Maximum length of a name in bytes, within the limits of the tables of zip archives and HDF5."""


def check_name(key: str) -> None:
    """Raise CheckpointError if `key` cannot be a name in a file.

    It must have no NUL and no lone surrogate, and at most `MAX_KEY_BYTES` bytes in UTF-8.
    """
    # HDF5 names end at a NUL. Lone surrogates, which file names may contain, have no UTF-8 encoding.
    if "\0" in key or any("\ud800" <= c <= "\udfff" for c in key):
        raise CheckpointError(
            f"the key {key!r} is not a valid name in a file", hint="Use a key of valid Unicode without NUL."
        )
    if len(key.encode()) > MAX_KEY_BYTES:
        raise CheckpointError(
            f"the key {key[:40]!r}... of {len(key)} characters has more than {MAX_KEY_BYTES:,} bytes",
            hint="Use a shorter key.",
        )


def _outline(node: Description) -> object:
    """Return the outline of a description: nested dicts and lists with "*" for leaves. Other sequences become lists."""
    if node["type"] is None:
        return "*"
    children = [_outline(child) for child in node["children_spec"]]
    # Tuples become lists, as in the original's outline.
    if node["type"] in _DICTS:
        return dict(zip(json.loads(node["context"]), children, strict=True))
    return children


def _holds_set(node: Description) -> bool:
    """Return whether a description contains a set."""
    return node["type"] == "builtins.set" or any(_holds_set(child) for child in node["children_spec"])


def parse_spec(text: object, namedtuples: Mapping[str, type]) -> TreeNode:
    """Return the tree that a `__spec__` text describes. Raises CheckpointError if it is invalid.

    `namedtuples` are the namedtuple classes that may occur, by recorded name.
    """
    try:
        # The second entry is JSON in a string, in PyTorch's format. The first is the outline.
        described = json.loads(text)[1]  # type: ignore[arg-type]
        protocol, root = json.loads(described)
        if protocol != _SPEC_PROTOCOL:
            raise _make_spec_error(f"protocol {protocol!r} is unknown")
        return _parse_node(root, namedtuples)
    except (ValueError, TypeError, LookupError, RecursionError) as e:
        raise _make_spec_error(f"{type(e).__name__}: {e}") from e


def _parse_node(spec: Description, namedtuples: Mapping[str, type]) -> TreeNode:
    """Return the TreeNode for a node of the description.

    Raises CheckpointError for an unknown container type, a leaf with children, and invalid keys of a dict.
    """
    name, context = spec["type"], spec["context"]
    children = tuple(_parse_node(child, namedtuples) for child in spec["children_spec"])
    # The type of a leaf is null.
    if name is None:
        if children:
            raise _make_spec_error("a leaf has children")
        return TreeNode(None, (), ())
    if name in _DICTS:
        return TreeNode(_DICTS[name], _parse_labels(context, len(children)), children)
    if name in _SEQUENCES:
        return TreeNode(_SEQUENCES[name], tuple(range(len(children))), children)
    if name == _NAMEDTUPLE and context in namedtuples:
        return TreeNode(namedtuples[context], tuple(range(len(children))), children)
    raise _make_spec_error(f"the container {name!r} ({context!r}) is unknown")


def _parse_labels(context: str, count: int) -> tuple[Any, ...]:
    """Return the keys of a dict. Raises CheckpointError unless they are `count` different keys."""
    labels = json.loads(context)
    if not isinstance(labels, list) or any(type(label) not in _KEY_TYPES for label in labels):
        raise _make_spec_error(f"{context} is not a list of plain dict keys")
    # Equal keys, such as 1 and 1.0, would silently lose a value.
    if len(set(labels)) != count or len(labels) != count:
        raise _make_spec_error(f"a dict has {len(set(labels))} keys for {count} values")
    return tuple(labels)


def _make_spec_error(why: str) -> CheckpointError:
    """Return the error for an invalid description."""
    return CheckpointError(
        f"the checkpoint's description of its tree cannot be read: {why}",
        hint="Save the checkpoint again with plain dicts, lists and tuples, and with str or int keys.",
    )


def leaf_keys(node: TreeNode, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the dotted keys of the leaves below `node`, in the order of the values for `rebuild_tree`."""
    if node.make is None:
        yield ".".join(path)
    for label, child in zip(node.labels, node.children, strict=True):
        yield from leaf_keys(child, (*path, str(label)))


def rebuild_tree(node: TreeNode, values: Iterator[object]) -> object:
    """Return the tree of `node` with the next items of `values` as its leaves, in order.

    Raises CheckpointError if a member of a set is unhashable, or a namedtuple class has another number of fields.
    """
    if node.make is None:
        return next(values)
    children = [rebuild_tree(child, values) for child in node.children]
    try:
        # Pass pairs instead of keywords, because keys may be numbers.
        if issubclass(node.make, dict):
            return node.make(zip(node.labels, children, strict=True))
        return node.make(*children) if hasattr(node.make, "_fields") else node.make(children)
    except TypeError as e:  # an unhashable member of a set, or too many fields
        raise _make_spec_error(str(e)) from e


class _Branch(dict[str, object]):
    """An inner dict of `nest_by_keys`, as opposed to a leaf that is a dict."""


def nest_by_keys(leaves: Mapping[str, object]) -> object:
    """Return a nested structure derived from the dotted keys of `leaves`, for files without a usable description.

    The container types are guesses: keys 0..n-1 become a list, other integers become int keys of a dict, and any other
    keys a dict with string keys. Raises CheckpointError if a key is both a leaf and a container.

    >>> nest_by_keys({"a.0": 1, "a.1": 2, "b": 3})
    {'a': [1, 2], 'b': 3}
    """
    root = _Branch()
    for key, value in leaves.items():
        # The legacy description is a pickled TreeSpec, so derive the nesting from the keys.
        *parents, last = key.split(".")
        branch: object = root
        for name in parents:
            # None marks a value that has a key below it. The test after the loop raises the error.
            branch = branch.setdefault(name, _Branch()) if isinstance(branch, _Branch) else None
        if not isinstance(branch, _Branch) or last in branch:
            raise _make_spec_error(f"{key!r} is both a value and a group of values")
        branch[last] = value
    return _restore_lists(root)


def _restore_lists(value: object) -> object:
    """Return the container for a _Branch, and for all below it; any other value unchanged.

    Keys 0..n-1 give a list, other integers a dict with ascending int keys, and any other keys a dict with string keys.
    """
    if not isinstance(value, _Branch):
        return value
    children = {name: _restore_lists(child) for name, child in value.items()}
    # `isdecimal` also accepts "01" and digits of other scripts, which the writer never produces.
    if not children or not all(name.isdecimal() and str(int(name)) == name for name in children):
        return children
    # A dict with the keys 0..n-1, such as optimizer state, is indistinguishable from a list. A list is more likely, and
    # both are indexed alike.
    if set(children) == {str(i) for i in range(len(children))}:
        return [children[str(i)] for i in range(len(children))]
    return {int(name): children[name] for name in sorted(children, key=int)}
