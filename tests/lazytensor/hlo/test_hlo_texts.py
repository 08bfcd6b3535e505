"""Texts of custom calls: our reader, StableHLO, xDSL and mlir-opt read them as the graph that was wrapped."""

import math

import numpy as np
import pytest
from hypothesis import given, settings

from lazytensor.cirh.generic import generic_text
from lazytensor.core import dtype as dt
from lazytensor.errors import CompileError
from lazytensor.hlo.custom_calls import unwrap, wrap_custom_calls
from lazytensor.hlo.parser import is_hlo, read_hlo
from lazytensor.hlo.printer import hlo_generic_text, hlo_text
from lazytensor.ir.graph import Graph, leaf
from lazytensor.ir.types import Type
from lazytensor.ops import call, const, full
from lazytensor.testing import batch, graphs, state
from tests.conftest import lazywafer
from tests.lazytensor.cirh.mlir_tools import (
    by_way_of_mlir,
    by_way_of_stablehlo,
    by_way_of_xdsl,
    by_way_of_xdsl_stablehlo,
)
from tests.lazytensor.ops.every_operation import graph_of_every_operation

X = batch(0, Type((2, 3), dt.float32))


def texts(graph: Graph) -> list[str]:
    wrapped = wrap_custom_calls(graph)
    return [hlo_text(wrapped), hlo_generic_text(wrapped)]


@settings(max_examples=20)
@given(graphs())
def test_graph_comes_back_from_both_forms(graph):
    for text in texts(graph):
        assert not is_hlo(generic_text(graph))
        # A generic text without operations is the same in all dialects.
        assert is_hlo(text) or "stablehlo." not in text
        again = read_hlo(text)
        assert (unwrap(again).key, again.state) == (graph.key, graph.state)
        assert hlo_generic_text(again) == hlo_generic_text(wrap_custom_calls(graph))


@settings(max_examples=10)
@given(graphs())
def test_graph_comes_back_by_way_of_xdsl(graph):
    _, generic = texts(graph)
    assert unwrap(read_hlo(by_way_of_xdsl(generic))).key == graph.key


@pytest.mark.slow
def test_every_operation_comes_back_from_both_forms():
    graph = graph_of_every_operation()
    assert [unwrap(read_hlo(text)).key for text in texts(graph)] == [graph.key] * 2


def test_every_operation_comes_back_by_way_of_mlir():
    graph = graph_of_every_operation()
    assert [unwrap(read_hlo(text)).key for text in by_way_of_mlir(texts(graph)[1])] == [graph.key]


@pytest.mark.parametrize("is_generic", [False, True], ids=["dialect form", "generic form"])
@pytest.mark.parametrize("way", [by_way_of_stablehlo, by_way_of_xdsl_stablehlo], ids=["stablehlo", "xdsl"])
def test_every_operation_is_verified_by_the_dialect(way, is_generic):
    graph = graph_of_every_operation()
    for text in texts(graph):
        assert unwrap(read_hlo(way(text, is_generic))).key == graph.key


@pytest.mark.parametrize("dtype", [d for d in dt.ALL if d is not dt.cbfloat16], ids=str)
def test_constants_come_back_to_the_bit(dtype):
    array = np.asarray(dt.round_to(np.asarray([[1.5, -2, 3], [4, 5, 0]]).astype(dtype.host), dtype))
    if dtype.kind == "f":
        array[0] = [math.inf, -0.0, math.nan]
    t = Type(array.shape, dtype)
    graph = Graph((), {}, (const(array, t), full(array[1, 1].item(), t), leaf(array, t)), {})
    for text in texts(graph):
        constant, splat, own = unwrap(read_hlo(text)).outputs
        assert (constant, splat) == graph.outputs[:2]
        assert own.op == "leaf" and own.type == t and own.value.tobytes() == array.tobytes()


def test_names_of_the_user_are_text_whatever_they_are():
    name = 'a "stablehlo.add" \\ {%x} é\n'
    x, w = batch(0, X.type), state(name, X.type)
    graph = Graph((x,), {name: w}, (x + w,), {name: x * 2.0}, (name,))
    assert not is_hlo(generic_text(graph))
    for text in texts(graph):
        again = unwrap(read_hlo(text))
        assert (again.key, again.output_names) == (graph.key, (name,))


def test_linear_layer_is_one_custom_call():
    w = state("fc.weight", Type((4, 3), dt.float32))
    text, _ = texts(Graph((X,), {"fc.weight": w}, (call("linear", X, w),), {}))
    assert "= stablehlo.custom_call @aten.linear(%arg0, %arg1) {" in text
    assert ": (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>" in text


def test_unused_state_is_an_argument():
    w = state("unused", X.type)
    graph = Graph((X,), {"unused": w}, (), {})
    assert [read_hlo(text).state for text in texts(graph)] == [graph.state] * 2


# Line 3 of the text is the sum; its call target is in column 33.
WRONG = [
    ("@aten.add", "@aten.nothing", "line 3, column 5: the call target 'aten.nothing' is not a known ATen operation"),
    ("@aten.add", "@add", "line 3, column 5: .* a name such as aten.add is expected"),
    ("@aten.add", "aten.add", "line 3, column 32: a symbol is missing before 'aten.add'"),
    ("stablehlo.custom_call", "stablehlo.add", "line 3, column 10: one of module, .* is expected, but got"),
    ("%arg0, %arg0)", "%arg0, %arg7)", "line 3, column 5: %arg7 is used before it is defined"),
    ("(%arg0, %arg0) {", "(%arg0, %arg0 {", r"line 3, column 55: '\)' is missing before '{'"),
    ("-> tensor<2x3xf32>\n", "-> tensor<2x4xf32>\n", r"line 3, column 5: .* returns float32\[2, 3\], but the text"),
    ("backend_config = {}", 'backend_config = ""', "line 3, column 5: backend_config .* a dictionary is expected"),
    ("return %0", "yield %0", "line 4, column 5: one of .*return.* is expected, but got 'yield'"),
    ("\n}\n", "\n}\n}\n", "line 7, column 1: the end of the text is expected after the module, but got '}'"),
    ("module", "modul", "line 1, column 1: one of module, "),
    ("tensor<2x3xf32> {lt", "tensor<2x?xf32> {lt", r"line 2, column \d+: .* is not a supported tensor type"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), WRONG, ids=[new.strip() for _, new, _ in WRONG])
def test_wrong_text_is_refused_with_line_column_and_what_was_expected(old, new, message):
    text, _ = texts(Graph((X,), {}, (X + X,), {}))
    assert old in text
    with pytest.raises(CompileError, match=message):
        read_hlo(text.replace(old, new, 1))


def test_attribute_that_does_not_fit_the_wrapped_operation_is_refused():
    for text in texts(Graph((X,), {}, (call("transpose", X, permutation=(1, 0)),), {})):
        with pytest.raises(CompileError, match=r"line [34], column 5: stablehlo.custom_call: "):
            read_hlo(text.replace("permutation", "order"))


@pytest.mark.parametrize("percent", range(0, 100, 7))
def test_text_that_ends_early_is_refused(percent):
    for text in texts(Graph((X,), {}, (X + X,), {})):
        with pytest.raises(CompileError, match=r"^line \d+, column \d+: "):
            read_hlo(text[: len(text) * percent // 100])


def test_opt_wraps_and_unwraps_from_text_to_text(tmp_path):
    graph = Graph((X,), {}, ((X + 0.0) * 1.0 + call("relu", X),), {})
    empty = Graph((X,), {}, (X,), {})
    aten, (dialect, generic) = generic_text(graph), texts(graph)
    for text, passes, expected in [
        (aten, "wrap_custom_calls", generic),
        (aten, "wrap_custom_calls,unwrap", aten),
        (generic, "unwrap", aten),
        (dialect, "unwrap", aten),
        (dialect.replace("module", "builtin.module", 1), "unwrap", aten),
        (generic_text(empty), "unwrap", generic_text(empty)),
    ]:
        (tmp_path / "graph.mlir").write_text(text)
        done = lazywafer("opt", "-p", passes, "graph.mlir", cwd=tmp_path)
        assert done.stdout == expected, done.stderr


def test_opt_names_the_pass_that_is_missing_and_the_place_of_an_error(tmp_path):
    graph = Graph((X,), {}, (X + X,), {})
    dialect, generic = texts(graph)
    for text, options, output, message in [
        (generic, (), generic, ""),
        (generic_text(graph), ("-p", "unwrap"), "", "line 4, column 5: stablehlo.custom_call or stablehlo.constant is"),
        (generic, ("-p", "simplify"), "", "simplify needs the result of pass unwrap"),
        (dialect.replace("@aten.add", "@aten.nothing"), ("-p", "unwrap"), "", "line 3, column 5: the call target"),
    ]:
        (tmp_path / "graph.mlir").write_text(text)
        done = lazywafer("opt", *options, "graph.mlir", cwd=tmp_path)
        assert (done.stdout, done.returncode) == (output, int(not output)) and message in done.stderr, done.stderr
