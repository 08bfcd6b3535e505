"""Tools of others that read MLIR: what they print of texts that they have read and verified."""

import io
import shutil
import subprocess
from collections.abc import Iterable
from typing import Any

import pytest

CUT = "// -----\n"
RELEASES = range(40, 14, -1)
"""Of MLIR, newest first. In 14 a function was another operation than since then."""


def by_way_of_xdsl(text: str, *dialects: Any, is_generic: bool = True) -> str:
    """A text as xDSL prints it. `dialects` are those that it loads in addition to builtin and func."""
    xdsl = pytest.importorskip("xdsl.parser", reason="xdsl is an extra of the tests")
    from xdsl.context import Context  # noqa: PLC0415 - only where it is installed
    from xdsl.dialects.builtin import Builtin  # noqa: PLC0415
    from xdsl.dialects.func import Func  # noqa: PLC0415
    from xdsl.dialects.pdl import PDL  # noqa: PLC0415
    from xdsl.printer import Printer  # noqa: PLC0415

    context = Context(allow_unregistered=True)
    for dialect in (Builtin, Func, PDL, *dialects):
        context.load_dialect(dialect)
    module = xdsl.Parser(context, text).parse_module()
    module.verify()
    out = io.StringIO()
    Printer(out, print_generic_format=is_generic).print_op(module)
    return out.getvalue()


def by_way_of_mlir(*texts: str) -> list[str]:
    """Texts as the newest mlir-opt on the machine prints them, all in one process."""
    # Debian has the release in the name.
    paths = filter(None, map(shutil.which, ("mlir-opt", *(f"mlir-opt-{release}" for release in RELEASES))))
    if not (path := next(paths, None)):
        pytest.skip(f"mlir-opt of release {RELEASES[-1]} or newer is not here: apt-get install mlir-19-tools")
    options = ("--allow-unregistered-dialect", "--mlir-print-op-generic", "--split-input-file")
    done = subprocess.run([path, *options], input=CUT.join(texts), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split(CUT)


def by_way_of_xdsl_stablehlo(text: str, is_generic: bool) -> str:
    """A text of StableHLO as the dialect of xDSL prints it."""
    stablehlo = pytest.importorskip("xdsl_jax.dialects.stablehlo", reason="pip install xdsl-jax")
    return by_way_of_xdsl(text, stablehlo.StableHLO, is_generic=is_generic)


def by_way_of_stablehlo(text: str, is_generic: bool) -> str:
    """A text of StableHLO as the dialect itself prints it after verification."""
    pytest.importorskip("jax", reason="pip install jax")
    from jax.interpreters import mlir  # noqa: PLC0415 - only where it is installed
    from jaxlib.mlir import ir  # noqa: PLC0415

    with mlir.make_ir_context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(text)
        assert module.operation.verify()
        return module.operation.get_asm(print_generic_op_form=is_generic)


def rewritten_by_xdsl(graph: str, patterns: list[str], operations: Iterable[str]) -> str:
    """A graph after xDSL's interpreter of pdl has applied patterns, which it tries in the given order."""
    pytest.importorskip("xdsl.interpreters.pdl", reason="xdsl is an extra of the tests")
    from xdsl.context import Context  # noqa: PLC0415 - only where it is installed
    from xdsl.dialects import builtin, func, pdl  # noqa: PLC0415
    from xdsl.interpreters.pdl import PDLRewritePattern  # noqa: PLC0415
    from xdsl.irdl import IRDLOperation, irdl_op_definition, var_operand_def, var_result_def  # noqa: PLC0415
    from xdsl.parser import Parser  # noqa: PLC0415
    from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriteWalker  # noqa: PLC0415
    from xdsl.printer import Printer  # noqa: PLC0415

    context = Context(allow_unregistered=True)
    for dialect in (builtin.Builtin, func.Func, pdl.PDL):
        context.load_dialect(dialect)
    # The interpreter compares names of operations, which only registered ones have.
    for name in operations:
        parts = {"name": name, "inputs": var_operand_def(), "outputs": var_result_def(), "__annotations__": {}}
        context.load_op(irdl_op_definition(type("Operation", (IRDLOperation,), parts)))
    module = Parser(context, graph).parse_module()
    parsed = Parser(context, "\n".join(patterns)).parse_module()
    parsed.verify()
    rewrites = [PDLRewritePattern(op, context) for op in parsed.walk() if isinstance(op, pdl.RewriteOp)]
    PatternRewriteWalker(GreedyRewritePatternApplier(rewrites)).rewrite_module(module)
    module.verify()
    out = io.StringIO()
    Printer(out, print_generic_format=True).print_op(module)
    return out.getvalue()
