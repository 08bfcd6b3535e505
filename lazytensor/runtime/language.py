"""Marks of the kernel language: which function of a module is a kernel, and which are written out at each call.

A module in the kernel language is ordinary Python, and `lazytensor.llvm` compiles it. lazytensor/README.md, section
"Kernel language", says what the language has.
"""

from collections.abc import Callable
from typing import Any, TypeVar

Helper = TypeVar("Helper", bound=Callable[..., Any])


def inline(function: Helper) -> Helper:
    """Mark a function that kernels call: the compiler writes it out at each call. Python calls it unchanged."""
    return function


def typed(signature: str) -> Callable[[Helper], Helper]:
    """Mark a kernel with the kinds of its result and its arguments: `"void(int64, float32[::1])"`.

    A kind that ends in `[::1]` is a flat array. Python calls the kernel unchanged.
    """
    return inline
