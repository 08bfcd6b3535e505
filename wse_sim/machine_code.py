"""Compile functions with Numba, and keep their machine code on disk for later runs.

Numba's cache neither checks nor protects its files: a damaged file crashes the process, and a user who can write a file
can run code in the process. `kept` therefore replaces it by files in `lazytensor.system.private_files`, which only the
current user can write. The name of a file is a hash that includes the versions of Python and Numba and the processor;
the caller's `identity` has to cover everything else that the code depends on. Importing this module imports Numba.
"""

import hashlib
import logging
import pickle
import sys
from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from lazytensor.system import private_files

# Numba's own functions have no type annotations.
_pickled: Callable[[Any], bytes] = dumps
_rebuilt: Callable[..., Any] = CompileResult._rebuild

# At the level DEBUG, Numba's messages would hide those of the script.
for _name in ("numba", "llvmlite"):
    if logging.getLogger(_name).level == logging.NOTSET:
        logging.getLogger(_name).setLevel(logging.WARNING)

SURROUNDINGS = (
    sys.version_info[:3],
    np.__version__,
    numba.__version__,
    llvmlite.__version__,
    llvmlite.binding.get_host_cpu_name(),
)
"""Versions and the processor on which machine code depends, besides the text of the function."""


def kept(signature: str, identity: str = "", **options: Any) -> Callable[[Any], Any]:
    """Return a decorator that compiles a function for `signature`, or loads the machine code of an earlier run.

    Machine code is found by the function's module and name, `signature`, `identity` and `SURROUNDINGS`. `identity` has
    to change whenever the function, or anything that it calls, changes. `options` are passed to `numba.njit`. The
    decorated function accepts no other argument types.
    """

    def compiled(function: Any) -> Any:
        dispatcher = numba.njit(error_model="numpy", **options)(function)
        # Numba has no public way to set another cache; its own `enable_caching` sets this attribute too.
        dispatcher._cache = _Kept(f"{function.__module__} {function.__qualname__} {identity}")
        dispatcher.compile(signature)
        dispatcher.disable_compile()
        return dispatcher

    return compiled


class _Kept:
    """A replacement for Numba's cache of one function, with the methods that a Numba dispatcher calls."""

    def __init__(self, identity: str):
        self._identity = identity

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return the compiled function from the file, or None if there is no valid file.

        Unpickling is safe, since `private_files` returns only what `save_overload` wrote.
        """
        context.refresh()
        data = private_files.read_kernel(self._name(signature, context.codegen()))
        return None if data is None else _rebuilt(context, *pickle.loads(data))

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Write a newly compiled function to its file, unless its code contains addresses of this process."""
        if not compiled.library.has_dynamic_globals:  # such globals are addresses of this process
            private_files.write_kernel(self._name(signature, compiled.codegen), _pickled(compiled._reduce()))

    def _name(self, signature: Any, code: Any) -> str:
        facts = repr((SURROUNDINGS, code.magic_tuple(), self._identity, str(signature)))
        return f"{hashlib.blake2b(facts.encode(), digest_size=16).hexdigest()}.kernel"
