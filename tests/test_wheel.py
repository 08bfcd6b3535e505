"""The wheel: what it holds, how large it is, and that its example runs from it alone."""

import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from tests.conftest import PACKAGES, ROOT

LARGEST_BYTES = 3 << 19
"""1.5 MB of 1,048,576 bytes."""
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


@pytest.mark.slow
@pytest.mark.process
def test_wheel_is_small_and_has_every_line_but_for_comments(wheel):
    assert wheel.stat().st_size <= LARGEST_BYTES
    with zipfile.ZipFile(wheel) as archive:
        for path in (p for package in PACKAGES for p in (ROOT / package).rglob("*.py")):
            ours = path.read_text(encoding="utf-8").splitlines()
            built = archive.read(path.relative_to(ROOT).as_posix()).decode().splitlines()
            for line, rest in zip(ours, built, strict=True):
                assert line == rest or (line.startswith(rest) and line.removeprefix(rest).lstrip().startswith("#"))
        page = archive.read(next(n for n in archive.namelist() if n.endswith("METADATA"))).decode()
        # Nothing lies beside the page of a package index.
        assert re.findall(r"\]\((?!https?://|#)[^)]*\)|<img", page) == []
        assert "# lazywafer" in page
        for path in (ROOT / "notebooks" / "scripts").glob("*.py"):
            assert archive.read(f"cstorch_compat/examples/{path.name}") == path.read_bytes()
