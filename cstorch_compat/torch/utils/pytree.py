"""Functions of `torch.utils._pytree` with paths of leaves, and other functions that lazytensor does not define."""

import dataclasses
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lazytensor.core import pytree
from lazytensor.core.pytree import SUPPORTED_NODES, TreeSpec

PyTree = Any
"""The type of a tree, which can be any object."""
IsLeaf = Callable[[Any], bool] | None


class _LeafSpecType(type):
    """The metaclass of LeafSpec: every structure of a single leaf is an instance of it."""

    def __instancecheck__(cls, spec: object) -> bool:
        return isinstance(spec, TreeSpec) and spec.is_leaf()


class LeafSpec(metaclass=_LeafSpecType):
    """The class of structures of a single leaf. A call returns the only such structure."""

    def __new__(cls) -> Any:
        """Return the structure of a single leaf."""
        return pytree.LeafSpec


def _get_node_type(tree: Any) -> Any:
    """Return the type of a tree by which `SUPPORTED_NODES` has it, or the type of a leaf.

    The type of a named tuple is the function `namedtuple`.
    """
    kind = pytree.container_type(tree)
    return type(tree) if kind is None else kind


def _is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Return whether `tree` is no container, or `is_leaf(tree)` is true."""
    return pytree.container_type(tree) is None or (is_leaf is not None and is_leaf(tree))


@dataclass(frozen=True)
class SequenceKey:
    """A path element that selects an item of a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """Return the selected item."""
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """A path element that selects a value of a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """Return the selected value."""
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """A path element that selects a field of a named tuple."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """Return the selected field."""
        return getattr(obj, self.name)


KeyEntry = SequenceKey | MappingKey | GetAttrKey
KeyPath = tuple[KeyEntry, ...]


def _child_keys(spec: TreeSpec) -> Iterable[KeyEntry]:
    """Return the path elements of the children of a container."""
    if spec.type is namedtuple:
        return map(GetAttrKey, spec.context._fields)
    if isinstance(spec.type, type) and issubclass(spec.type, Mapping):
        # The context of a defaultdict is its factory and its keys.
        return map(MappingKey, spec.context[1] if isinstance(spec.context, tuple) else spec.context)
    return map(SequenceKey, range(len(spec.children_specs)))


def _leaf_paths(spec: TreeSpec, above: KeyPath) -> Iterator[KeyPath]:
    if spec.is_leaf():
        yield above
        return
    for step, child in zip(_child_keys(spec), spec.children_specs, strict=True):
        yield from _leaf_paths(child, (*above, step))


def tree_flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Return the leaves from left to right, each as a pair (path, leaf), and the structure of the tree."""
    leaves, spec = pytree.tree_flatten(tree, is_leaf)
    return list(zip(_leaf_paths(spec, ()), leaves, strict=True)), spec


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """Return the leaves from left to right, each as a pair (path, leaf)."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Return the tree with each leaf replaced by `func(path, leaf, *leaves of rests at the same path)`."""
    paths = iter([path for path, _ in tree_leaves_with_path(tree, is_leaf)])
    # Leaves are mapped in the order of the paths.
    return pytree.tree_map(lambda *leaves: func(next(paths), *leaves), tree, *rests, is_leaf=is_leaf)


def keystr(kp: KeyPath) -> str:
    """Return a path as text in Python syntax, such as "['a'][0]"."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """Return the part of `obj` at a path."""
    for step in kp:
        obj = step.get(obj)
    return obj


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """Yield the leaves from left to right."""
    yield from pytree.tree_leaves(tree, is_leaf)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Call `func(leaf, *leaves of rests)` for each leaf, ignore its results, and return the tree unchanged."""
    pytree.tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only_(kinds: Any, func: Callable[[Any], Any], tree: Any) -> Any:
    """Call `func(leaf)` for each leaf of the given types, and return the tree unchanged."""
    pytree.tree_map_only(kinds, func, tree)
    return tree


def tree_all_only(kinds: Any, pred: Callable[[Any], bool], tree: Any) -> bool:
    """Return whether `pred` holds for every leaf of the given types; True if there are none."""
    return all(pred(leaf) for leaf in pytree.tree_leaves(tree) if isinstance(leaf, kinds))


def tree_any_only(kinds: Any, pred: Callable[[Any], bool], tree: Any) -> bool:
    """Return whether `pred` holds for at least one leaf of the given types; False if there are none."""
    return any(pred(leaf) for leaf in pytree.tree_leaves(tree) if isinstance(leaf, kinds))


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Return whether the tree is a leaf."""
    return pytree.tree_structure(tree, is_leaf).is_leaf()


def treespec_leaf() -> TreeSpec:
    """Return the structure of a leaf."""
    return pytree.LeafSpec


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """Return the leaves of positional and keyword arguments."""
    return pytree.tree_leaves((args, kwargs))


def is_namedtuple(obj: Any) -> bool:
    """Return whether `obj` is a named tuple or a named tuple class."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_instance(obj: Any) -> bool:
    """Return whether `obj` is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple_class(cls: Any) -> bool:
    """Return whether `cls` is a named tuple class."""
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def register_dataclass(cls: type, *, field_names: list[str] | None = None, **_: Any) -> None:
    """Register a dataclass as a container of its fields.

    With `field_names`, only these fields are children; the others need default values.
    """
    names = list(field_names or [f.name for f in dataclasses.fields(cls)])
    pytree.register_pytree_node(
        cls,
        lambda x: ([getattr(x, name) for name in names], names),
        lambda values, fields: cls(**dict(zip(fields, values, strict=True))),
    )


def deregister_pytree_node(cls: type) -> None:
    """Unregister a class, so that its objects are leaves again."""
    SUPPORTED_NODES.pop(cls, None)
