"""Trees with paths, as PyTorch 2.13.0 answers."""

from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass

from cstorch_compat.torch.utils import pytree as paths
from lazytensor.core.pytree import tree_flatten, tree_structure, tree_unflatten

Pair = namedtuple("Pair", "a b")
TREE = {"a": [1, (2,)], "b": Pair(3, {"c": None}), "d": OrderedDict(x=4), "e": defaultdict(int, f=5)}
PATHS = ["['a'][0]", "['a'][1][0]", "['b'].a", "['b'].b['c']", "['d']['x']", "['e']['f']"]


def test_leaves_come_with_the_ways_to_them():
    leaves, _ = paths.tree_flatten_with_path(TREE)
    assert [paths.keystr(path) for path, _ in leaves] == PATHS
    assert all(paths.key_get(TREE, path) is leaf for path, leaf in leaves)
    assert leaves[2][0] == (paths.MappingKey("b"), paths.GetAttrKey("a"))


def test_a_map_with_paths_takes_several_trees():
    joined = paths.tree_map_with_path(lambda path, x, y: (paths.keystr(path), x, y), [1, {"a": 2}], [3, {"a": 4}])
    assert joined == [("[0]", 1, 3), {"a": ("[1]['a']", 2, 4)}]


def test_a_map_in_place_gives_the_tree_back():
    seen: list[int] = []
    tree = [1, "x", 2]
    assert paths.tree_map_only_(int, seen.append, tree) is tree and seen == [1, 2]
    assert paths.tree_map_(seen.append, tree) is tree and seen[2:] == tree
    assert list(paths.tree_iter(TREE)) == paths.arg_tree_leaves(*TREE.values())


def test_questions_about_leaves_can_be_limited_to_types():
    assert paths.tree_all_only(int, lambda x: x > 0, TREE) and not paths.tree_any_only(str, bool, TREE)
    assert paths.tree_is_leaf(3) and not paths.tree_is_leaf([3]) and paths.treespec_leaf().is_leaf()
    assert paths.is_namedtuple(Pair) and paths.is_namedtuple(Pair(1, 2)) and not paths.is_namedtuple_instance((1, 2))


def test_a_dataclass_can_be_entered():
    @dataclass
    class Point:
        x: int
        y: int

    paths.register_dataclass(Point)
    try:
        leaves, spec = tree_flatten([Point(1, 2), 3])
        assert leaves == [1, 2, 3] and tree_unflatten(leaves, spec) == [Point(1, 2), 3]
    finally:
        paths.deregister_pytree_node(Point)
    assert tree_flatten([Point(1, 2)])[0] == [Point(1, 2)]


def test_a_shape_tells_of_its_members_and_builds_trees():
    leaves, spec = tree_flatten([1, {"a": 2}])
    assert (spec.num_children, spec.num_nodes, spec.num_leaves) == (2, 4, 2)
    assert spec.children()[1] == spec.child(1) and spec.child(0).num_children == 0
    assert spec.unflatten(leaves) == [1, {"a": 2}] and spec.flatten_up_to([3, {"a": [4]}]) == [3, [4]]
    # Made by hand with a list, as libraries make it.
    assert type(spec)(list, None, [spec.child(0), spec.child(1)]) == spec


def test_every_structure_of_one_leaf_is_a_leaf_spec():
    assert paths.LeafSpec() == tree_structure(1) and isinstance(tree_structure(1), paths.LeafSpec)
    assert not isinstance(tree_structure([1]), paths.LeafSpec)


def test_node_types_are_the_keys_of_supported_nodes():
    pair = namedtuple("pair", "a b")
    kinds = [paths._get_node_type(x) for x in ([1], pair(1, 2), 3, {})]
    assert kinds == [list, namedtuple, int, dict]
    assert [paths._is_leaf(x) for x in (3, [3])] == [True, False] and paths._is_leaf([3], lambda x: True)
