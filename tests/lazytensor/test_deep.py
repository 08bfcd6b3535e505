"""Programs of deep nets: those of shallow ones, with more of the same."""

from dataclasses import fields, replace

import pytest

from lazytensor import abstract
from lazytensor.compiler.deep import DeepCompiler
from lazytensor.compiler.outline import LEAVES, UNTOLD
from lazytensor.compiler.pipeline import compile_graph
from lazytensor.ir import graph
from lazytensor.ir.graph_function import inlined
from lazytensor.ir.program import Program
from lazytensor.ops import op
from tests.deep_nets import EQUAL, step_of


@pytest.fixture(autouse=True)
def nothing_from_before(monkeypatch):
    """Equal nodes of other tests, with lines of their own, are not found again; afterwards they are."""
    monkeypatch.setattr(graph, "_table", {})
    monkeypatch.setattr(op, "_fulls", {})


def graph_of(name, depth, optimizer="sgd", norm=None):
    return recorded(*step_of(name, depth, optimizer, norm))


def recorded(step, batch):
    tensors = {str(k): t for k, t in enumerate(batch)}
    return abstract.graph_of_step(lambda: step(*batch), tensors)


def without_our_lines(program):
    """The program as users see it: what a pass makes of nothing has the line of the test that called it."""
    instrs = tuple(replace(i, where=None) if i.where and i.where.file == __file__ else i for i in program.instrs)
    return {f.name: getattr(program, f.name) for f in fields(Program) if f.name != "grown"} | {"instrs": instrs}


def test_leaves_of_an_outline_are_told_by_their_type_alone():
    leaves = [n for n in graph_of(EQUAL[0], 2, "adam").nodes() if n.op in LEAVES]
    assert {n.op for n in leaves} == set(LEAVES)
    assert {name for n in leaves for name, *_ in n.items} <= {*UNTOLD, "type"}
    assert all(n.attrs.get("type", n.type) == n.type for n in leaves)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, depth, optimizer, norm",
    [
        ("gpt", 16, "sgd", None),
        ("gpt", 17, "momentum", None),
        ("bert", 16, "adam", None),
        ("windows", 29, "sgd", None),
        ("residual", 17, "momentum", None),
        ("shared", 16, "sgd", None),
        ("growing", 12, "sgd", None),
        ("odd one", 13, "sgd", None),
        ("gpt", 14, "sgd", 1.0),
    ],
)
def test_program_of_a_deep_net_is_what_all_of_its_layers_compile_to(name, depth, optimizer, norm):
    graph = graph_of(name, depth, optimizer, norm)
    program, whole = abstract.program_of(graph), compile_graph(inlined(graph), abstract.PLANNED)
    assert without_our_lines(program) == without_our_lines(whole)
    if name in EQUAL and norm is None:
        assert program.grown is not None
        assert len(program.grown.short.instrs) < len(program.instrs)


@pytest.mark.slow
def test_program_of_a_deep_net_for_another_batch_is_what_is_recorded_for_it():
    step, batch = step_of("gpt", 16)
    family = abstract.record(step, batch)
    assert family.first.grown is not None
    recorded = family.record(20)
    # Two other batches are recorded, and the third lies on the line through their shallow programs.
    assert without_our_lines(family.program(20)) == without_our_lines(recorded)
    assert family.program(20).grown is not None


@pytest.mark.slow
def test_layers_of_another_batch_are_those_of_the_first():
    compiled = []

    def compile_and_count(graph):
        compiled.append(graph)
        return compile_graph(graph, abstract.PLANNED)

    compiler, (step, batch) = DeepCompiler(compile_and_count), step_of("gpt", 16, "adam")
    first = compiler.program(recorded(step, batch))
    assert len(compiled) == 2
    larger = recorded(step, [abstract.tensor((20, *t.shape[1:]), t.dtype) for t in batch])
    second = compiler.program(larger)
    assert len(compiled) == 3
    assert second.grown.skeleton is first.grown.skeleton
    assert without_our_lines(second) == without_our_lines(compile_graph(inlined(larger), abstract.PLANNED))


@pytest.mark.slow
@pytest.mark.parametrize("name, depth", [("bert", 16), ("gpt", 17), ("odd one", 13)])
def test_compiler_that_has_seen_one_net_compiles_another_as_a_new_one_does(name, depth):
    compiler = abstract.planner()
    compiler.program(graph_of("gpt", 16))
    other = graph_of(name, depth)
    assert without_our_lines(compiler.program(other)) == without_our_lines(
        compile_graph(inlined(other), abstract.PLANNED)
    )
