"""Bound code: compiled code as a function of Python."""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

_PROTOTYPES = {
    "void": ctypes.CFUNCTYPE(None, ctypes.c_void_p),
    "bool": ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p),
}
"""By kind of result. A kernel takes the address of its table of arguments."""


class Kernel:
    """A compiled `kernel`, called with its numbers and its flat arrays; nobody holds the interpreter's lock then."""

    def __init__(self, address: int, kinds: tuple[str, ...]):
        result, *self._kinds = kinds
        self._run = _PROTOTYPES[result](address)

    def __call__(self, *arguments: Any) -> object:
        return self.bound(*arguments)()

    def bound(self, *arguments: Any) -> Callable[[], object]:
        """The same with its arguments given: a call that costs a microsecond less for each of them."""
        numbers = sum(not kind.endswith("*") for kind in self._kinds)
        if len(arguments) != len(self._kinds):
            raise TypeError(f"a kernel of {len(self._kinds)} arguments is given {len(arguments)}")
        for array, kind in zip(arguments[numbers:], self._kinds[numbers:], strict=True):
            if array.dtype.name != kind[:-1] or not array.flags.c_contiguous:
                raise TypeError(f"a kernel over {kind[:-1]} is given {array.dtype.name}")
        table = np.array([*arguments[:numbers], *(a.ctypes.data for a in arguments[numbers:])], np.int64)
        run, address = self._run, table.ctypes.data

        # The addresses are good for as long as somebody holds the arrays.
        def call(held: Any = (table, arguments)) -> object:
            return run(address)

        return call
