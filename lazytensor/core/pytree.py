"""Nested containers as a list of leaves and a shape, under the names of torch.utils._pytree."""

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

Flatten = Callable[[Any], tuple[list[Any], Any]]
Unflatten = Callable[[list[Any], Any], Any]


class NodeDef(NamedTuple):
    """How a container is taken apart and put together: children and a context, and back."""

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


# Keyed by the exact type, as PyTorch's: a subclass of dict that nobody registered is a leaf, since nothing says how to
# build one. Keys keep their order and are not sorted, so that unflattening gives the same dict back.
SUPPORTED_NODES: dict[Any, NodeDef] = {
    list: NodeDef(lambda x: (list(x), None), lambda values, _: list(values)),
    tuple: NodeDef(lambda x: (list(x), None), lambda values, _: tuple(values)),
    dict: NodeDef(_dict_flatten, _dict_unflatten),
    OrderedDict: NodeDef(_dict_flatten, lambda values, keys: OrderedDict(zip(keys, values, strict=True))),
    defaultdict: NodeDef(_default_flatten, _default_unflatten),
    deque: NodeDef(lambda x: (list(x), x.maxlen), lambda values, most: deque(values, maxlen=most)),
    # One row for all named tuples, under the factory itself: each has a class of its own, which goes into the context.
    namedtuple: NodeDef(lambda x: (list(x), type(x)), lambda values, kind: kind(*values)),
}
"""The containers that are entered; every other object is a leaf."""


@dataclass(frozen=True)
class TreeSpec:
    """The shape of a tree: the kind of container, its context, and the shapes of the children. A leaf has kind None."""

    type: Any
    context: Any
    children_specs: tuple["TreeSpec", ...]

    def __post_init__(self) -> None:
        # Libraries give a list; as a tuple a shape stays what it is, and can be a key.
        object.__setattr__(self, "children_specs", tuple(self.children_specs))

    @property
    def num_leaves(self) -> int:
        """How many leaves such a tree has."""
        return 1 if self.type is None else sum(c.num_leaves for c in self.children_specs)

    @property
    def num_nodes(self) -> int:
        """How many containers and leaves such a tree has."""
        return 1 + sum(c.num_nodes for c in self.children_specs)

    @property
    def num_children(self) -> int:
        """How many members the outermost container has; 0 of a leaf."""
        return len(self.children_specs)

    def children(self) -> list["TreeSpec"]:
        """The shapes of the members."""
        return list(self.children_specs)

    def child(self, index: int) -> "TreeSpec":
        """The shape of a member."""
        return self.children_specs[index]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this shape over leaves."""
        return tree_unflatten(leaves, self)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """What stands in a tree where this shape has its leaves."""
        return _flatten_up_to(self, tree)

    def is_leaf(self) -> bool:
        """Whether the tree is nothing but a leaf."""
        return self.type is None

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        return f"TreeSpec({self.type.__name__}, {self.context}, [{', '.join(map(repr, self.children_specs))}])"


LeafSpec = TreeSpec(None, None, ())


def register_pytree_node(cls: type, flatten_fn: Flatten, unflatten_fn: Unflatten, **_: Any) -> None:
    """Let objects of a class be entered. Raises ValueError for a class that is known."""
    # Two ways to take one class apart would make specs that do not fit their trees.
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(flatten_fn, unflatten_fn)


def _container_type(tree: Any) -> Any:
    if type(tree) in SUPPORTED_NODES:
        return type(tree)
    # Named tuples are classes of their own each; they share one entry, and their class is the context.
    return namedtuple if isinstance(tree, tuple) and hasattr(tree, "_fields") else None


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves from left to right, and the shape."""
    kind = _container_type(tree)
    # The caller may stop at a container: it is then a leaf whatever it holds.
    # `is_leaf` is asked of containers alone; what is no container is a leaf without being asked.
    if kind is None or (is_leaf is not None and is_leaf(tree)):
        return [tree], LeafSpec
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    parts = [tree_flatten(c, is_leaf) for c in children]
    return [leaf for leaves, _ in parts for leaf in leaves], TreeSpec(kind, context, tuple(s for _, s in parts))


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of a shape over leaves. Raises ValueError if there are too few or too many."""
    items = list(leaves)
    if len(items) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(items)} but the spec refers to a pytree that "
            f"holds {treespec.num_leaves} items ({treespec})."
        )
    return _build_tree(iter(items), treespec)


def _build_tree(leaves: Any, spec: TreeSpec) -> Any:
    if spec.type is None:
        return next(leaves)
    return SUPPORTED_NODES[spec.type].unflatten_fn([_build_tree(leaves, s) for s in spec.children_specs], spec.context)


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The tree with func(leaf, leaves of the other trees at its place) for each leaf."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [_flatten_up_to(spec, r) for r in rests]
    return tree_unflatten([func(*parts) for parts in zip(leaves, *others, strict=True)], spec)


def _flatten_up_to(spec: TreeSpec, tree: Any) -> list[Any]:
    """What stands in a tree where `spec` has its leaves. Raises ValueError if the tree has another shape above them."""
    if spec.type is None:
        return [tree]
    # Compared from the root down and not leaf by leaf: below a leaf of the first tree another may hold a whole
    # container.
    if _container_type(tree) is not spec.type:
        raise ValueError(f"Node type mismatch; expected {spec.type}, but got {type(tree)}.")
    children, context = SUPPORTED_NODES[spec.type].flatten_fn(tree)
    # The order of keys counts, as in the original: two dicts with other orders are other trees.
    if len(children) != len(spec.children_specs) or context != spec.context:
        raise ValueError(f"Node arity or context mismatch; expected {spec}, but got {tree!r}.")
    return [leaf for s, c in zip(spec.children_specs, children, strict=True) for leaf in _flatten_up_to(s, c)]


def tree_map_only(kinds: Any, func: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with func(leaf) for each leaf of some types."""
    return tree_map(lambda x: func(x) if isinstance(x, kinds) else x, tree)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves from left to right."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The shape."""
    return tree_flatten(tree, is_leaf)[1]


def tree_all(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether something holds for every leaf."""
    return all(map(pred, tree_leaves(tree)))


def tree_any(pred: Callable[[Any], bool], tree: Any) -> bool:
    """Whether something holds for a leaf."""
    return any(map(pred, tree_leaves(tree)))


# The name from before PyTorch 2.2, which libraries still call.
_register_pytree_node = register_pytree_node
