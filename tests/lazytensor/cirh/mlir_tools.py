"""Tools of others that read MLIR: what they print of texts that they have read and verified."""

import io
import shutil
import subprocess

import pytest

CUT = "// -----\n"
RELEASES = range(40, 14, -1)
"""Of MLIR, newest first. In 14 a function was another operation than since then."""


def by_way_of_xdsl(text: str) -> str:
    """A text as xDSL prints it."""
    xdsl = pytest.importorskip("xdsl.parser", reason="xdsl is an extra of the tests")
    from xdsl.context import Context  # noqa: PLC0415 - only where it is installed
    from xdsl.dialects.builtin import Builtin  # noqa: PLC0415
    from xdsl.dialects.func import Func  # noqa: PLC0415
    from xdsl.printer import Printer  # noqa: PLC0415

    context = Context(allow_unregistered=True)
    context.load_dialect(Builtin)
    context.load_dialect(Func)
    module = xdsl.Parser(context, text).parse_module()
    module.verify()
    out = io.StringIO()
    Printer(out, print_generic_format=True).print_op(module)
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
