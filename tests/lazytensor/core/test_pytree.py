"""Trees of containers, and the protocols by which tensors meet other libraries."""

from collections import OrderedDict, defaultdict, deque, namedtuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor.core import pytree

Pair = namedtuple("Pair", "left right")
TREES = st.recursive(
    st.integers(),
    lambda t: (
        st.lists(t, max_size=3)
        | st.tuples(t, t)
        | st.builds(Pair, t, t)
        | st.dictionaries(st.text(max_size=2), t, max_size=3)
        | st.builds(OrderedDict, st.dictionaries(st.text(max_size=2), t, max_size=2))
        | st.builds(deque, st.lists(t, max_size=2), st.just(4))
        | st.builds(lambda d: defaultdict(list, d), st.dictionaries(st.integers(0, 3), t, max_size=2))
    ),
    max_leaves=10,
)


@settings(max_examples=150, deadline=None)
@given(TREES)
def test_tree_comes_back_from_leaves_and_shape(tree):
    leaves, spec = pytree.tree_flatten(tree)
    built = pytree.tree_unflatten(leaves, spec)
    assert built == tree and type(built) is type(tree) and spec.num_leaves == len(leaves)
    assert pytree.tree_map(lambda x, y: x + y, tree, tree) == pytree.tree_map(lambda x: 2 * x, tree)
    assert pytree.tree_structure(built) == spec
    assert pytree.tree_leaves(pytree.tree_map_only(str, len, tree)) == leaves
    if isinstance(built, deque):
        assert built.maxlen == 4


def test_trees_that_do_not_fit_are_refused():
    spec = pytree.tree_structure([1, (2, 3)])
    with pytest.raises(ValueError, match="length 2"):
        pytree.tree_unflatten([1, 2], spec)
    with pytest.raises(ValueError, match="mismatch"):
        pytree.tree_map(max, [1, 2], (1, 2))
    with pytest.raises(ValueError, match="mismatch"):
        pytree.tree_map(max, {"a": 1}, {"b": 1})
    assert pytree.tree_map(lambda x, y: (x, y), [1], [[5, 6]]) == [(1, [5, 6])]
    assert pytree.tree_leaves([1, [2]], is_leaf=lambda x: x == [2]) == [1, [2]]
    assert pytree.tree_all(bool, [1, [2]]) and pytree.tree_any(bool, [0, [2]]) and not pytree.tree_any(bool, [])


class Box:
    def __init__(self, inside):
        self.inside = inside


def test_registered_class_is_entered_once_it_is_known():
    assert len(pytree.tree_leaves(Box([1, 2]))) == 1
    pytree._register_pytree_node(Box, lambda b: ([b.inside], None), lambda v, _: Box(v[0]))
    try:
        assert pytree.tree_map(str, Box([1, 2])).inside == ["1", "2"]
        with pytest.raises(ValueError, match="already registered"):
            pytree.register_pytree_node(Box, None, None)
    finally:
        del pytree.SUPPORTED_NODES[Box]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([lt.float64, lt.float32, lt.float16, lt.int64, lt.int8, lt.uint8, lt.bool_]), st.integers(0, 9))
def test_dlpack_carries_values_both_ways(dtype, n):
    x = lt.arange(n).to(dtype)
    array = np.from_dlpack(x)
    assert array.tolist() == x.tolist() and array.dtype.itemsize == dtype.itemsize
    back = lt.from_dlpack(array)
    assert back.tolist() == x.tolist() and back.dtype is dtype


def test_dlpack_refuses_what_it_cannot_hold():
    with pytest.raises(BufferError, match="require gradient"):
        np.from_dlpack(lt.ones(1, requires_grad=True))
    with pytest.raises(BufferError, match="bfloat16"):
        np.from_dlpack(lt.ones(1).bfloat16())


def test_pointers_tell_storages_and_places_apart():
    x, y = lt.zeros(4), lt.zeros(4)
    assert x.data_ptr() == x.detach().data_ptr() == x.view(2, 2).data_ptr() != y.data_ptr()
    assert x[1:].data_ptr() == x.data_ptr() + 4 and lt.zeros(0).data_ptr() == 0
    assert x.is_set_to(x.detach()) and not x.is_set_to(y) and not x.is_set_to(x[1:])


def test_facts_of_memory_and_type():
    x = lt.zeros(2, 3, dtype=lt.float16)
    assert (x.itemsize, x.element_size(), x.nbytes, x.stride()) == (2, 2, 12, (3, 1))
    assert x.type() == "torch.HalfTensor" and x.type("torch.LongTensor").dtype is lt.int64
    assert x.type(lt.float64).type() == "torch.DoubleTensor"
    assert lt.is_same_size(x, lt.ones(2, 3)) and not x.is_same_size(x[0])
    assert x.is_signed() and not lt.ones(1, dtype=lt.uint8).is_signed() and not x.is_cuda
    with pytest.raises(ValueError, match="invalid type"):
        x.type("torch.OddTensor")
