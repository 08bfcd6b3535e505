"""The wheel: what it holds, how large it is, and what it says of public names."""

import ast
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from tests.conftest import PACKAGES, ROOT

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


def texts(source):
    """The lines of statements that are a text and nothing else, docstrings among them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from range(node.lineno, node.end_lineno + 1)


@pytest.mark.slow
@pytest.mark.process
def test_wheel_lacks_no_line_of_code(wheel):
    with zipfile.ZipFile(wheel) as archive:
        for path in (p for package in PACKAGES for p in (ROOT / package).rglob("*.py")):
            ours = path.read_text(encoding="utf-8")
            built = archive.read(path.relative_to(ROOT).as_posix()).decode()
            said = set(texts(ours))
            for k, (line, rest) in enumerate(zip(ours.splitlines(), built.splitlines(), strict=True), 1):
                # A semicolon begins a comment in the texts that LLVM reads.
                is_comment = line.startswith(rest) and line.removeprefix(rest).lstrip().startswith(("#", "; "))
                assert line == rest or is_comment or (k in said and rest in ("", f'{line}"""'))
        page = archive.read(next(n for n in archive.namelist() if n.endswith("METADATA"))).decode()
        # Nothing lies beside the page of a package index.
        assert re.findall(r"\]\((?!https?://|#)[^)]*\)|<img", page) == []
        assert "# lazywafer" in page
        _, *packed = lzma.decompress(archive.read("lazytensor/texts.lzma")).split(b"\0")
        texts_of = dict(zip(packed[::2], packed[1::2], strict=True))
        kinds = (".txt", ".html", ".css", ".json", ".js")
        sources = [p for package in PACKAGES for p in (ROOT / package).rglob("*") if p.suffix in kinds]
        sources += (ROOT / "notebooks" / "scripts").glob("*.py")
        assert texts_of.keys() <= {path.name.encode() for path in sources}
        for path in sources:
            ours, name = path.read_bytes(), path.relative_to(ROOT).as_posix()
            built = texts_of[path.name.encode()] if path.name.encode() in texts_of else archive.read(name)
            if path.suffix == ".js":
                ours = b"".join(line for line in ours.splitlines(True) if not line.lstrip().startswith(b"//"))
            assert built == ours or (path.suffix == ".json" and json.loads(built) == json.loads(ours)), name


@pytest.mark.slow
@pytest.mark.process
def test_wheel_says_of_every_public_name_what_the_sources_say(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    places, answers = zip(*map(public_docs, (ROOT, tmp_path)), strict=True)
    assert places == tuple(str(folder / "cstorch_compat" / "__init__.py") for folder in (ROOT, tmp_path))
    sources, installed = map(json.loads, answers)
    assert len(sources) > 3000
    assert [name for name, text in sources.items() if installed[name] != text] == []


def public_docs(folder):
    """What help shows where the packages lie in a folder: the place that they were imported from, and all texts."""
    env = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "tests.public_docs"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
