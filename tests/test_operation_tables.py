"""Facts about operations stand in their rows: no table elsewhere names several of them, but for those listed here."""

import ast
import pathlib
from collections.abc import Iterator

import pytest

from lazytensor.ir.operation import OPS, IncompleteOperation, illegal_with_hint
from lazytensor.ops.op import op, same_types

ROOT = pathlib.Path(__file__).parent.parent
PACKAGES = ("lazytensor", "wse_sim", "cstorch_compat")
FEWEST = 4
"""Names of operations that make a literal a table."""

LISTED = {
    "lazytensor/ir/reduction.py REDUCTIONS": "the table of reductions: four have the name of a pointwise operation",
    "lazytensor/compiler/simplify.py RULES": "identities; each is about the operations that it matches",
    "lazytensor/compiler/front_end.py FOLDS": "folds of the printed text; each is about the operation that it matches",
    "lazytensor/exchange/onnx_operations.py NODES": "operations as ONNX has them: that format's own facet",
    "lazytensor/llvm/float_instructions.py _LLVM": "instructions of LLVM, of which some are called as operations",
    "wse_sim/pipeline/losses.py _LOSS_STEPS": "how a core works out a loss and its gradient, step by step",
    "cstorch_compat/torch/sparse.py ZERO_PRESERVING": "methods of sparse tensors, which keep their indices",
    "wse_sim/planner/sparsity.py _ZERO_PRESERVING_OPS": "what leaves a masked element zero; of use to plans alone",
    "wse_sim/isa/operations.py OPERATIONS": "instructions of a core, of which some are called as operations",
    "wse_sim/kernels/__init__.py KERNELS": "kernels of the mesh by name, each a function that is imported there",
    "wse_sim/kernels/calls.py CALLS": "kernels of the mesh that stand for an operation with arguments of its own",
    "wse_sim/kernels/compare.py ARGUMENTS": "sizes at which kernels of the mesh are compared",
    "wse_sim/kernels/scalars.py POINTWISE": "instructions for a core: the simulator's own facet of an operation",
    "lazytensor/functional/out_argument_names.py FUNCTIONS_WITHOUT_OUT": "public functions, some named like operations",
    "lazytensor/functional/gradient_names.py GRADIENT_NAMES": "PyTorch's names of formulas and of overloads",
    "lazytensor/functional/remembered_calls.py TYPE_DETERMINED": "public functions whose calls are remembered",
    "lazytensor/functional/vendor_formulas.py FORMULAS": "formulas that are recorded in place of a function on CSX",
    "lazytensor/functional/csx_refused_names.py _ROWS": "public functions that the vendor's front end refuses",
    "cstorch_compat/check/watched_calls.py OPERATOR_NAMES": "the operators of Python",
    "cstorch_compat/check/rewrites.py REWRITES": "calls of PyTorch's functions, and what to write instead",
}


def named(literal: ast.expr) -> set[str]:
    """The operations that a literal names: by strings, keys, or the words of a string that is a list of names."""
    operations: set[str] = set()
    for n in ast.walk(literal):
        if isinstance(n, ast.Constant) and isinstance(n.value, str):
            words = n.value.split()
            known = set(words) & OPS.keys()
            # A sentence has a capital or a full stop, a phrase such as "batch size" one operation at most.
            is_list = all(word.isidentifier() and word.islower() for word in words)
            if is_list and (len(words) == 1 or len(known) > 1):
                operations |= known
    return operations


def tables(text: str) -> Iterator[tuple[str, set[str]]]:
    """The module-level names whose literal names several operations."""
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign) and statement.value is not None:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            operations = named(statement.value)
            if len(operations) >= FEWEST:
                yield ast.unparse(target), operations


@pytest.mark.slow
def test_facts_about_operations_stand_in_their_rows():
    spread = {
        f"{path.relative_to(ROOT)} {name}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if not path.is_relative_to(ROOT / "lazytensor" / "ops")
        for name, _ in tables(path.read_text(encoding="utf-8"))
    }
    assert spread == set(LISTED)


@pytest.mark.parametrize(
    "planted",
    [
        'A = frozenset("add sub mul div".split())',
        'A = {"add": 1, "sub": 2, "mul": 3, "div": 4}',
        'A: tuple = (("add", "sub"), ["mul", "div"])',
        'A |= {"add", "sub", "mul", "div"}',
        'A = """add sub\nmul div"""',
    ],
)
def test_walk_notices_a_table(planted):
    assert list(tables(planted)) == [("A", {"add", "sub", "mul", "div"})]


@pytest.mark.parametrize(
    "innocent",
    [
        'A = "We add, sub, mul and div numbers."',
        'A = {"add", "sub", "mul"}',
        'def f():\n    return {"add", "sub", "mul", "div"}',
    ],
)
def test_walk_passes_by_what_is_no_table(innocent):
    assert list(tables(innocent)) == []


@pytest.mark.parametrize(
    "facets, said",
    [
        ({}, "'novelty' has no facet `cirh`"),
        ({"composite": lambda x: x, "body": OPS["neg"].body}, "'novelty' has a loop body and also a composite"),
        ({"cirh": illegal_with_hint("")}, "'novelty' is refused in CIRH without a hint"),
    ],
)
def test_row_without_a_needed_facet_fails_with_its_name(facets, said):
    with pytest.raises(IncompleteOperation, match=said):
        op("novelty", same_types, lambda x: x, **facets)
    assert "novelty" not in OPS


def test_operation_has_one_row():
    with pytest.raises(IncompleteOperation, match="'add' is defined twice"):
        op("add", same_types, lambda a, b: a + b, cirh=illegal_with_hint("Write a + b."))
