"""Decorators of the kernel language: they mark kernels, and helper functions that are inlined at each call.

A module in the kernel language is ordinary Python that `lazytensor.llvm` compiles. The section "Kernel language" of
lazytensor/README.md lists what the language supports.
"""

from collections.abc import Callable
from typing import Any, TypeVar

Helper = TypeVar("Helper", bound=Callable[..., Any])


def inline(function: Helper) -> Helper:
    """Mark a function that the compiler inlines at each call. Return the function unchanged."""
    return function


def typed(signature: str) -> Callable[[Helper], Helper]:
    """Mark a kernel with the types of its result and its arguments, such as `"void(int64, float32[::1])"`.

    A type that ends in `[::1]` is a flat array. The decorator returns the function unchanged; only the compiler reads
    the signature.
    """
    return inline
