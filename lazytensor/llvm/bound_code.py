"""Bound code: compiled code as a function of Python."""

import ctypes
from collections.abc import Collection
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

    def bound(self, *arguments: Any) -> "Bound":
        """The same with its arguments given: a call that costs a microsecond less for each of them."""
        return self.bound_parts(((),), arguments)[0]

    def bound_parts(self, parts: Collection[tuple[int, ...]], arguments: tuple[Any, ...]) -> list["Bound"]:
        """The same for parts, each of which says its first numbers; all else is equal."""
        leading = len(self._kinds) - len(arguments)
        for part in parts:
            if len(part) != leading:
                raise TypeError(f"a kernel of {len(self._kinds)} arguments is given {len(part) + len(arguments)}")
        # To ask an array for its address takes a microsecond, which parts that share arrays pay once.
        words = [self._word(argument, dtype) for argument, dtype in zip(arguments, self._dtypes[leading:], strict=True)]
        return [Bound(self, self._table(*part, *words), (*part, *arguments)) for part in parts]

    @staticmethod
    def _word(argument: Any, dtype: np.dtype[Any] | None) -> int:
        if dtype is None:
            return argument  # type: ignore[no-any-return]
        if argument.dtype != dtype or not argument.flags.c_contiguous:
            raise TypeError(f"a kernel over {dtype} is given {argument.dtype}")
        address: int = argument.__array_interface__["data"][0]
        return address


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
