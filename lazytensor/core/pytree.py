"""Flatten nested containers into a list of leaves and a tree structure, with the API of `torch.utils._pytree`."""

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

Flatten = Callable[[Any], tuple[list[Any], Any]]
Unflatten = Callable[[list[Any], Any], Any]


class NodeDef(NamedTuple):
    """The two functions of a container type: flatten into (children, context), and unflatten from them."""

    flatten_fn: Flatten
    unflatten_fn: Unflatten


def _dict_flatten(d: Any) -> tuple[list[Any], Any]:
    return list(d.values()), list(d.keys())


def _dict_unflatten(values: Iterable[Any], keys: Any) -> dict[Any, Any]:
    return dict(zip(keys, values, strict=True))


def _default_flatten(d: Any) -> tuple[list[Any], Any]:
    return list(d.values()), (d.default_factory, list(d.keys()))


def _default_unflatten(values: Iterable[Any], context: Any) -> defaultdict[Any, Any]:
    return defaultdict(context[0], zip(context[1], values, strict=True))


# Keyed by exact class, as in PyTorch: an unregistered subclass of dict is a leaf, because its constructor is unknown.
# Keys keep their order and are not sorted, so that unflattening gives the same dict back.
SUPPORTED_NODES: dict[Any, NodeDef] = {
    list: NodeDef(lambda x: (list(x), None), lambda values, _: list(values)),
    tuple: NodeDef(lambda x: (list(x), None), lambda values, _: tuple(values)),
    dict: NodeDef(_dict_flatten, _dict_unflatten),
    OrderedDict: NodeDef(_dict_flatten, lambda values, keys: OrderedDict(zip(keys, values, strict=True))),
    defaultdict: NodeDef(_default_flatten, _default_unflatten),
    deque: NodeDef(lambda x: (list(x), x.maxlen), lambda values, most: deque(values, maxlen=most)),
    # One entry for all named tuples, under the function `namedtuple`; the context is their class.
    namedtuple: NodeDef(lambda x: (list(x), type(x)), lambda values, kind: kind(*values)),
}
"""The container types, by exact class; every other object is a leaf."""


@dataclass(frozen=True)
class TreeSpec:
    """The structure of a tree: container type, context (such as dict keys), and structures of the children.

    The structure of a leaf has type None.
    """

    type: Any
    context: Any
    children_specs: tuple["TreeSpec", ...]

    def __post_init__(self) -> None:
        # Libraries may pass a list; a tuple makes the structure immutable and hashable.
        object.__setattr__(self, "children_specs", tuple(self.children_specs))

    @property
    def num_leaves(self) -> int:
        """The number of leaves."""
        return 1 if self.type is None else sum(c.num_leaves for c in self.children_specs)

    @property
    def num_nodes(self) -> int:
        """The number of containers and leaves."""
        return 1 + sum(c.num_nodes for c in self.children_specs)

    @property
    def num_children(self) -> int:
        """The number of children of the outermost container; 0 for a leaf."""
        return len(self.children_specs)

    def children(self) -> list["TreeSpec"]:
        """Return the structures of the children as a list."""
        return list(self.children_specs)

    def child(self, index: int) -> "TreeSpec":
        """Return the structure of child `index`."""
        return self.children_specs[index]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return a tree with this structure and the given leaves. Raises ValueError if their number does not fit."""
        return tree_unflatten(leaves, self)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Return the subtrees of `tree` at the positions of this structure's leaves.

        Raises ValueError if `tree` does not have this structure above them. The order of dict keys counts.
        """
        return _flatten_up_to(self, tree)

    def is_leaf(self) -> bool:
        """Return whether the structure is a single leaf."""
        return self.type is None

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        return f"TreeSpec({self.type.__name__}, {self.context}, [{', '.join(map(repr, self.children_specs))}])"


LeafSpec = TreeSpec(None, None, ())


def register_pytree_node(cls: type, flatten_fn: Flatten, unflatten_fn: Unflatten, **_: Any) -> None:
    """Register a class as a container, with functions that flatten and unflatten it.

    `flatten_fn(object)` returns (children, context), and `unflatten_fn(children, context)` the object. Subclasses are
    not registered. Other keyword arguments are ignored. Raises ValueError if the class is already registered.
    """
    # A second registration would make existing structures inconsistent with their trees.
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.\n  Remove the second registration.")
    SUPPORTED_NODES[cls] = NodeDef(flatten_fn, unflatten_fn)


def container_type(tree: Any) -> Any:
    """Return the key of a container in `SUPPORTED_NODES`; None for a leaf."""
    if type(tree) in SUPPORTED_NODES:
        return type(tree)
    # All named tuples share one entry; their class is the context.
    return namedtuple if isinstance(tree, tuple) and hasattr(tree, "_fields") else None


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves of a tree from left to right, and its structure.

    A container for which `is_leaf(container)` is true is treated as a leaf; `is_leaf` is called for containers only.
    """
    kind = container_type(tree)
    # `is_leaf` is called only for containers, because every other object is a leaf anyway.
    if kind is None or (is_leaf is not None and is_leaf(tree)):
        return [tree], LeafSpec
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    parts = [tree_flatten(c, is_leaf) for c in children]
    return [leaf for leaves, _ in parts for leaf in leaves], TreeSpec(kind, context, tuple(s for _, s in parts))


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """Return the tree with the structure `treespec` and the given leaves, in the order of `tree_flatten`.

    Raises ValueError if the number of leaves does not fit.
    """
    items = list(leaves)
    if len(items) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(items)} but the spec refers to a pytree that "
            f"holds {treespec.num_leaves} items ({treespec}).\n  Pass as many leaves as the spec holds."
        )
    return _build_tree(iter(items), treespec)


def _build_tree(leaves: Any, spec: TreeSpec) -> Any:
    if spec.type is None:
        return next(leaves)
    return SUPPORTED_NODES[spec.type].unflatten_fn([_build_tree(leaves, s) for s in spec.children_specs], spec.context)


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Return a tree of the same structure with each leaf replaced by `func(leaf, *corresponding parts of rests)`.

    A tree in `rests` may have a container where `tree` has a leaf; `func` gets the whole container. `is_leaf` is as in
    `tree_flatten`. Raises ValueError if a tree in `rests` does not have the structure of `tree` above its leaves.
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [_flatten_up_to(spec, r) for r in rests]
    return tree_unflatten([func(*parts) for parts in zip(leaves, *others, strict=True)], spec)


def _flatten_up_to(spec: TreeSpec, tree: Any) -> list[Any]:
    """Return the subtrees of `tree` at the positions of the leaves of `spec`.

    Raises ValueError if `tree` has other containers, contexts or numbers of children above them.
    """
    if spec.type is None:
        return [tree]
    # Compare from the root down: at the position of a leaf of the first tree, another tree may have a container.
    if container_type(tree) is not spec.type:
        raise ValueError(
            f"Node type mismatch; expected {spec.type}, but got {type(tree)}.\n  Pass a tree of the type of the spec."
        )
    children, context = SUPPORTED_NODES[spec.type].flatten_fn(tree)
    # As in PyTorch, the order of keys counts: dicts with different orders have different structures.
    if len(children) != len(spec.children_specs) or context != spec.context:
        raise ValueError(
            f"Node arity or context mismatch; expected {spec}, but got {tree!r}."
            "\n  Pass a tree of the structure of the spec."
        )
    return [leaf for s, c in zip(spec.children_specs, children, strict=True) for leaf in _flatten_up_to(s, c)]


def tree_map_only(kinds: Any, func: Callable[[Any], Any], tree: Any) -> Any:
    """Return a tree with `func(leaf)` for each leaf that is an instance of `kinds`; other leaves are unchanged."""
    return tree_map(lambda x: func(x) if isinstance(x, kinds) else x, tree)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the leaves of a tree from left to right; `is_leaf` is as in `tree_flatten`."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """Return the structure of a tree; `is_leaf` is as in `tree_flatten`."""
    return tree_flatten(tree, is_leaf)[1]


def tree_all(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Return whether `pred(leaf)` is true for every leaf."""
    return all(map(pred, tree_leaves(tree)))


def tree_any(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Return whether `pred(leaf)` is true for at least one leaf."""
    return any(map(pred, tree_leaves(tree)))


# The name before PyTorch 2.2, which some libraries still use.
_register_pytree_node = register_pytree_node
