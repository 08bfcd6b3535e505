"""The wheel: what it holds, how large it is, and that its example runs from it alone."""

import ast
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from tests.conftest import PACKAGES, ROOT

LARGEST_BYTES = 3 << 19
BUILD = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel of these sources, built in a copy of them."""
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for package in (*PACKAGES, "notebooks/scripts"):
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in BUILD:
        shutil.copy(ROOT / name, source)
    # What pip would do in an environment of its own, which it would fetch from the network.
    build = f"from setuptools.build_meta import build_wheel; build_wheel({str(folder)!r})"
    done = subprocess.run([sys.executable, "-c", build], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("lazywafer-*.whl")
    return path


def lines(statement):
    return range(statement.lineno, statement.end_lineno + 1)


def unshown(node, is_shown=True):
    """The lines of statements that are a text and nothing else, without the docstrings that `help` shows."""
    for k, child in enumerate(node.body):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant) and isinstance(child.value.value, str):
            yield from lines(child) if k or not is_shown else ()
        name = getattr(child, "name", "_")
        is_public = is_shown and isinstance(node, ast.Module | ast.ClassDef)
        is_public &= not name.startswith("_") or name.endswith("__")
        for part in (child, *getattr(child, "handlers", ()), *getattr(child, "orelse", ())):
            if hasattr(part, "body") and isinstance(part.body, list):
                yield from unshown(part, is_public)


@pytest.mark.slow
@pytest.mark.process
def test_wheel_is_small_and_lacks_only_what_is_said_to_those_who_change_it(wheel):
    assert wheel.stat().st_size <= LARGEST_BYTES
    with zipfile.ZipFile(wheel) as archive:
        for path in (p for package in PACKAGES for p in (ROOT / package).rglob("*.py")):
            ours = path.read_text(encoding="utf-8")
            built = archive.read(path.relative_to(ROOT).as_posix()).decode()
            texts = set(unshown(ast.parse(ours)))
            for k, (line, rest) in enumerate(zip(ours.splitlines(), built.splitlines(), strict=True), 1):
                is_comment = line.startswith(rest) and line.removeprefix(rest).lstrip().startswith("#")
                assert line == rest or is_comment or (not rest and k in texts)
        page = archive.read(next(n for n in archive.namelist() if n.endswith("METADATA"))).decode()
        # Nothing lies beside the page of a package index.
        assert re.findall(r"\]\((?!https?://|#)[^)]*\)|<img", page) == []
        assert "# lazywafer" in page
        for path in (ROOT / "notebooks" / "scripts").glob("*.py"):
            assert archive.read(f"cstorch_compat/examples/{path.name}") == path.read_bytes()
