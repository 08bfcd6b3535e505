"""The kernel cache: found by everything that matters, repaired when damaged, shared by processes."""

import errno
import importlib
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from lazytensor import config
from lazytensor.errors import CompileError
from lazytensor.runtime import jit
from lazytensor.system import atomic_files, private_files

SCALE = """\
import numpy as np
from lazytensor.runtime.language import typed


@typed("void(float32[::1])")
def kernel(a):
    for i in range({extent}):
        a[i] = a[i] * np.float32({factor})
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache folder, and a memory without kernels and without warnings."""
    monkeypatch.setattr(jit, "_loaded", {})
    monkeypatch.setattr(private_files, "_warned_kinds", set())
    monkeypatch.setattr(private_files, "_trimmed_folders", set())
    private_files._kernel_folder.cache_clear()
    with config.override(cache=str(tmp_path / "cache")):
        yield tmp_path / "cache"
    private_files._kernel_folder.cache_clear()


def kernels(cache):
    return sorted(cache.glob("*/*.kernel"))


def only_kernel(cache):
    (path,) = kernels(cache)
    return path


def forget_process_memory():
    jit._loaded.clear()
    for name in [n for n in sys.modules if n.startswith("lazywafer_")]:
        del sys.modules[name]


def run(extent: int, factor: float) -> list[float]:
    a = np.ones(4, np.float32)
    jit.machine_code(SCALE.format(extent=extent, factor=factor))(a)
    return a.tolist()


@pytest.mark.slow
def test_kernels_that_differ_in_one_literal_or_extent_do_not_answer_for_each_other(cache):
    for _ in range(2):
        assert run(4, 2.0) == [2, 2, 2, 2]
        assert run(4, 3.0) == [3, 3, 3, 3]
        assert run(2, 2.0) == [2, 2, 1, 1]
        forget_process_memory()
    assert len(kernels(cache)) == 3


@pytest.mark.slow
def test_equal_text_compiles_once(cache):
    assert jit.machine_code(SCALE.format(extent=4, factor=2.0)) is jit.machine_code(SCALE.format(extent=4, factor=2.0))
    first = {p: p.stat().st_mtime_ns for p in kernels(cache)}
    forget_process_memory()
    run(4, 2.0)
    assert first and {p: p.stat().st_mtime_ns for p in kernels(cache)} == first


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


DAMAGE = {
    "cut": cut,
    "empty": lambda data: b"",
    "a bit of the digest": lambda data: bytes([data[0] ^ 1]) + data[1:],
    "the last bit": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_kernel_is_compiled_again_with_one_warning(cache, damage):
    run(4, 2.0)
    whole = only_kernel(cache).read_bytes()
    only_kernel(cache).write_bytes(DAMAGE[damage](whole))
    forget_process_memory()
    with pytest.warns(UserWarning, match="damaged") as warned:
        assert run(4, 2.0) == [2, 2, 2, 2]
    assert len(warned) == 1
    forget_process_memory()
    assert run(4, 2.0) == [2, 2, 2, 2]
    private_files.read_kernel(only_kernel(cache).name)  # would warn again


@pytest.mark.slow
def test_a_kernel_in_the_place_of_another_is_not_run(cache):
    run(4, 2.0)
    doubling = only_kernel(cache)
    run(4, 3.0)
    (tripling,) = set(kernels(cache)) - {doubling}
    tripling.write_bytes(doubling.read_bytes())
    forget_process_memory()
    with pytest.warns(UserWarning, match="damaged"):
        assert run(4, 3.0) == [3, 3, 3, 3]


def test_only_kernels_are_written_and_no_other_user_can_open_them(cache):
    before = os.umask(0)
    try:
        run(4, 2.0)
    finally:
        os.umask(before)
    written = [cache, *cache.rglob("*")]
    assert {p.suffix for p in written if p.is_file()} == {".kernel"}
    assert not [p for p in written if p.stat().st_mode & 0o077]


class Evil:
    def __reduce__(self):
        return os.mkdir, ("planted",)


def planted(path, data=None):
    path.unlink(missing_ok=True)
    path.write_bytes(pickle.dumps(Evil()) if data is None else data)


def plant_pickle(path):
    planted(path)


def plant_link(path):
    path.rename(path.with_suffix(".away"))
    path.symlink_to(path.with_suffix(".away"))


def plant_pipe(path):
    path.unlink()
    os.mkfifo(path)


def plant_open_file(path):
    path.chmod(0o666)


def plant_folder(path):
    path.unlink()
    path.mkdir()


def plant_kernel_of_another(path):
    run(4, 3.0)
    (other,) = [p for p in kernels(path.parent.parent) if p != path]
    planted(path, other.read_bytes())
    other.unlink()


def plant_in_a_folder_open_to_all(path):
    path.parent.chmod(0o777)
    planted(path)


def plant_by_a_link_for_the_folder(path):
    away = path.parent.rename(path.parent.with_suffix(".away"))
    path.parent.symlink_to(away)
    planted(away / path.name)


@pytest.mark.slow
@pytest.mark.parametrize("plant", [v for k, v in list(globals().items()) if k.startswith("plant_")])
def test_what_others_plant_is_not_executed(cache, plant, monkeypatch):
    monkeypatch.chdir(cache.parent)
    run(4, 2.0)
    plant(only_kernel(cache))
    fresh_place()
    with pytest.warns(UserWarning, match="kernel"):
        assert run(4, 2.0) == [2, 2, 2, 2]
    assert not (cache.parent / "planted").exists()


EVIL = "import os\nos.mkdir('planted')\n"


def module(folder, name):
    (folder / f"{name}.py").write_text(EVIL)


def unchecked_code(folder, name):
    data = importlib._bootstrap_external._code_to_hash_pyc(compile(EVIL, name, "exec"), bytes(8), False)
    for path in (folder / f"{name}.pyc", folder / "__pycache__" / f"{name}.{sys.implementation.cache_tag}.pyc"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("file", [module, unchecked_code])
def test_what_lies_beside_the_kernels_is_not_imported(cache, file, monkeypatch):
    monkeypatch.chdir(cache.parent)
    run(4, 2.0)
    name = f"lazywafer_{jit.digest(SCALE.format(extent=4, factor=2.0))}"
    for folder in (cache / name, only_kernel(cache).parent / name, only_kernel(cache).parent):
        folder.mkdir(exist_ok=True)
        file(folder, name)
    forget_process_memory()
    assert run(4, 2.0) == [2, 2, 2, 2]
    assert not (cache.parent / "planted").exists()


def fresh_place():
    private_files._kernel_folder.cache_clear()
    forget_process_memory()


@pytest.mark.slow
def test_a_folder_that_was_open_to_others_is_closed(cache):
    run(4, 2.0)
    folder = only_kernel(cache).parent
    folder.chmod(0o777)
    fresh_place()
    assert run(4, 2.0) == [2, 2, 2, 2]
    assert folder.stat().st_mode & 0o777 == 0o700


def not_own(cache, monkeypatch):
    (cache / f"compiled-{os.geteuid()}").mkdir(parents=True)
    own = os.geteuid()
    monkeypatch.setattr(private_files, "_is_owned_by_user", lambda status: status.st_uid != own)


def a_link(cache, monkeypatch):
    (cache.parent / "elsewhere").mkdir()
    cache.mkdir()
    (cache / f"compiled-{os.geteuid()}").symlink_to(cache.parent / "elsewhere")


def a_file(cache, monkeypatch):
    cache.write_text("no folder")


def a_full_disk(cache, monkeypatch):
    def write(handle, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    private_files._kernel_folder(cache)
    monkeypatch.setattr(private_files.os, "write", write)


@pytest.mark.slow
@pytest.mark.parametrize("place", [not_own, a_link, a_file, a_full_disk])
def test_without_a_place_of_its_own_a_run_goes_on_with_one_warning(cache, place, monkeypatch):
    place(cache, monkeypatch)
    with pytest.warns(UserWarning, match="are not cached(.|\n)*LT_CACHE") as warned:
        assert (run(4, 2.0), run(4, 3.0)) == ([2, 2, 2, 2], [3, 3, 3, 3])
    assert len(warned) == 1 and not kernels(cache)
    assert not list(cache.parent.glob("elsewhere/*"))


@pytest.mark.slow
def test_what_a_killed_process_was_writing_is_cleared_by_the_next(cache):
    run(4, 2.0)
    folder = only_kernel(cache).parent
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    handle, own = atomic_files.create_temporary_file(folder / "a.kernel")
    os.close(handle)
    left = own.replace(f".{os.getpid()}.", f".{dead.pid}.")
    (folder / left).write_bytes(b"half")
    assert atomic_files.remove_leftovers(folder) == 1
    assert os.path.exists(own) and not os.path.exists(left)


@pytest.mark.slow
def test_who_only_reads_does_not_look_through_the_folder(cache, monkeypatch):
    run(4, 2.0)
    cleared = []
    monkeypatch.setattr(atomic_files, "remove_leftovers", cleared.append)
    monkeypatch.setattr(private_files, "_trimmed_folders", set())
    private_files._kernel_folder.cache_clear()
    forget_process_memory()
    run(4, 2.0)
    assert cleared == []
    run(4, 3.0)
    assert cleared == [kernels(cache)[0].parent]


def test_the_digest_covers_the_surroundings(monkeypatch):
    before = jit.digest("text")
    monkeypatch.setattr(jit, "_salt", [b"another processor"])
    assert jit.digest("text") != before


@pytest.mark.slow
def test_a_text_that_does_not_compile_is_reported():
    with pytest.raises(CompileError, match=r"does not compile(.|\n)*LT_JIT=0"):
        jit.machine_code("kernel = undefined_name\n")


@pytest.mark.process
def test_processes_that_start_together_do_not_clash(cache):
    script = (
        "import numpy as np\nfrom lazytensor.runtime import jit\n"
        f"for factor in (2.0, 3.0):\n  a = np.ones(4, 'f4')\n  jit.load({SCALE!r}.format(extent=4, factor=factor))(a)\n"
        "  assert a.tolist() == [factor] * 4, a\n"
    )
    environment = {"LT_CACHE": str(cache), "PYTHONPATH": ":".join(sys.path), "PATH": ""}
    started = [subprocess.Popen([sys.executable, "-c", script], env=environment) for _ in range(3)]
    assert [p.wait(timeout=120) for p in started] == [0, 0, 0]


@pytest.mark.process
def test_importing_the_host_does_not_import_numba():
    script = (
        "import sys, lazytensor.runtime.host, lazytensor.compiler.pipeline\n"
        "assert 'numba' not in sys.modules and 'llvmlite' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONPATH": ":".join(sys.path), "PATH": ""})


def test_of_too_many_kernels_those_go_that_were_read_longest_ago(cache, monkeypatch):
    for number in range(6):
        private_files.write_kernel(f"{number}.kernel", b"code" * 100)
    files = kernels(cache)
    for age, path in enumerate(files):
        os.utime(path, (1e9 - age, 1e9 - age))
    size = files[0].stat().st_size
    assert private_files.trim_cache() == (6, 6 * size)
    monkeypatch.setattr(private_files, "MAX_CACHE_BYTES", 2 * size)
    monkeypatch.setattr(private_files, "_trimmed_folders", set())  # as a new process has it
    private_files.write_kernel("new.kernel", b"code" * 100)
    assert [path.name for path in kernels(cache)] == ["0.kernel", "1.kernel", "new.kernel"]
    assert private_files.trim_cache(0) == (0, 0)
    assert kernels(cache) == []
