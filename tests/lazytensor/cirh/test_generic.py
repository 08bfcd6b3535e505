"""MLIR's generic form: our reader, xDSL and mlir-opt read it back as the same graph, and passes run on it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings

from lazytensor.cirh.dot import dot_text
from lazytensor.cirh.generic import CIRH_DIALECT, generic_text
from lazytensor.cirh.generic_parser import read_graph
from lazytensor.compiler.lower import lower_to_cirh
from lazytensor.compiler.simplify import simplify
from lazytensor.core import dtype as dt
from lazytensor.errors import CompileError
from lazytensor.hlo.custom_calls import unwrap
from lazytensor.hlo.parser import read_hlo
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Type
from lazytensor.ops import call, const, full
from lazytensor.testing import batch, graphs, state
from tests.conftest import lazywafer, training
from tests.lazytensor.cirh.mlir_tools import by_way_of_mlir, by_way_of_xdsl
from tests.lazytensor.ops.every_operation import graph_of_every_operation
from tests.lazytensor.ops.op_rows import ROWS

X = batch(0, Type((2, 3), dt.float32))


@settings(max_examples=20)
@given(graphs())
def test_a_graph_comes_back_by_our_reader_and_by_way_of_xdsl(graph):
    text = generic_text(graph)
    again = read_graph(text)
    # Nodes are interned: equal graphs have the very same ones.
    assert (again.key, again.state) == (graph.key, graph.state)
    assert read_graph(by_way_of_xdsl(text)).key == graph.key
    assert generic_text(again) == text


@pytest.fixture(scope="module")
def every_operation() -> Graph:
    return graph_of_every_operation()


@pytest.mark.slow
def test_every_operation_comes_back(every_operation):
    text = generic_text(every_operation)
    assert read_graph(text).key == every_operation.key
    assert read_graph(by_way_of_xdsl(text)).key == every_operation.key
    assert all(f'"torch.aten.{name}"' in text for name in ROWS)


def test_every_operation_comes_back_by_way_of_mlir(every_operation):
    texts = generic_text(every_operation), generic_text(every_operation, CIRH_DIALECT)
    assert [read_graph(text).key for text in by_way_of_mlir(*texts)] == [every_operation.key] * 2


@pytest.mark.parametrize("dtype", [d for d in dt.ALL if d is not dt.cbfloat16], ids=str)
def test_constants_come_back_to_the_bit(dtype):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((3, 4)) * 100
    array = np.asarray(dt.round_to(np.asarray(values).astype(dtype.host), dtype))
    if dtype.kind == "f":
        array[0] = [math.inf, -math.inf, -0.0, math.nan]
    t = Type(array.shape, dtype)
    scalar, none = const(array[1, 2], Type((), dtype)), const(array[:0], Type((0, 4), dtype))
    graph = Graph((), {}, (const(array, t), scalar, none, full(array[1, 1].item(), t)), {})
    own = generic_text(graph)
    for text in (own, by_way_of_xdsl(own)):
        first, *rest = read_graph(text).outputs
        assert tuple(rest) == graph.outputs[1:]
        # xDSL prints numbers of 16 bits with six digits, where MLIR prints as many as they need.
        wanted = 1e-5 if dtype is dt.float16 and text is not own else 0
        assert first.value.dtype == dtype.host
        np.testing.assert_allclose(first.value, array, rtol=wanted, equal_nan=True)


def test_names_of_the_user_are_text_whatever_they_say():
    name = 'a "b" \\ {%x} é\n'
    # A leaf of its own: a test of whole scripts lets no node be found that was there before.
    x, leaf = batch(0, X.type), state(name, X.type)
    graph = Graph((x,), {name: leaf}, (x + leaf,), {name: x * 2.0}, (name,))
    assert read_graph(by_way_of_xdsl(generic_text(graph))).key == graph.key
    assert read_graph(generic_text(graph)).output_names == (name,)


ADD = '%0 = "torch.aten.add"(%arg0, %arg0) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>'


def text_of_sum() -> str:
    text = generic_text(Graph((X,), {}, (X + X,), {}))
    assert ADD in text
    return text


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "torch.aten.add",
            "torch.aten.nothing",
            r"line 4, column 5: the operation .*nothing' does not exist",
        ),
        ("%arg0, %arg0)", "%arg0, %arg7)", r"line 4, column 5: %arg7 is used before it is defined"),
        (
            "-> tensor<2x3xf32>\n",
            "-> tensor<2x4xf32>\n",
            r"line 4, column 5: .*add returns float32\[2, 3\], but the text declares",
        ),
        ("tensor<2x3xf32>)", "tensor<2x3xcomplex>)", "is not a supported tensor type"),
        ('"torch.aten.add"(', '"torch.aten.add"[', r"line 4, column 26: '\(' is missing"),
        ('"func.func"', '"func.call"', "has 0 functions"),
        ("%arg0", "§", "is not understood"),
        ('"func.func"', "(" * 5000, "is missing"),
        ("^bb0(", "^bb0(%other: tensor<2xf32>, ", "the text is not a graph"),
        ('lt.leaf = "batch"', 'lt.leaf = "disk"', "'disk', but the only kinds are batch, state"),
        (
            "}) : () -> ()\n",
            "}) : () -> ()\n}",
            "line 8, column 1: the end of the text is expected after the module, but got",
        ),
        ("torch.aten.add", "torch.aten.transpose", "line 4, column 5: torch.aten.transpose"),
    ],
)
def test_a_text_that_is_no_graph_is_refused_with_its_line(old, new, says):
    with pytest.raises(CompileError, match=says):
        read_graph(text_of_sum().replace(old, new, 1 if old.startswith("->") else -1))


@pytest.mark.parametrize("cut", range(0, 470, 37))
def test_a_text_that_ends_early_is_refused(cut):
    with pytest.raises(CompileError):
        read_graph(text_of_sum()[:cut])


def test_dot_shows_operations_leaves_and_results():
    leaf = state("w", X.type)
    text = dot_text(Graph((X,), {"w": leaf}, (call("relu", X * 2.0),), {"w": leaf + X}))
    assert 'label="x0\\nfloat32[2, 3]", shape=ellipse' in text and 'label="mul 2\\n' in text and "new w" in text
    assert text.count("->") == 6


def opt(tmp_path, graph: Graph, *options: str, text: str = ""):
    (tmp_path / "graph.mlir").write_text(text or generic_text(graph))
    return lazywafer("opt", *options, "graph.mlir", cwd=tmp_path)


def test_opt_runs_passes_from_text_to_text(tmp_path):
    graph = Graph((X,), {}, ((X + 0.0) * 1.0 + call("relu", X),), {})
    done = opt(tmp_path, graph, "-p", "simplify")
    assert done.stdout == generic_text(simplify(graph)), done.stderr
    assert done.stdout.count("torch.aten.") < generic_text(graph).count("torch.aten.")
    lowered = opt(tmp_path, graph, "-p", "lower_to_cirh,simplify")
    assert lowered.stdout == generic_text(simplify(lower_to_cirh(graph)), CIRH_DIALECT)
    assert "nest " in opt(tmp_path, graph, "-p", "match,fuse").stdout
    assert opt(tmp_path, graph, "--dot").stdout.startswith("digraph step {")


def test_opt_says_what_is_wrong(tmp_path):
    graph = Graph((X,), {}, (X + X,), {})
    for options, text, status, says in [
        (("-p", "melt"), "", 2, "simplify, match"),
        (("-p", "bind"), "", 2, "got 'bind'"),
        (("-p", "fuse"), "", 1, "fuse needs the result of pass match"),
        ((), "hello", 1, "line 1"),
    ]:
        done = opt(tmp_path, graph, *options, text=text)
        assert (done.returncode, done.stdout) == (status, "") and says in done.stderr, done.stderr


@pytest.mark.slow
def test_a_run_writes_its_graphs_in_a_form_that_tools_read(script, tmp_path):
    done = script(training(steps=1))
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "cerebras_logs" / "executors" / "000001"
    aten = (folder / "torch.generic.mlir").read_text()
    for name in ("hlo", "hlo.generic"):
        assert generic_text(unwrap(read_hlo((folder / f"{name}.mlir").read_text()))) == aten
    for name, dialect in (("torch", "torch.aten"), ("cirh", "cirh")):
        text = (folder / f"{name}.generic.mlir").read_text()
        graph = read_graph(text)
        assert generic_text(graph, dialect) == text == generic_text(read_graph(by_way_of_xdsl(text)), dialect)
        assert "model.fc1.weight" in graph.state and len(graph.nodes()) > 15


@pytest.mark.parametrize("spelled", ["0x7F800000 : f32", "0x7C00 : f16", "0x7F80 : bf16", "0x7FF0000000000000 : f64"])
def test_hexadecimal_attribute_has_the_bits_of_its_type(spelled):
    graph = Graph((X,), {}, (X * full(math.inf, X.type),), {})
    text = generic_text(graph)
    infinity = "0x7FF0000000000000 : f64"
    assert infinity in text
    assert generic_text(read_graph(text.replace(infinity, spelled))) == text
