"""The wheel and the source distribution: they hold the sources and the course, and an installed wheel runs."""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

from tests.conftest import PACKAGES, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.process]
NO_SOURCES = ("__pycache__", ".*", "build", "tests", "*.egg-info", "cerebras_logs")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with a wheel and a source distribution of this checkout."""
    source, folder = tmp_path_factory.mktemp("build") / "source", tmp_path_factory.mktemp("built")
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*NO_SOURCES))
    # pip would build in an environment that it installs from the network.
    build = f"from setuptools import build_meta as b; b.build_sdist({str(folder)!r}); b.build_wheel({str(folder)!r})"
    run([sys.executable, "-c", build], source)
    return folder


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """A folder into which pip has installed the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    (wheel,) = built.glob("*.whl")
    options = ["--quiet", "--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check"]
    run([sys.executable, "-m", "pip", "install", *options, "--target", str(folder), str(wheel)], folder)
    return folder


def run(command, folder, **variables):
    done = subprocess.run(command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sources():
    """Path in a wheel -> path in the checkout."""
    places = {package: ROOT / package for package in PACKAGES}
    places["cstorch_compat/scripts"] = ROOT / "notebooks" / "scripts"
    return {
        f"{name}/{path.relative_to(folder).as_posix()}": path
        for name, folder in places.items()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_wheel_holds_the_sources_and_nothing_else(built):
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        texts = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
    assert texts.keys() == sources().keys()
    assert [name for name, place in sources().items() if texts[name] != place.read_bytes()] == []


def test_wheel_names_no_project_address(built):
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        page = archive.read(next(n for n in archive.namelist() if n.endswith("METADATA"))).decode()
    head = page.partition("\n\n")[0]
    assert "Name: lazywafer" in head
    assert "Project-URL" not in head and "Home-page" not in head


def test_source_distribution_has_the_course(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {
            pathlib.PurePosixPath(n).relative_to(path.name.removesuffix(".tar.gz")).as_posix()
            for n in archive.getnames()
        }
    course = {
        p.relative_to(ROOT).as_posix()
        for p in (ROOT / "notebooks").glob("**/*")
        if p.suffix in (".ipynb", ".py", ".md")
    }
    assert course <= names
    assert {p.partition("/")[0] for p in names if "/" in p} == {*PACKAGES, "docs", "notebooks", "lazywafer.egg-info"}


def test_installed_wheel_writes_and_runs_an_example(installed, tmp_path):
    command, place = str(installed / "bin" / "lazywafer"), {"PYTHONPATH": str(installed)}
    run([command, "example", "mnist"], tmp_path, **place)
    out = run([command, "run", "mnist.py", "--epochs", "1"], tmp_path, **place)
    assert "accuracy" in out
    where = "import lazytensor, wse_sim, cstorch_compat as c; print(lazytensor.__file__, wse_sim.__file__, c.__file__)"
    assert run([sys.executable, "-c", where], tmp_path, **place).count(str(installed)) == 3


def test_every_module_of_the_installed_wheel_is_imported(installed, tmp_path):
    modules = [
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in sources()
        if name.endswith(".py") and "/scripts/" not in name and not name.endswith("__main__.py")
    ]
    imported = f"import importlib\nfor name in {modules}: importlib.import_module(name)"
    run([sys.executable, "-c", imported], tmp_path, PYTHONPATH=str(installed))
