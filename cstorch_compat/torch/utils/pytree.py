"""Leaves of nested containers with their ways from the top: the rest of `torch.utils._pytree`."""

import dataclasses
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lazytensor.core import pytree
from lazytensor.core.pytree import SUPPORTED_NODES, LeafSpec, TreeSpec

PyTree = Any
"""What a tree may be: anything."""
IsLeaf = Callable[[Any], bool] | None


@dataclass(frozen=True)
class SequenceKey:
    """A step to an element of a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """What the step leads to."""
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """A step to a value of a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """What the step leads to."""
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """A step to a field of a named tuple."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """What the step leads to."""
        return getattr(obj, self.name)


KeyEntry = SequenceKey | MappingKey | GetAttrKey
KeyPath = tuple[KeyEntry, ...]


def _child_keys(spec: TreeSpec) -> Iterable[KeyEntry]:
    """The steps to the children of a container."""
    if spec.type is namedtuple:
        return map(GetAttrKey, spec.context._fields)
    if isinstance(spec.type, type) and issubclass(spec.type, Mapping):
        # A defaultdict keeps its factory beside its keys.
        return map(MappingKey, spec.context[1] if isinstance(spec.context, tuple) else spec.context)
    return map(SequenceKey, range(len(spec.children_specs)))


def _leaf_paths(spec: TreeSpec, above: KeyPath) -> Iterator[KeyPath]:
    if spec.is_leaf():
        yield above
        return
    for step, child in zip(_child_keys(spec), spec.children_specs, strict=True):
        yield from _leaf_paths(child, (*above, step))


def tree_flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """The leaves from left to right, each with its path, and the shape."""
    leaves, spec = pytree.tree_flatten(tree, is_leaf)
    return list(zip(_leaf_paths(spec, ()), leaves, strict=True)), spec


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """The leaves from left to right, each with its path."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """The tree with func(path, leaf, leaves of the other trees at its place) for each leaf."""
    paths = iter([path for path, _ in tree_leaves_with_path(tree, is_leaf)])
    # Leaves are mapped from left to right, which is the order of the paths.
    return pytree.tree_map(lambda *leaves: func(next(paths), *leaves), tree, *rests, is_leaf=is_leaf)


def keystr(kp: KeyPath) -> str:
    """A path as Python would write it."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What a path leads to."""
    for step in kp:
        obj = step.get(obj)
    return obj


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves from left to right, one at a time."""
    yield from pytree.tree_leaves(tree, is_leaf)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Call func(leaf, leaves of the other trees) for each leaf, and give the tree back."""
    pytree.tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only_(kinds: Any, func: Callable[[Any], Any], tree: Any) -> Any:
    """Call func(leaf) for each leaf of some types, and give the tree back."""
    pytree.tree_map_only(kinds, func, tree)
    return tree


def tree_all_only(kinds: Any, pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether something holds for every leaf of some types."""
    return all(pred(leaf) for leaf in pytree.tree_leaves(tree) if isinstance(leaf, kinds))


def tree_any_only(kinds: Any, pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether something holds for a leaf of some types."""
    return any(pred(leaf) for leaf in pytree.tree_leaves(tree) if isinstance(leaf, kinds))


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether a tree is nothing but a leaf."""
    return pytree.tree_structure(tree, is_leaf).is_leaf()


def treespec_leaf() -> TreeSpec:
    """The shape of a leaf."""
    return LeafSpec


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of the arguments of a call."""
    return pytree.tree_leaves((args, kwargs))


def is_namedtuple(obj: Any) -> bool:
    """Whether something is a named tuple, or the class of one."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_instance(obj: Any) -> bool:
    """Whether something is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple_class(cls: Any) -> bool:
    """Whether something is the class of named tuples."""
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def register_dataclass(cls: type, *, field_names: list[str] | None = None, **_: Any) -> None:
    """Let objects of a dataclass be entered, field by field."""
    # Fields that are left out are not entered, and have to have defaults.
    names = list(field_names or [f.name for f in dataclasses.fields(cls)])
    pytree.register_pytree_node(
        cls,
        lambda x: ([getattr(x, name) for name in names], names),
        lambda values, fields: cls(**dict(zip(fields, values, strict=True))),
    )


def deregister_pytree_node(cls: type) -> None:
    """Enter objects of a class no more."""
    SUPPORTED_NODES.pop(cls, None)
