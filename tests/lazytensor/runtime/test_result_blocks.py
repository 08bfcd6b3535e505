"""Large results are the caller's to keep: no later step changes them, and memory that no array shows is used again."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazytensor.compiler.pipeline import HOST, compile_graph
from lazytensor.core.dtype import float32
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Type
from lazytensor.ops import call
from lazytensor.ops.reduce import reduce
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.result_blocks import owned_fetches
from lazytensor.runtime.state_store import Store
from lazytensor.testing import batch

SHAPE = (512, 512)  # 1 MiB
X = np.random.default_rng(0).standard_normal(SHAPE, "f4")


@cache
def doubling(*outputs):
    """A step that doubles its batch, and gives the result in other shapes or parts as asked."""
    x = batch(0, Type(SHAPE, float32))
    y = call("add", x, x)
    makers = {
        "whole": lambda: y,
        "flat": lambda: call("reshape", y, shape=(y.type.size,)),
        "sum": lambda: reduce(y, "add", (0, 1)),
    }
    return HostBackend().compile(compile_graph(Graph((x,), {}, tuple(makers[o]() for o in outputs), {}), HOST), Store())


@given(st.lists(st.sampled_from(["keep", "keep a part", "drop", "feed back"]), min_size=1, max_size=8))
def test_a_result_stays_as_it_is_while_anything_of_it_is_held(ways):
    step = doubling("whole", "sum")
    assert step.owned == {0}
    held, given_batch = [], X
    for n, way in enumerate(ways):
        expected = 2 * given_batch
        result = step.step([given_batch])[0]
        np.testing.assert_array_equal(result, expected)
        if way == "feed back":
            given_batch = result
        elif way == "keep":
            held.append((result, expected))
        elif way == "keep a part":
            held.append((result[n::3].T, expected[n::3].T))
        del result
    for result, expected in held:
        np.testing.assert_array_equal(result, expected)


def place(array):
    return array.__array_interface__["data"][0]


def test_a_loop_that_holds_one_result_uses_two_blocks():
    step, places = doubling("flat"), []
    result = None
    for _ in range(6):
        result = step.step([X])[0]  # the one before is held until now
        places.append(place(result))
    assert result.shape == (X.size,) and len(set(places)) == 2 and places[:2] * 3 == places


def test_memory_that_no_array_shows_is_written_again():
    step = doubling("whole")
    assert len({place(step.step([X])[0]) for _ in range(4)}) == 1


@pytest.mark.parametrize(("outputs", "owned"), [(("sum",), set()), (("whole", "flat"), set()), (("flat", "sum"), {0})])
def test_large_results_that_share_their_memory_with_no_other_are_owned(outputs, owned):
    program = doubling(*outputs).program
    assert set(owned_fetches(program)) == owned
