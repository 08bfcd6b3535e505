"""Operators on nodes and on patterns are calls of operations, and nothing else."""

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazytensor.core import dtype as dt
from lazytensor.ir.graph import Node
from lazytensor.ir.pattern import any_
from lazytensor.ir.types import Type
from lazytensor.ops import call, full
from lazytensor.ops.elementwise import eq, ne, where
from lazytensor.testing import batch

BINARY = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "pow": operator.pow,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
    "eq": eq,
    "ne": ne,
}
ARITHMETIC = ("add", "sub", "mul", "div", "pow")
every_operator = pytest.mark.parametrize("name", BINARY)
types = st.builds(
    Type,
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
    st.sampled_from((dt.float32, dt.float64, dt.bfloat16, dt.int64)),
)
numbers = st.floats() | st.integers(-(2**31), 2**31) | st.booleans()


def fits(number: float, type: Type) -> bool:
    return type.dtype.kind == "f" or not isinstance(number, float)


@every_operator
@given(type=types)
def test_an_operator_gives_the_very_node_that_call_gives(name, type):
    a, b = batch(0, type), batch(1, type)
    assert BINARY[name](a, b) is call(name, a, b)
    assert -a is call("neg", a)


@every_operator
@given(type=types, number=numbers)
@pytest.mark.filterwarnings("ignore:overflow")
def test_a_number_is_a_constant_of_the_type_of_the_other_operand(name, type, number):
    if not fits(number, type):
        return
    a = batch(0, type)
    assert BINARY[name](a, number) is call(name, a, full(number, type))
    if name in ARITHMETIC:
        assert BINARY[name](number, a) is call(name, full(number, type), a)


@given(type=types, number=numbers)
@pytest.mark.filterwarnings("ignore:overflow")
def test_where_takes_a_number_for_either_value(type, number):
    if not fits(number, type):
        return
    a, c = batch(0, type), batch(1, Type(type.shape, dt.bool_))
    assert where(c, a, number) is call("where", c, a, full(number, type))
    assert where(c, number, a) is call("where", c, full(number, type), a)


def test_equality_of_nodes_is_identity():
    a, b = (batch(k, Type((2,), dt.float32)) for k in range(2))
    assert (a == b) is False and (a != b) is True and {a: 1}[a] == 1


def test_numpy_scalars_on_the_left_leave_the_node_whole():
    x = batch(0, Type((2,), dt.float32))
    product = np.float64(0.5) * x
    assert isinstance(product, Node) and product is 0.5 * x


@pytest.mark.parametrize("name", [n for n in BINARY if n not in ("eq", "ne")])
def test_a_pattern_matches_what_its_operators_say(name):
    a, b = (batch(k, Type((2,), dt.float32)) for k in range(2))
    combine = BINARY[name]
    bindings = {}
    assert combine(any_("x"), any_("y")).match(combine(a, b), bindings) and bindings == {"x": a, "y": b}
    assert combine(any_("x"), 2).match(combine(a, 2), {})
    assert not combine(any_("x"), 2).match(combine(a, 3), {})
    assert (-any_("x")).match(-a, {})
