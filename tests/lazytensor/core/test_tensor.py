"""Tensors: views alias exactly, types promote as PyTorch's, and errors name the line that made them."""

import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor.core import dtype as dt
from lazytensor.core.capture import Capture
from lazytensor.core.step import StepRunner
from lazytensor.errors import LazyError, ShapeError
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.state_store import Store
from tests.lazytensor.tensor_programs import Step, alias_programs, alias_step

START = ((2, 3, 4), (3,))
places = st.lists(st.integers(0, 30), max_size=3)


def follow_both(program: list[Step], arrays: list, tensors: list, reads: list[int]) -> None:
    for n, step in enumerate(program):
        can_write = [a.flags.writeable for a in arrays]
        try:
            alias_step(tensors, can_write, step, is_numpy=False)
        except RuntimeError as e:
            # PyTorch refuses operands that overlap what is written; NumPy copies them first.
            assert "single memory location" in str(e) or "after it has written" in str(e)
            continue
        alias_step(arrays, can_write, step, is_numpy=True)
        if n in reads:
            assert_all_equal(arrays, tensors)


def assert_all_equal(arrays: list, tensors: list) -> None:
    for a, x in zip(arrays, tensors, strict=True):
        np.testing.assert_array_equal(x.numpy(), a)


def starts() -> tuple[list, list]:
    arrays = [np.arange(np.prod(s), dtype=np.float32).reshape(s) for s in START]
    return arrays, [lt.tensor(a) for a in arrays]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(alias_programs(), places)
def test_views_and_writes_agree_with_numpy(program, reads):
    arrays, tensors = starts()
    follow_both(program, arrays, tensors, reads)
    assert_all_equal(arrays, tensors)


@settings(max_examples=60, deadline=None)
@given(alias_programs(), places)
def test_views_and_writes_agree_with_numpy_inside_a_step(program, reads):
    arrays, tensors = starts()
    store = Store()
    runner = StepRunner(HostBackend(), store)
    runner.is_worth_compiling = lambda key: False
    for _ in range(2):
        with Capture(store, readable=True) as capture:
            follow_both(program, arrays, tensors, reads)
            runner.run(capture)
        assert_all_equal(arrays, tensors)
        arrays, tensors = arrays[:2], tensors[:2]


# -- types: recorded from PyTorch 2.13.0 with torch.result_type --------------------------------------------------------

SHORT = {"f8": "float64", "f4": "float32", "f2": "float16", "bf": "bfloat16", "i8": "int64", "i4": "int32"}
SHORT |= {"i2": "int16", "i1": "int8", "u1": "uint8", "b1": "bool"}
TYPES = {short: dt.dtype_by_name(name) for short, name in SHORT.items()}
# Row: type of the first tensor. Columns: result with a tensor of each type, then with a 0-d tensor of each type, then
# with True, 2 and 2.5.
PROMOTION = """
f8  f8 f8 f8 f8 f8 f8 f8 f8 f8 f8  f8 f8 f8 f8 f8 f8 f8 f8 f8 f8  f8 f8 f8
f4  f8 f4 f4 f4 f4 f4 f4 f4 f4 f4  f4 f4 f4 f4 f4 f4 f4 f4 f4 f4  f4 f4 f4
f2  f8 f4 f2 f4 f2 f2 f2 f2 f2 f2  f2 f2 f2 f2 f2 f2 f2 f2 f2 f2  f2 f2 f2
bf  f8 f4 f4 bf bf bf bf bf bf bf  bf bf bf bf bf bf bf bf bf bf  bf bf bf
i8  f8 f4 f2 bf i8 i8 i8 i8 i8 i8  f8 f4 f2 bf i8 i8 i8 i8 i8 i8  i8 i8 f4
i4  f8 f4 f2 bf i8 i4 i4 i4 i4 i4  f8 f4 f2 bf i4 i4 i4 i4 i4 i4  i4 i4 f4
i2  f8 f4 f2 bf i8 i4 i2 i2 i2 i2  f8 f4 f2 bf i2 i2 i2 i2 i2 i2  i2 i2 f4
i1  f8 f4 f2 bf i8 i4 i2 i1 i2 i1  f8 f4 f2 bf i1 i1 i1 i1 i1 i1  i1 i1 f4
u1  f8 f4 f2 bf i8 i4 i2 i2 u1 u1  f8 f4 f2 bf u1 u1 u1 u1 u1 u1  u1 u1 f4
b1  f8 f4 f2 bf i8 i4 i2 i1 u1 b1  f8 f4 f2 bf i8 i4 i2 i1 u1 b1  b1 i8 f4
"""


@pytest.mark.parametrize("row", PROMOTION.split("\n")[1:-1], ids=lambda row: row[:2])
def test_types_promote_as_in_pytorch(row):
    mine, *answers = row.split()
    a = lt.zeros(2, dtype=TYPES[mine])
    partners = [lt.zeros(2, dtype=d) for d in TYPES.values()] + [lt.zeros((), dtype=d) for d in TYPES.values()]
    found = [lt.result_type(a, b) for b in (*partners, True, 2, 2.5)]
    assert found == [TYPES[answer] for answer in answers]
    assert [lt.result_type(b, a) for b in partners] == found[:20]


# The type of the result for operands float64, float32, bfloat16, int64, int32, uint8 and bool; -- where PyTorch raises.
UNIFORM: dict[str, tuple[Callable, str]] = {
    "div": (lambda x: x / x, "f8 f4 bf f4 f4 f4 f4"),
    "floordiv": (lambda x: x // x, "f8 f4 bf i8 i4 u1 --"),
    "mod": (lambda x: x % x, "f8 f4 bf i8 i4 u1 --"),
    "mul": (lambda x: x * x, "f8 f4 bf i8 i4 u1 b1"),
    "add": (lambda x: x + x, "f8 f4 bf i8 i4 u1 b1"),
    "sub": (lambda x: x - x, "f8 f4 bf i8 i4 u1 !!"),
    "neg": (lambda x: -x, "f8 f4 bf i8 i4 u1 !!"),
    "pow": (lambda x: x**x, "f8 f4 bf i8 i4 u1 --"),
    "square": (lambda x: x**2, "f8 f4 bf i8 i4 u1 i8"),
    "square2": (lambda x: x.square(), "f8 f4 bf i8 i4 u1 i8"),
    "reflected pow": (lambda x: 2**x, "f8 f4 bf i8 i4 u1 i8"),
    "reflected div": (lambda x: 1 / x, "f8 f4 bf f4 f4 f4 f4"),
    "times half": (lambda x: x * 0.5, "f8 f4 bf f4 f4 f4 f4"),
    "plus one": (lambda x: x + 1, "f8 f4 bf i8 i4 u1 i8"),
    "gt": (lambda x: x > x, "b1 b1 b1 b1 b1 b1 b1"),
    "eq": (lambda x: x == 1, "b1 b1 b1 b1 b1 b1 b1"),
    "invert": (lambda x: ~x, "!! !! !! i8 i4 u1 b1"),
    "abs": (lambda x: abs(x), "f8 f4 bf i8 i4 u1 --"),
    "sum": (lambda x: x.sum(), "f8 f4 bf i8 i8 i8 i8"),
    "sum of a dimension": (lambda x: x.sum(0), "f8 f4 bf i8 i8 i8 i8"),
    "prod": (lambda x: x.prod(), "f8 f4 bf i8 i8 i8 i8"),
    "mean": (lambda x: x.mean(), "f8 f4 bf !! !! !! !!"),
    "amax": (lambda x: x.amax(), "f8 f4 bf i8 i4 u1 b1"),
    "argmax": (lambda x: x.argmax(), "i8 i8 i8 i8 i8 i8 --"),
    "any": (lambda x: x.any(), "b1 b1 b1 b1 b1 u1 b1"),
    "all": (lambda x: x.all(0), "b1 b1 b1 b1 b1 u1 b1"),
    "exp": (lambda x: x.exp(), "f8 f4 bf f4 f4 f4 f4"),
    "sigmoid": (lambda x: x.sigmoid(), "f8 f4 bf f4 f4 f4 f4"),
    "rsqrt": (lambda x: x.rsqrt(), "f8 f4 bf f4 f4 f4 f4"),
    "floor": (lambda x: x.floor(), "f8 f4 bf i8 i4 u1 --"),
    "sign": (lambda x: x.sign(), "f8 f4 bf i8 i4 u1 --"),
    "isnan": (lambda x: x.isnan(), "b1 b1 b1 b1 b1 b1 b1"),
    "relu": (lambda x: x.relu(), "f8 f4 bf i8 i4 u1 --"),
    "logical_and": (lambda x: x.logical_and(x), "b1 b1 b1 b1 b1 b1 b1"),
    "maximum": (lambda x: lt.maximum(x, x), "f8 f4 bf i8 i4 u1 b1"),
    "fmod": (lambda x: x.fmod(x), "f8 f4 bf i8 i4 u1 --"),
    "atan2": (lambda x: lt.atan2(x, x), "f8 f4 bf f4 f4 f4 f4"),
    "clamp": (lambda x: x.clamp(0, 1), "f8 f4 bf i8 i4 u1 i8"),
    "clamp to halves": (lambda x: x.clamp(0.5, 1), "f8 f4 bf f4 f4 f4 f4"),
    "matmul": (lambda x: x @ x, "f8 f4 bf i8 i4 u1 --"),
    "masked_fill": (lambda x: x.masked_fill(x > 0, 1), "f8 f4 bf i8 i4 u1 b1"),
    "where": (lambda x: lt.where(x > 0, x, 1.5), "f8 f4 bf f4 f4 f4 f4"),
    "cat": (lambda x: lt.cat([x, lt.ones(1)]), "f8 f4 f4 f4 f4 f4 f4"),
    "truncated quotient": (lambda x: lt.div(x, x, rounding_mode="trunc"), "f8 f4 bf i8 i4 u1 --"),
}


@pytest.mark.parametrize("name", UNIFORM)
def test_result_has_the_type_of_pytorch(name):
    function, answers = UNIFORM[name]
    for short, answer in zip("f8 f4 bf i8 i4 u1 b1".split(), answers.split(), strict=True):
        x = lt.ones(2, dtype=TYPES[short])
        if answer == "!!":
            with pytest.raises(RuntimeError):
                function(x)
        elif answer != "--":  # where PyTorch knows nothing we may know more
            y = function(x)
            assert (y.dtype, y.array().dtype) == (TYPES[answer], TYPES[answer].host)


@given(st.lists(st.tuples(st.integers(-(2**50), 2**50), st.integers(1, 2**40)), min_size=1, max_size=5))
@settings(max_examples=40, deadline=None)
def test_integer_quotients_and_remainders_are_exact(pairs):
    a, b = (lt.tensor(list(v)) for v in zip(*pairs, strict=True))
    assert (a // b).tolist() == [x // y for x, y in pairs]
    assert (a % b).tolist() == [x % y for x, y in pairs]
    assert (-a // b).tolist() == [-x // y for x, y in pairs]
    assert lt.div(a, b, rounding_mode="trunc").tolist() == [abs(x) // y * (1 if x > 0 else -1) for x, y in pairs]


# -- errors ------------------------------------------------------------------------------------------------------------

Z = lt.zeros
ERRORS: dict[str, tuple[Callable, str]] = {
    "add": (lambda: Z(2, 3) + Z(4), r"The size of tensor a \(3\) must match .* b \(4\) .* \[2, 3\], \[4\]"),
    "where": (lambda: lt.where(Z(2) > 0, Z(3), 1.0), r"the shapes are \[2\], \[3\]"),
    "matmul": (lambda: Z(2, 3) @ Z(4, 2), r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 4x2\)"),
    "linear": (lambda: lt.nn.Linear(3, 2)(Z(5, 4)), r"the input is \[5, 4\], and the weight is \[2, 3\]"),
    "in place": (lambda: Z(2).add_(Z(3, 2)), r"output with shape \[2\] doesn't match the broadcast shape \[3, 2\]"),
    "kind": (lambda: Z(2).long().add_(0.5), "result type float32 can't be cast to the desired output type int64"),
    "copy": (lambda: Z(2).copy_(Z(3)), r"\[3\] does not broadcast to \[2\]"),
    "expand": (lambda: Z(2).expand(3, 1), r"expanded size \[3, 1\] does not match the shape \[2\]"),
    "write to expanded": (lambda: Z(3).expand(2, 3).add_(1), "more than one element of the written-to tensor"),
    "view": (lambda: Z(2, 3).view(4), r"shape '\[4\]' is invalid for input of size 6"),
    "cat": (lambda: lt.cat([Z(2, 3), Z(2, 4)]), r"float32\[2, 3\] and float32\[2, 4\] cannot be concatenated"),
    "item": (lambda: Z(2).item(), "a Tensor with 2 elements cannot be converted to Scalar"),
    "bool": (lambda: bool(Z(2)), "Boolean value of Tensor with more than one value is ambiguous"),
    "amax": (lambda: Z(0, 3).amax(), r"zero elements does not exist: the shape is \[0, 3\]"),
    "ragged": (lambda: lt.tensor([[1], [1, 2]]), "different lengths"),
    "types of a product": (lambda: Z(2, 2) @ Z(2, 2).double(), "float32 != float64"),
    "negative extent": (lambda: Z(2, -1), r"cannot have the shape \[2, -1\]"),
    "loss": (lambda: lt.nn.CrossEntropyLoss()(Z(2, 3), Z(3).long()), r"logits are float32\[2, 3\], .* int64\[3\]"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error_names_the_shapes_and_the_line(name):
    act, message = ERRORS[name]
    with pytest.raises(ShapeError, match=r"test_tensor\.py:\d+: .*" + message) as caught:
        act()
    line = int(re.search(r"\.py:(\d+):", str(caught.value)).group(1))
    assert line == act.__code__.co_firstlineno
    assert isinstance(caught.value, RuntimeError | LazyError)


@pytest.mark.parametrize(
    "act",
    [lambda: Z(2)[5], lambda: Z(2)[0, 0], lambda: Z(3).sum(5), lambda: Z(3).squeeze(4), lambda: Z(2, 2).select(1, -3)],
)
def test_index_out_of_range_is_an_index_error(act):
    with pytest.raises(IndexError, match=r"out of (range|bounds)|too many indices"):
        act()


# -- empty -------------------------------------------------------------------------------------------------------------


def test_empty_tensors_pass_through_operations():
    x = Z(0, 3)
    assert (x + 1).exp().shape == (0, 3) and x.T.reshape(3, 0, 2).shape == (3, 0, 2)
    assert x.sum(0).tolist() == [0.0, 0.0, 0.0] and x.prod().item() == 1.0
    assert (x.T @ x).tolist() == [[0.0] * 3] * 3
    assert lt.cat([x, lt.ones(1, 3)]).tolist() == [[1.0, 1.0, 1.0]]
    assert np.isnan(x.mean().item()) and x.any().item() is False and x.all().item() is True


def test_writing_to_an_empty_part_changes_nothing():
    x = lt.arange(4.0)
    x[2:2] = 9
    x[3:1].fill_(9)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0] and x[4:].shape == (0,)


def test_from_numpy_sees_the_array_and_tensor_copies_it():
    array = np.zeros(3, np.float32)
    shared, copied = lt.from_numpy(array), lt.tensor(array)
    array[1] = 5
    assert shared.tolist() == [0.0, 5.0, 0.0] and copied.tolist() == [0.0, 0.0, 0.0]


def test_old_values_survive_a_write():
    x = lt.tensor([1.0, 2.0])
    doubled = x * 2
    x.fill_(9)
    assert doubled.tolist() == [2.0, 4.0] and x.tolist() == [9.0, 9.0]


def test_bits_are_seen_as_another_type():
    # Recorded from PyTorch 2.13.0.
    assert lt.tensor([1.0, -2.0]).view(lt.int32).tolist() == [1065353216, -1073741824]
    assert lt.arange(8, dtype=lt.uint8).view(2, 4).view(lt.int32).tolist() == [[50462976], [117835012]]
    assert lt.tensor([1.5]).to(lt.bfloat16).view(lt.int16).tolist() == [16320]
    assert lt.tensor([16256], dtype=lt.int16).view(lt.bfloat16).tolist() == [1.0]
    with pytest.raises(ShapeError, match=r"self.dim\(\) cannot be 0 to view Float as Short"):
        lt.tensor(1.0).view(lt.int16)
    with pytest.raises(ShapeError, match=r"must be divisible by 4 to view Byte as Int .*, but got 6"):
        lt.arange(6, dtype=lt.uint8).view(lt.int32)


def test_range_check_of_an_index_leaves_other_values_uncomputed():
    """Otherwise a decoder that looks up a letter in each time step would run as many graphs."""
    table, letters = lt.randn(5, 3), lt.tensor([[0, 4], [2, 1]])
    hidden = lt.ones(2, 3)
    for t in range(2):
        hidden = lt.tanh(hidden + table[letters[:, t] % 5])
    assert hidden.node.value is None
    best = hidden.argmax(-1)
    table[best % 3]  # depends on numbers that are expensive
    assert hidden.node.value is not None


def test_written_integers_are_computed_once_though_their_slices_are_read_separately():
    text = lt.arange(50)
    for i in range(2, 50):
        text[i] = (text[i - 1] + text[i - 2]) % 7
    assert text[40:45].tolist() == [(text[39 + k] + text[38 + k]).item() % 7 for k in range(5)]
    assert not text.node.inputs
