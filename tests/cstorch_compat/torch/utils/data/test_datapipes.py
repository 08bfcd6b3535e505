"""Chained data pipes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cstorch_compat.torch.utils.data.datapipes import IterableWrapper, IterDataPipe, functional_datapipe


@given(st.lists(st.integers()), st.integers(1, 5), st.booleans())
def test_a_chain_of_pipes_is_the_comprehension(items, size, drops):
    pipe = IterableWrapper(items).filter(lambda x: x % 2).map(lambda x: x + 1).batch(size, drop_last=drops)
    expected = [x + 1 for x in items if x % 2]
    batches = [expected[k : k + size] for k in range(0, len(expected), size)]
    assert list(pipe) == [b for b in batches if not drops or len(b) == size]
    assert list(pipe) == list(pipe)


def test_a_registered_class_is_a_method_of_all_pipes_and_a_name_is_registered_once():
    def register():
        @functional_datapipe("twice")
        class Twice(IterDataPipe):
            def __init__(self, source):
                self.source = source

            def __iter__(self):
                for item in self.source:
                    yield from (item, item)

    register()
    assert list(IterableWrapper([1, 2]).twice()) == [1, 1, 2, 2]
    with pytest.raises(ValueError, match="already taken"):
        register()
    with pytest.raises(TypeError):
        functional_datapipe("other")(dict)
    with pytest.raises(AttributeError, match="no attribute 'thrice'"):
        IterableWrapper([1]).thrice  # noqa: B018
