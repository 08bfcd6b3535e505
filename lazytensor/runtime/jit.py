"""JIT: generated modules, run from memory; what they compile to is kept by a digest of all that it depends on.

A module is a text that defines `kernel` with `kept` of `lazytensor.machine_code`. Its name is a digest of the text,
which holds every constant, and of the helpers that it calls: one kernel can never be served for another. No source and
no bytecode is written. `lazytensor.native` compiles what it knows in a tenth of Numba's time, and Numba the rest; it is
imported with the first kernel that needs it, and not before.
"""

import hashlib
import importlib
import pathlib
import re
import sys
from collections.abc import Callable, Collection
from functools import partial
from types import ModuleType
from typing import Any

from lazytensor import config
from lazytensor.errors import CompileError
from lazytensor.kernels.routine import Routine
from lazytensor.native.bound_code import Kernel as NativeKernel
from lazytensor.native.kinds import Unknown

HELPERS = (
    *("intrinsics.py", "rounding.py", "vecmath.py", "lanes.py", "panels.py", "leaves/gather.py", "leaves/steps.py"),
    *("../kernels/places.py", "../kernels/times.py", "../kernels/panel_products.py"),
)
"""What generated modules import."""
LEAVES = pathlib.Path(__file__).with_name("leaves")
Kernel = Callable[..., Any]

_loaded: dict[tuple[str, str], Kernel] = {}
_salt: list[bytes] = []


def load(source: str) -> Kernel:
    """The compiled `kernel` of a module text, from memory, from disk, or new."""
    key = (config.current().cache, source)
    if key not in _loaded:
        _loaded[key] = _executed(source)
    return _loaded[key]


def bound(function: Kernel, *arguments: Any) -> Callable[[], object]:
    """A compiled kernel with its arguments given, as cheap to call as it can be."""
    return function.bound(*arguments) if isinstance(function, NativeKernel) else partial(function, *arguments)


def bound_parts(
    function: Kernel, parts: Collection[tuple[int, ...]], arrays: tuple[Any, ...]
) -> list[Callable[[], object]]:
    """The same for each part of a loop, which is its first and last turn, over the same arrays."""
    if isinstance(function, NativeKernel):
        return [*function.bound_parts(parts, arrays)]
    return [partial(function, *part, *arrays) for part in parts]


def leaf(routine: Routine) -> Kernel:
    """The compiled `kernel` of a routine, a module of `lazytensor.runtime.leaves`."""
    text = (LEAVES / f"{routine.leaf}.py").read_text(encoding="utf-8")
    if routine.is_special:
        # But for the first two, how many there are in all and in a part: another batch needs no other text.
        text = re.sub(r"\bg\[([2-9]|1\d)\]", lambda place: str(routine.geometry[int(place[1])]), text)
    return load(text)


def digest(source: str) -> str:
    """The name of a module text in the cache."""
    if not _salt:
        here = pathlib.Path(__file__)
        _salt.append(hashlib.blake2b(b"".join((here.parent / name).read_bytes() for name in HELPERS)).digest())
    return hashlib.blake2b(source.encode() + _salt[0], digest_size=16).hexdigest()


def _executed(source: str) -> Kernel:
    # Imported here: LLVM takes a tenth of a second, and Numba half of one.
    load_native = importlib.import_module("lazytensor.native.machine").load
    name = f"lazywafer_{digest(source)}"
    try:
        return load_native(source, name)  # type: ignore[no-any-return]
    except Unknown:
        pass  # Numba knows all of the language
    module = ModuleType(name)
    sys.modules[name] = module  # Numba looks the module up by name when it loads machine code
    try:
        exec(compile(source, f"<{name}>", "exec"), vars(module))
        kernel: Kernel = module.kernel
    except Exception as error:  # whatever Numba finds in a text
        sys.modules.pop(name, None)
        raise CompileError(
            f"kernel {name} does not compile: {error}", hint="LT_JIT=0 runs without compiling."
        ) from error
    return kernel
