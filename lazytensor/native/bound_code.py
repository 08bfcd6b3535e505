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
        self.address, self.gives = address, result
        self._run = _PROTOTYPES[result](address)
        # Of an argument that is an array its type, since NumPy takes long to say the name of one.
        self._dtypes = [np.dtype(kind[:-1]) if kind.endswith("*") else None for kind in self._kinds]
        self._table = ctypes.c_int64 * len(self._kinds)
        self.places = tuple(k for k, dtype in enumerate(self._dtypes) if dtype is not None)

    def __call__(self, *arguments: Any) -> object:
        return self.bound(*arguments)()

    def bound(self, *arguments: Any) -> Callable[[], object]:
        """The same with its arguments given: a call that costs a microsecond less for each of them."""
        if len(arguments) != len(self._kinds):
            raise TypeError(f"a kernel of {len(self._kinds)} arguments is given {len(arguments)}")
        table = self._table()
        for k, (argument, dtype) in enumerate(zip(arguments, self._dtypes, strict=True)):
            if dtype is None:
                table[k] = argument
            elif argument.dtype != dtype or not argument.flags.c_contiguous:
                raise TypeError(f"a kernel over {dtype} is given {argument.dtype}")
            else:
                table[k] = argument.__array_interface__["data"][0]
        return Bound(self, table, arguments)


class Bound:
    """A kernel with the table of its arguments, whose addresses are good for as long as it holds the arrays.

    `places` are those of the addresses in the table.
    """

    __slots__ = ("_run", "argument", "function", "gives", "held", "places")

    def __init__(self, kernel: Kernel, table: Any, arrays: tuple[Any, ...]):
        self.function, self.argument, self.gives = kernel.address, ctypes.addressof(table), kernel.gives
        self.held = (table, arrays)
        self._run, self.places = kernel._run, kernel.places

    def __call__(self) -> object:
        return self._run(self.argument)
