"""The tree of a checkpoint: containers to dotted leaves, their JSON description, and back.

The description is what a checkpoint keeps in `__spec__`: `[outline, "[1, node]"]`, where the outline is for people and
each node names its container type, its labels (`context`) and its children.
"""

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lazytensor.errors import CheckpointError

Description = dict[str, Any]
_DICTS: dict[str, type] = {"builtins.dict": dict, "collections.OrderedDict": OrderedDict}
_SEQUENCES: dict[str, type] = {"builtins.list": list, "builtins.tuple": tuple, "builtins.set": set}
# Classes cannot be found by name without importing what a file says, so callers list those they know.
_NAMEDTUPLE = "collections.namedtuple"
_TYPE_NAMES = {kind: name for name, kind in (_DICTS | _SEQUENCES).items()}
# The nodes have the form of PyTorch's own pytree serialization, protocol 1, which the original calls and its reader
# expects to the letter.
_LEAF_SPEC: Description = {"type": None, "context": None, "children_spec": []}
# A tuple as a key would come back as a list, on which the original's load breaks.
_KEY_TYPES = (str, int, float, bool, type(None))  # what JSON gives back as it was
_SPEC_PROTOCOL = 1


@dataclass(frozen=True)
class TreeLeaf:
    """A value under its dotted key. `original` is the key of the first leaf that is the very same object."""

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
    """One container of a described tree, or a leaf when `make` is None. `labels` are its keys or positions."""

    make: Any
    labels: tuple[Any, ...]
    children: tuple["TreeNode", ...]


def flatten(tree: object, namedtuples: Mapping[str, type]) -> FlatTree:
    """The leaves and the description of `tree`.

    `namedtuples` gives each namedtuple class that may occur under the name by which the file records it. Raises
    CheckpointError for keys that the file cannot hold.
    """
    pairs: list[tuple[str, object]] = []
    names = {kind: name for name, kind in namedtuples.items()}
    try:
        node = _describe(tree, (), pairs, names)
        spec = format_spec(node)
    except RecursionError as e:
        raise CheckpointError(
            "the saved object is nested too deeply", hint="Save a flat dict; look for a list or dict that holds itself."
        ) from e
    # Checked when all keys are known: `{"a.b": x, "a": {"b": y}}` is fine as a tree, and one name in the file. The
    # original writes such a file and cannot load it.
    _check_keys([key for key, _ in pairs])
    # By identity, as the original links leaves. The tree keeps all of them alive, so no number is used twice.
    first: dict[int, str] = {}
    return FlatTree(tuple(TreeLeaf(key, value, first.setdefault(id(value), key)) for key, value in pairs), spec)


def leaf_spec(key: str) -> list[Any]:
    """The `__spec__` pair that every leaf's own metadata repeats: a dict with this one leaf."""
    return _spec_pair(key, "*", _LEAF_SPEC)


def nested_leaf_spec(key: str) -> list[Any]:
    """The same for a leaf that is described by two objects: what fills it, and the tensor that it is."""
    # The original fills such tensors through a namedtuple class of its own called so; two leaves, as its fields.
    nested = {"type": "collections.namedtuple", "context": "NestedObject", "children_spec": [_LEAF_SPEC, _LEAF_SPEC]}
    return _spec_pair(key, ["*", "*"], nested)


def _spec_pair(key: str, outline: object, child: Description) -> list[Any]:
    node = {"type": "builtins.dict", "context": json.dumps([key]), "children_spec": [child]}
    return [{key: outline}, json.dumps([_SPEC_PROTOCOL, node])]


def format_spec(node: Description) -> str:
    """The JSON text of `__spec__` for the node of the root."""
    # A set has no JSON. The outline is for people alone, so the original gives up the whole of it, and so do we.
    outline = None if _holds_set(node) else _outline(node)
    return json.dumps([outline, json.dumps([_SPEC_PROTOCOL, node])], indent=4)


def _describe(
    tree: object, path: tuple[str, ...], leaves: list[tuple[str, object]], names: Mapping[type, str]
) -> Description:
    kind = type(tree)
    # Exact types: a subclass would come back as its base, so it counts as a leaf, which the writer refuses by name.
    if isinstance(tree, dict) and kind in _TYPE_NAMES:
        name, context = _TYPE_NAMES[kind], _dict_context(tree, path)
        items: Iterable[tuple[Any, object]] = tree.items()
    elif isinstance(tree, (list, tuple, set)) and (kind in _TYPE_NAMES or kind in names):
        name, context = (_NAMEDTUPLE, names[kind]) if kind in names else (_TYPE_NAMES[kind], "null")
        items = enumerate(tree)
    else:
        leaves.append((".".join(path), tree))
        return _LEAF_SPEC
    # Depth first, in the order of the containers: leaves are later told apart by this order alone.
    children = [_describe(child, (*path, str(label)), leaves, names) for label, child in items]
    return {"type": name, "context": context, "children_spec": children}


def _dict_context(tree: dict[Any, Any], path: tuple[str, ...]) -> str:
    for key in tree:
        # By exact type: an IntEnum is an int to isinstance, and would come back as a plain number.
        if type(key) not in _KEY_TYPES:
            raise CheckpointError(
                f"the dict at {'.'.join(path)!r} has a key {key!r} of type {type(key).__name__}",
                hint="A checkpoint keeps only keys that are str, int, float, bool or None: convert this one.",
            )
    return json.dumps(list(tree))


def _check_keys(keys: list[str]) -> None:
    seen = set()
    for key in keys:
        if key in seen:
            raise CheckpointError(
                f"two values would both be stored as {key!r}",
                hint="Dotted keys and nested dicts share one name space, as do 1 and '1': rename one of them.",
            )
        check_name(key)
        seen.add(key)


MAX_KEY_BYTES = 60_000
"""Bytes of a name: what the tables of zip archives and of HDF5 have room for."""


def check_name(key: str) -> None:
    """Raise CheckpointError for a key that cannot name anything in a file."""
    # HDF5 ends names at a NUL, and lone surrogates (which file systems hand to Python) have no UTF-8.
    if "\0" in key or any("\ud800" <= c <= "\udfff" for c in key):
        raise CheckpointError(f"the key {key!r} cannot name anything in a file", hint="Use plain Unicode text.")
    if len(key.encode()) > MAX_KEY_BYTES:
        raise CheckpointError(
            f"the key {key[:40]!r}... of {len(key)} characters is too long to name anything in a file"
        )


def _outline(node: Description) -> object:
    if node["type"] is None:
        return "*"
    children = [_outline(child) for child in node["children_spec"]]
    # Tuples become lists here, as in the original's outline.
    if node["type"] in _DICTS:
        return dict(zip(json.loads(node["context"]), children, strict=True))
    return children


def _holds_set(node: Description) -> bool:
    return node["type"] == "builtins.set" or any(_holds_set(child) for child in node["children_spec"])


def parse_spec(text: object, namedtuples: Mapping[str, type]) -> TreeNode:
    """The tree that a `__spec__` text describes. Raises CheckpointError when it is not such a text."""
    try:
        # The second entry is a text within the text: it is PyTorch's, and the first one only tells people what is
        # in it.
        described = json.loads(text)[1]  # type: ignore[arg-type]
        protocol, root = json.loads(described)
        if protocol != _SPEC_PROTOCOL:
            raise _make_spec_error(f"protocol {protocol!r} is unknown")
        return _parse_node(root, namedtuples)
    except (ValueError, TypeError, LookupError, RecursionError) as e:
        raise _make_spec_error(f"{type(e).__name__}: {e}") from e


def _parse_node(spec: Description, namedtuples: Mapping[str, type]) -> TreeNode:
    name, context = spec["type"], spec["context"]
    children = tuple(_parse_node(child, namedtuples) for child in spec["children_spec"])
    # The type of a leaf is null; that of no container is.
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
    raise _make_spec_error(f"it names a container {name!r} ({context!r}) that is not known here")


def _parse_labels(context: str, count: int) -> tuple[Any, ...]:
    labels = json.loads(context)
    if not isinstance(labels, list) or any(type(label) not in _KEY_TYPES for label in labels):
        raise _make_spec_error(f"{context} is not a list of plain dict keys")
    # Two equal keys (1 and 1.0 are) would swallow a value without anybody noticing.
    if len(set(labels)) != count or len(labels) != count:
        raise _make_spec_error(f"a dict has {len(set(labels))} keys for {count} values")
    return tuple(labels)


def _make_spec_error(why: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint's description of its tree cannot be read: {why}",
        hint="Save it again from plain dicts, lists and tuples, with str or int keys.",
    )


def leaf_keys(node: TreeNode, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The dotted keys of the leaves below `node`, in the order in which `rebuild_tree` wants their values."""
    if node.make is None:
        yield ".".join(path)
    for label, child in zip(node.labels, node.children, strict=True):
        yield from leaf_keys(child, (*path, str(label)))


def rebuild_tree(node: TreeNode, values: Iterator[object]) -> object:
    """The tree of `node` with `values` as its leaves. Raises CheckpointError when they do not fit its containers."""
    if node.make is None:
        return next(values)
    children = [rebuild_tree(child, values) for child in node.children]
    try:
        # Pairs, not keywords: keys may be numbers, and their order is that of the file.
        if issubclass(node.make, dict):
            return node.make(zip(node.labels, children, strict=True))
        return node.make(*children) if hasattr(node.make, "_fields") else node.make(children)
    except TypeError as e:  # an unhashable member of a set, or too many fields
        raise _make_spec_error(str(e)) from e


class _Branch(dict[str, object]):
    """An inner dict of `nest_by_keys`, told from a leaf that happens to be a dict."""


def nest_by_keys(leaves: Mapping[str, object]) -> object:
    """The nesting that dotted keys suggest, for files whose own description is a pickle.

    The container types are a guess: keys 0..n-1 make a list, other whole numbers stay int keys, all else is a dict.
    """
    root = _Branch()
    for key, value in leaves.items():
        # The legacy description is a pickled TreeSpec, so only the keys are left to tell the nesting.
        *parents, last = key.split(".")
        branch: object = root
        for name in parents:
            # None marks a value that something tries to nest below: the test after the loop refuses it.
            branch = branch.setdefault(name, _Branch()) if isinstance(branch, _Branch) else None
        if not isinstance(branch, _Branch) or last in branch:
            raise _make_spec_error(f"{key!r} is both a value and a group of values")
        branch[last] = value
    return _restore_lists(root)


def _restore_lists(value: object) -> object:
    if not isinstance(value, _Branch):
        return value
    children = {name: _restore_lists(child) for name, child in value.items()}
    # `isdecimal` alone lets "01" and digits of other scripts through, which no str(int) of the writer gives.
    if not children or not all(name.isdecimal() and str(int(name)) == name for name in children):
        return children
    # A dict with the keys 0..n-1 (the state of an optimizer is one) cannot be told from a list; the list is the
    # likelier one, and both are indexed alike.
    if set(children) == {str(i) for i in range(len(children))}:
        return [children[str(i)] for i in range(len(children))]
    return {int(name): children[name] for name in sorted(children, key=int)}
