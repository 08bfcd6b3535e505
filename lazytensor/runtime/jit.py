"""JIT: generated Numba modules on disk, found by a digest of everything that their machine code depends on.

A module is a text that defines `kernel`. It is written once into its own folder in the cache, named by its digest;
Numba keeps the machine code beside it, and a seal with its checksum tells whether that is whole. The digest covers the
text, which holds every constant, the helpers that it calls, the versions of Python, NumPy and Numba, and the processor:
Numba's own index knows of none of the first two, and would silently serve one kernel for another. Numba is imported
here and only here, when the first kernel is needed.
"""

import hashlib
import importlib
import importlib.util
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from lazytensor import config
from lazytensor.errors import CompileError

HELPERS = ("intrinsics.py", "rounding.py", "vecmath.py")  # what generated modules import
Kernel = Callable[..., Any]

_loaded: dict[tuple[str, str], Kernel] = {}
_salt: list[bytes] = []


def load(source: str) -> Kernel:
    """The compiled `kernel` of a module text, from memory, from disk, or new."""
    folder = config.current().cache_folder
    key = (str(folder), source)
    if key not in _loaded:
        _loaded[key] = _from_disk(source, folder)
    return _loaded[key]


def digest(source: str) -> str:
    """The name of a module text in the cache."""
    if not _salt:
        _salt.append(_surroundings())
    return hashlib.blake2b(source.encode() + _salt[0], digest_size=16).hexdigest()


def _surroundings() -> bytes:
    """What the machine code depends on besides the text."""
    numba = importlib.import_module("numba")
    llvm = importlib.import_module("llvmlite.binding")
    here = pathlib.Path(__file__)
    helpers = b"".join(here.with_name(name).read_bytes() for name in HELPERS)
    # Machine code of another processor can hold instructions that this one does not have.
    facts = (sys.version_info[:3], np.__version__, numba.__version__, llvm.get_host_cpu_name())
    return hashlib.blake2b(repr(facts).encode() + helpers).digest()


def _from_disk(source: str, folder: pathlib.Path) -> Kernel:
    name = f"lazywafer_{digest(source)}"
    folder = folder / name
    # Before anything of it is loaded: damaged machine code does not raise, it crashes.
    if not _is_whole(folder, name):
        _forget(folder, name)
    # Three attempts, since another process may be emptying or writing the same folder just now.
    for is_last in (False, False, True):
        try:
            return _executed(folder, name, source)
        except Exception as error:  # a damaged entry, or another process that repairs it, can fail in any way
            if is_last:
                raise CompileError(
                    f"kernel {folder / name} does not load: {error}",
                    hint="LT_CACHE has to be a folder that can be written; LT_JIT=0 runs without compiling.",
                ) from error
            _forget(folder, name)
    raise AssertionError


def _machine_code(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(p for p in folder.glob("__pycache__/*") if p.suffix in (".nbi", ".nbc"))


def _checksum(folder: pathlib.Path) -> str:
    return hashlib.blake2b(b"".join(p.read_bytes() for p in _machine_code(folder)), digest_size=16).hexdigest()


def _is_whole(folder: pathlib.Path, name: str) -> bool:
    """False where Numba's files are not those that were sealed: loading damaged machine code can kill the process."""
    seal = folder / f"{name}.seal"
    if not seal.exists():
        return not _machine_code(folder)
    return seal.read_text(encoding="utf-8") == _checksum(folder)


def _write_once(path: pathlib.Path, text: str) -> None:
    """Put a text in place in one move, unless it is there already: its time stamp is part of Numba's index."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    # In one move: a process that reads meanwhile sees the old text or the new one, never half of it.
    os.replace(temporary, path)


def _forget(folder: pathlib.Path, name: str) -> None:
    """Empty the folder of an entry."""
    sys.modules.pop(name, None)
    for path in (folder / f"{name}.py", folder / f"{name}.seal", *_machine_code(folder)):
        path.unlink(missing_ok=True)


def _executed(folder: pathlib.Path, name: str, source: str) -> Kernel:
    """Write the module if it is not there, run it, and seal the machine code that now lies beside it."""
    path = folder / f"{name}.py"
    _write_once(path, source)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CompileError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Numba looks the module up by name when it reads its cache
    spec.loader.exec_module(module)
    _write_once(folder / f"{name}.seal", _checksum(folder))
    kernel: Kernel = module.kernel
    return kernel
