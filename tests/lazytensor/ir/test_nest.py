"""Nests: their oracle, their text, and the loop transformations that keep their meaning."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazytensor.core.dtype import float16, float32
from lazytensor.errors import CompileError
from lazytensor.ir.nest import Access, Loop, Nest, NestStore, Scalar, collapse, reorder
from lazytensor.ir.nest_reference import evaluate
from lazytensor.ir.types import Type
from lazytensor.ops import OPS


def meaning(op, attrs):
    return lambda *arrays: OPS[op].eval(*arrays, **attrs)


def scaled_bias(rows: int, columns: int, reduce: str = "", dtype=float32) -> Nest:
    """out = 2 * x + bias over rows, or its sum over the columns."""
    full = Type((rows, columns), dtype)
    loops = (Loop("i0", rows), Loop("i1", columns, is_reduction=bool(reduce)))
    body = (
        Scalar("load", dtype, (), 0),
        Scalar("const", dtype, (), 2.0),
        Scalar("mul", dtype, (0, 1), unit="add"),
        Scalar("load", dtype, (), 1),
        Scalar("add", dtype, (2, 3), unit="add"),
    )
    out, write = (Type((rows,), dtype), Access((1, 0))) if reduce else (full, Access((columns, 1)))
    reads = (Access((columns, 1)), Access((0, 1)))
    return Nest(
        "scaled_bias", loops, (full, Type((columns,), dtype)), (out,), reads, (write,), body, (NestStore(0, 4, reduce),)
    )


def run(nest: Nest, *inputs: np.ndarray) -> list[np.ndarray]:
    outputs = [np.zeros(t.shape, t.dtype.host) for t in nest.outputs]
    evaluate(nest, list(inputs), outputs, meaning)
    return outputs


def test_oracle_computes_what_the_loops_say():
    x, bias = np.arange(6, dtype="f4").reshape(2, 3), np.array([1, 2, 3], "f4")
    assert np.array_equal(run(scaled_bias(2, 3), x, bias)[0], 2 * x + bias)
    assert np.array_equal(run(scaled_bias(2, 3, "add"), x, bias)[0], (2 * x + bias).sum(1))
    assert np.array_equal(run(scaled_bias(2, 3, "maximum"), x, bias)[0], (2 * x + bias).max(1))


def test_every_scalar_of_a_half_type_is_rounded():
    x = np.array([[1 + 2.0**-10]], "f4")
    made = run(scaled_bias(1, 1, dtype=float16), x, np.array([2.0**-11], "f4"))[0]
    assert made[0, 0] == np.float32(np.float16(2 * x[0, 0]) + np.float16(2.0**-11)).astype(np.float16)


def test_a_nest_prints_as_loops():
    assert str(scaled_bias(2, 3, "add")) == (
        "nest scaled_bias(in0: float32[2, 3], in1: float32[3], out0: float32[2])\n"
        "  for i0 in 0..2:\n"
        "    for i1 in 0..3:  # reduction\n"
        "      t0: float32 = in0[3*i0 + i1]\n"
        "      t1: float32 = 2.0\n"
        "      t2: float32 = mul(t0, t1)\n"
        "      t3: float32 = in1[i1]\n"
        "      t4: float32 = add(t2, t3)\n"
        "      out0[i0] add= t4"
    )


@given(st.integers(1, 5), st.integers(1, 5), st.sampled_from(("", "add", "minimum")), st.booleans())
def test_reordered_loops_give_the_same(rows, columns, reduce, swap):
    nest = scaled_bias(rows, columns, reduce)
    rng = np.random.default_rng(rows + columns)
    x, bias = rng.integers(-5, 5, (rows, columns)).astype("f4"), rng.integers(-5, 5, columns).astype("f4")
    other = collapse(reorder(nest, (1, 0) if swap else (0, 1)))
    assert np.array_equal(run(nest, x, bias)[0], run(other, x, bias)[0])


def test_loops_collapse_only_where_every_access_runs_through():
    assert len(collapse(scaled_bias(2, 3)).loops) == 2
    whole = Type((4, 6), float32)
    nest = Nest(
        "copy",
        (Loop("i0", 4), Loop("i1", 6)),
        (whole,),
        (whole,),
        (Access((6, 1)),),
        (Access((6, 1)),),
        (Scalar("load", float32, (), 0),),
        (NestStore(0, 0),),
    )
    assert collapse(nest).loops == (Loop("i1", 24),)
    transposed = Nest(**{**nest.__dict__, "reads": (Access((1, 4)),)})
    assert len(collapse(transposed).loops) == 2


def test_an_access_outside_its_operand_is_refused():
    nest = scaled_bias(2, 3)
    broken = Nest(**{**nest.__dict__, "reads": (Access((3, 1), 1), Access((0, 1)))})
    with pytest.raises(CompileError, match=r"accesses elements 1 to 6 of an operand with 6 elements"):
        broken.check()
    with pytest.raises(CompileError, match="moves along reduction loops"):
        Nest(**{**scaled_bias(4, 3, "add").__dict__, "writes": (Access((0, 1)),)}).check()
