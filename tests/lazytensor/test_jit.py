"""The kernel cache: found by everything that matters, repaired when damaged, shared by processes."""

import subprocess
import sys

import numpy as np
import pytest

from lazytensor import config
from lazytensor.errors import CompileError
from lazytensor.runtime import jit

SCALE = """\
import numpy as np
from numba import njit


@njit("void(float32[::1])", error_model="numpy", cache=True)
def kernel(a):
    for i in range({extent}):
        a[i] = a[i] * np.float32({factor})
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache folder, and a memory without kernels."""
    monkeypatch.setattr(jit, "_loaded", {})
    with config.override(cache=str(tmp_path)):
        yield tmp_path


def forget_process_memory():
    jit._loaded.clear()
    for name in [n for n in sys.modules if n.startswith("lazywafer_")]:
        del sys.modules[name]


def run(extent: int, factor: float) -> list[float]:
    a = np.ones(4, np.float32)
    jit.load(SCALE.format(extent=extent, factor=factor))(a)
    return a.tolist()


def test_kernels_that_differ_in_one_literal_or_extent_do_not_answer_for_each_other(cache):
    for _ in range(2):
        assert run(4, 2.0) == [2, 2, 2, 2]
        assert run(4, 3.0) == [3, 3, 3, 3]
        assert run(2, 2.0) == [2, 2, 1, 1]
        forget_process_memory()
    assert len(list(cache.glob("lazywafer_*"))) == 3


def test_equal_text_compiles_once(cache):
    assert jit.load(SCALE.format(extent=4, factor=2.0)) is jit.load(SCALE.format(extent=4, factor=2.0))
    first = {p: p.stat().st_mtime_ns for p in cache.rglob("*.nb*")}
    forget_process_memory()
    run(4, 2.0)
    assert first and {p: p.stat().st_mtime_ns for p in cache.rglob("*.nb*")} == first


@pytest.mark.parametrize("suffix", [".nbi", ".nbc", ".py", ".seal"])
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_entry_is_rebuilt(cache, suffix, damage):
    run(4, 2.0)
    (path,) = (p for p in cache.rglob("*") if p.suffix == suffix)
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(data[: len(data) // 2] if damage == "cut" else data[:-9] + bytes(9))
    forget_process_memory()
    assert run(4, 2.0) == [2, 2, 2, 2]
    forget_process_memory()
    assert run(4, 2.0) == [2, 2, 2, 2]


def test_the_digest_covers_the_surroundings(monkeypatch):
    before = jit.digest("text")
    monkeypatch.setattr(jit, "_salt", [b"another processor"])
    assert jit.digest("text") != before


def test_a_text_that_does_not_compile_is_reported():
    with pytest.raises(CompileError, match=r"does not load(.|\n)*LT_JIT=0"):
        jit.load("kernel = undefined_name\n")


def test_processes_that_start_together_do_not_clash(cache):
    script = (
        "import numpy as np\nfrom lazytensor.runtime import jit\n"
        f"for factor in (2.0, 3.0):\n  a = np.ones(4, 'f4')\n  jit.load({SCALE!r}.format(extent=4, factor=factor))(a)\n"
        "  assert a.tolist() == [factor] * 4, a\n"
    )
    environment = {"LT_CACHE": str(cache), "PYTHONPATH": ":".join(sys.path), "PATH": ""}
    started = [subprocess.Popen([sys.executable, "-c", script], env=environment) for _ in range(3)]
    assert [p.wait(timeout=120) for p in started] == [0, 0, 0]


def test_importing_the_host_does_not_import_numba():
    script = (
        "import sys, lazytensor.runtime.host, lazytensor.compiler.pipeline\n"
        "assert 'numba' not in sys.modules and 'llvmlite' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONPATH": ":".join(sys.path), "PATH": ""})
