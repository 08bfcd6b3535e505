"""Structures of tensors keep their classes when their tensors are replaced."""

from collections import Counter, OrderedDict, UserDict, defaultdict, namedtuple

import pytest

import lazytensor as lt
from cstorch_compat.cerebras.pytorch.utils.nest import map_torch_tensors
from cstorch_compat.files.tree import flatten, map_tensors

Pair = namedtuple("Pair", "first second")


class Own(dict):
    """A subclass of dict."""


@pytest.mark.parametrize(
    "wrap",
    [
        dict,
        OrderedDict,
        UserDict,
        Own,
        lambda pairs: defaultdict(list, pairs),
        lambda pairs: [v for _, v in pairs],
        lambda pairs: tuple(v for _, v in pairs),
        lambda pairs: Pair(*(v for _, v in pairs)),
    ],
    ids=["dict", "OrderedDict", "UserDict", "subclass", "defaultdict", "list", "tuple", "namedtuple"],
)
def test_containers_are_copied_with_their_class(wrap):
    tree = wrap([("a", lt.ones(2)), ("b", wrap([("c", lt.zeros(1)), ("d", "text")]))])
    results = [
        map_tensors(tree, lambda t: t + 1),
        map_torch_tensors(lambda path, t: t + 1, tree),
    ]
    for new in results:
        assert type(new) is type(tree) and new is not tree
        assert [(path, t.tolist()) for path, t in flatten(new)] == [
            (path, (t + 1).tolist()) for path, t in flatten(tree)
        ]
        assert getattr(new, "default_factory", None) is getattr(tree, "default_factory", None)
    assert [t.tolist() for _, t in flatten(tree)] == [[1, 1], [0]]


def test_counter_is_kept():
    counter = Counter(a=3, b=1)
    assert map_tensors({"n": counter}, lambda t: t)["n"] is counter
    assert map_torch_tensors(lambda path, t: t, {"n": counter})["n"] is counter
