"""Compile modules in the kernel language, and cache their machine code in memory and on disk.

A module is a text that defines `kernel`, decorated as in `lazytensor.runtime.language`. The cache key is a digest of
the text, which contains every constant, and of the helper modules. No source and no bytecode is written. With LT_JIT=0
a kernel is the plain Python function.
"""

import functools
import hashlib
import importlib
import linecache
import pathlib
import re
from collections.abc import Callable
from typing import Any

from lazytensor import config
from lazytensor.errors import CompileError
from lazytensor.kernels.routine import Routine
from lazytensor.llvm.bound_code import Kernel as MachineCode
from lazytensor.llvm.number_types import Unknown

HELPERS = (
    *("language.py", "intrinsics.py", "atomics.py", "rounding.py", "lanes.py", "panels.py"),
    *("vecmath.py", "special_math.py", "wide_math.py", "grid_taps.py", "ctc_alignments.py"),
    *("compiled_kernels/image_layout.py", "compiled_kernels/recurrent_parts.py"),
    *("../kernels/convolution_geometry.py", "../kernels/recurrent_geometry.py", "../kernels/panel_products.py"),
)
"""The modules that kernel texts may import. A change of one of them makes all cached machine code invalid."""
KERNELS_FOLDER = pathlib.Path(__file__).with_name("compiled_kernels")
Kernel = Callable[..., Any]

_loaded: dict[tuple[str, str, str], MachineCode] = {}
_salt: list[bytes] = []


def load(source: str, name: str = "kernel") -> Kernel:
    """Return the kernel `name` of a module text, compiled or from a cache; with LT_JIT=0 the plain Python function."""
    return machine_code(source, name) if config.current().jit else plain(source, name)


def machine_code(source: str, name: str = "kernel") -> MachineCode:
    """Return the kernel `name` of a module text as machine code, also with LT_JIT=0.

    It is compiled once for each text and cache folder. Raise CompileError if the text cannot be compiled.
    """
    key = (config.current().cache, source, name)
    if key not in _loaded:
        _loaded[key] = _compiled(source, name)
    return _loaded[key]


def plain(source: str, name: str = "kernel") -> Kernel:
    """Return the kernel `name` of a module text as a Python function, by executing the text.

    Debuggers and tracebacks show its lines. Raise KeyError if there is no such function.
    """
    file = f"<lazywafer_{digest(source)}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    names: dict[str, Any] = {}
    exec(compile(source, file, "exec"), names)
    kernel: Kernel = names[name]
    return kernel


def load_routine(routine: Routine) -> Kernel:
    """Return the kernel of a routine, compiled from its module in `lazytensor.runtime.compiled_kernels`.

    If the routine `is_special`, the numbers of its geometry become constants of the text, except the first two, which
    depend on the batch.
    """
    text = read_kernel(routine.module)
    if routine.is_special:
        # Numbers 0 and 1 (the totals and the count per part) stay variables, so that every batch size shares a text.
        text = re.sub(r"\bg\[([2-9]|1\d)\]", lambda place: str(routine.geometry[int(place[1])]), text)
    return load(text)


@functools.cache
def read_kernel(name: str) -> str:
    """Return the text of a module of `lazytensor.runtime.compiled_kernels`."""
    return (KERNELS_FOLDER / f"{name}.py").read_text(encoding="utf-8")


def digest(source: str) -> str:
    """Return the digest, 32 hexadecimal digits, of a module text and of the helper modules; it names the module in
    the cache.
    """
    if not _salt:
        here = pathlib.Path(__file__)
        _salt.append(hashlib.blake2b(b"".join((here.parent / name).read_bytes() for name in HELPERS)).digest())
    return hashlib.blake2b(source.encode() + _salt[0], digest_size=16).hexdigest()


def _compiled(source: str, function: str) -> MachineCode:
    """Compile a kernel by LLVM, or load it from the disk cache. Raise CompileError if the text cannot be compiled."""
    # Imported here because importing LLVM takes a tenth of a second.
    load_native = importlib.import_module("lazytensor.llvm.machine_code").load
    name = f"lazywafer_{digest(source)}"
    try:
        return load_native(source, f"{name} {function}", function)  # type: ignore[no-any-return]
    except Unknown as error:
        raise CompileError(
            f"kernel {name} does not compile: {error}", hint="Set LT_JIT=0 to run without compiled kernels."
        ) from error
