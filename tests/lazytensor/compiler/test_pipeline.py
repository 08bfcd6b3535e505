"""The pipeline: each pass runs once, is checked after it has run, and is shown at the level that its row names."""

from dataclasses import replace

import numpy as np
import pytest

from lazytensor import config
from lazytensor.compiler.pipeline import CSX, HOST, PASSES, Compilation, Heading, Pass, Target, compile_graph
from lazytensor.core.dtype import float32, int32
from lazytensor.core.step import StepRunner
from lazytensor.errors import CompileError
from lazytensor.ir.graph import Graph, node
from lazytensor.ir.nest import Access
from lazytensor.ir.types import Type, Where
from lazytensor.ops import call, full_like
from lazytensor.ops.products import matmul
from lazytensor.ops.shape import transpose
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.state_store import Store
from lazytensor.testing import batch, state
from wse_sim import TINY, WaferBackend

SQUARE = Type((4, 4), float32)
PLACE = Where("train.py", 31)


def training_graph() -> Graph:
    """A product, an update of state, and two transposes that cancel."""
    x, w = batch(0, SQUARE), state("w", SQUARE)
    y = call("tanh", matmul(x, transpose(transpose(w, (1, 0)), (1, 0)), False, False))
    return Graph((x,), {"w": w}, (y,), {"w": call("sub", w, call("mul", full_like(0.1, y), y))})


def ill_typed_graph() -> Graph:
    x = batch(0, Type((4,), float32))
    wrong = node("tanh", (x,), {}, Type((4,), int32))
    wrong.where = PLACE
    return Graph((x,), {}, (wrong,), {})


def with_pass(after: str, new: Pass) -> Target:
    """The target of the host with one more row."""
    at = [p.name for p in HOST.passes].index(after) + 1
    return Target("changed", (*HOST.passes[:at], new, *HOST.passes[at:]))


@pytest.mark.parametrize("target", [HOST, CSX], ids=lambda target: target.name)
def test_the_check_refuses_an_ill_typed_graph_with_pass_node_and_line(target):
    with config.override(check=True), pytest.raises(CompileError) as caught:
        compile_graph(ill_typed_graph(), target)
    assert str(caught.value).startswith("train.py:31: after pass record: tanh returns float32[4], ")
    assert "int32[4]" in caught.value.what and caught.value.where == PLACE and caught.value.hint


def test_without_the_check_nothing_is_looked_at():
    with config.override(check=False):
        assert Compilation(ill_typed_graph())["record"].outputs


def spoil_graph(graph: Graph) -> Graph:
    return graph.replace_roots(lambda n: node("neg", (n,), {}, Type((2,), n.type.dtype)))


def spoil_matches(graph: Graph, matches: dict) -> dict:
    foreign = batch(7, SQUARE)
    return {n: (k, replace(m, operands=(foreign, *m.operands[1:]))) for n, (k, m) in matches.items()}


def spoil_nests(graph: Graph, calls: list) -> list:
    c = next(c for c in calls if c.nest is not None)
    c.nest = replace(c.nest, reads=tuple(Access(a.strides, 1000) for a in c.nest.reads))
    return calls


def spoil_operands(graph: Graph, calls: list) -> list:
    c = next(c for c in calls if c.nest is not None)
    c.nest = replace(c.nest, inputs=tuple(Type(t.shape, int32) for t in c.nest.inputs))
    return calls


SPOILED = [
    ("simplify", Pass("spoil", spoil_graph, ("graph",), "graph", 2), "neg returns float32[4, 4]"),
    (
        "match",
        Pass("spoil", spoil_matches, ("graph", "matches"), "matches", 3),
        "reads a node that is not in the graph",
    ),
    (
        "fuse",
        Pass("spoil", spoil_nests, ("graph", "calls"), "calls", 3),
        "accesses elements 1000 to 1015 of an operand with 16 elements",
    ),
    ("fuse", Pass("spoil", spoil_operands, ("graph", "calls"), "calls", 3), "operands of other types"),
    ("fuse", Pass("spoil", lambda g, c: c[1:], ("graph", "calls"), "calls", 3), "which no call computes"),
    ("fuse", Pass("spoil", lambda g, c: [*c, c[0]], ("graph", "calls"), "calls", 3), "is computed by two calls"),
    (
        "plan",
        Pass("spoil", lambda p: replace(p, instrs=p.instrs[1:]), ("program",), "program", 3),
        "before it is written",
    ),
    (
        "plan",
        Pass("spoil", lambda p: replace(p, fetches=()), ("program",), "program", 3),
        "the number of outputs of the graph is 1, but the program returns 0",
    ),
]


@pytest.mark.parametrize("after, spoil, said", SPOILED, ids=[said for *_, said in SPOILED])
def test_a_pass_that_breaks_what_it_gives_is_named(after, spoil, said):
    with config.override(check=True), pytest.raises(CompileError, match="after pass spoil") as caught:
        Compilation(training_graph(), with_pass(after, spoil))["spoil"]
    assert said in caught.value.what


def test_each_pass_runs_once_and_only_as_far_as_asked():
    order = []

    def logged(p: Pass) -> Pass:
        return replace(p, run=lambda *forms: (order.append(p.name), p.run(*forms))[1])

    compilation = Compilation(training_graph(), Target("logged", tuple(map(logged, CSX.passes))))
    assert (
        compilation.text.startswith("module")
        and order == "record wrap_custom_calls unwrap lower_to_cirh print_cirh".split()
    )
    assert compilation.program is compilation["plan"]
    assert order == [p.name for p in CSX.passes[:-1]]
    with pytest.raises(KeyError):
        compilation["lower_to_host"]


def test_a_pass_runs_alone_by_its_name():
    graph = training_graph()
    simple = Compilation(graph, Target("alone", (PASSES["simplify"],)))["simplify"]
    assert len(simple.nodes()) < len(graph.nodes())


def test_the_text_says_what_the_heading_does():
    heading = Heading("bfloat16", 2, (("w", (("sparsity", 0.5),)),))
    text = Compilation(training_graph(), CSX, heading=heading).text
    assert '{cs.fp16_type = "bfloat16", cs.pol = 2 : i64}' in text and "cs.sparsity" in text


SHOWN = {
    1: ["record"],
    2: ["wrap_custom_calls", "unwrap", "lower_to_cirh", "print_cirh", "rewrites", "simplify"],
    3: ["match", "fuse_layers", "plan"],
    4: ["bind"],
}
PROMISED = {
    1: "tanh(%",
    2: "transpose(transpose(x)): transpose(",
    3: "def kernel(",
    4: "PEs at (",
}


def bound_on_csx() -> Compilation:
    store = Store()
    store.add("w", np.ones((4, 4), np.float32))
    compilation = Compilation(training_graph(), CSX, backend=WaferBackend(HostBackend(), TINY), store=store)
    assert compilation.executable.program is compilation.program
    return compilation


@pytest.mark.parametrize("level", range(5))
def test_each_level_prints_what_it_promises_and_what_the_level_below_prints(level, capsys):
    with config.override(debug=level, jit=False):
        bound_on_csx()
    out, err = capsys.readouterr()
    names = [line.removeprefix("--- ") for line in err.splitlines() if line.startswith("--- ")]
    assert out == "" and names == [n for k in range(1, level + 1) for n in SHOWN[k]]
    for k, words in PROMISED.items():
        assert (words in err) == (k <= level), words


def test_a_folder_gets_every_level_in_a_file_of_its_own(tmp_path, capsys):
    with config.override(dump=str(tmp_path / "dump"), jit=False):
        compilation = bound_on_csx()
    files = sorted((tmp_path / "dump").iterdir())
    assert [f.stem[4:] for f in files] == [n for names in SHOWN.values() for n in names]
    assert next(f for f in files if "print_cirh" in f.name).read_text().rstrip() == compilation.text.rstrip()
    assert capsys.readouterr().err == ""


def test_an_equal_graph_is_found_again_and_another_heading_is_another_text():
    runner = StepRunner(HostBackend(), Store(), CSX)
    first = runner.compilation(training_graph())
    assert runner.compilation(training_graph()) is first
    other = runner.compilation(training_graph(), Heading("bfloat16"))
    assert other is not first and other.text != first.text


def test_graphs_of_other_results_or_names_have_other_keys():
    graph = training_graph()
    (y,) = graph.outputs
    variants = [
        graph,
        Graph(graph.inputs, graph.state, (y, y), graph.updates),
        Graph(graph.inputs, graph.state, graph.outputs, {}),
        Graph(graph.inputs, graph.state, graph.outputs, graph.updates, ("loss",)),
    ]
    assert len({g.key for g in variants}) == 4 and training_graph().key == graph.key
