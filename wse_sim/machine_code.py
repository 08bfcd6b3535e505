"""Compiled functions, and their machine code kept from run to run in files that only this user can have written.

Numba keeps machine code by itself, in files that it neither checks nor protects: damaged ones crash the process, and
whoever can write them runs code in it. So its cache is replaced by one in `private_files`. What Numba says of itself
and of the processor is part of a kept function's name; the caller answers for what its text depends on. Importing this
module imports Numba.
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

# Numba's own interface has no types.
_pickled: Callable[[Any], bytes] = dumps
_rebuilt: Callable[..., Any] = CompileResult._rebuild

# At the level DEBUG a cold run would tell thousands of lines of what Numba does, and none of what the script does.
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
"""What machine code depends on besides the text of a function."""


def kept(signature: str, identity: str = "", **options: Any) -> Callable[[Any], Any]:
    """Compile a function for one signature, or load what an earlier run compiled.

    Kept machine code is found by the names of the module and the function, and by `identity`: one of them has to
    change whenever the function or anything that it calls does. `options` are those of `numba.njit`.
    """

    def compiled(function: Any) -> Any:
        dispatcher = numba.njit(error_model="numpy", **options)(function)
        # No public place takes a cache other than Numba's own; `enable_caching` sets this attribute too.
        dispatcher._cache = _Kept(f"{function.__module__} {function.__qualname__} {identity}")
        dispatcher.compile(signature)
        dispatcher.disable_compile()
        return dispatcher

    return compiled


class _Kept:
    """The cache of one function, with the methods that a dispatcher asks for."""

    def __init__(self, identity: str):
        self._identity = identity

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return the compiled function, or None. `private_files` gives only what `save_overload` has pickled."""
        context.refresh()
        data = private_files.read_kernel(self._name(signature, context.codegen()))
        return None if data is None else _rebuilt(context, *pickle.loads(data))

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep a function that was compiled just now."""
        if not compiled.library.has_dynamic_globals:  # those are addresses, of this process only
            private_files.write_kernel(self._name(signature, compiled.codegen), _pickled(compiled._reduce()))

    def _name(self, signature: Any, code: Any) -> str:
        facts = repr((SURROUNDINGS, code.magic_tuple(), self._identity, str(signature)))
        return f"{hashlib.blake2b(facts.encode(), digest_size=16).hexdigest()}.kernel"
