"""Compiled kernels as Python functions."""

import ctypes
from collections.abc import Collection
from typing import Any

import numpy as np

from lazytensor.errors import ArgumentInvalid

_PROTOTYPES = {
    "void": ctypes.CFUNCTYPE(None, ctypes.c_void_p),
    "bool": ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p),
}
"""ctypes prototypes, by type of the result. A kernel takes the address of its argument table."""


class Kernel:
    """A compiled kernel. Calls release the interpreter's lock.

    It takes numbers and flat, C-contiguous arrays. A wrong dtype raises TypeError.
    """

    def __init__(self, address: int, kinds: tuple[str, ...]):
        result, *self._kinds = kinds
        self.address, self.gives = address, result
        self._run = _PROTOTYPES[result](address)
        # The dtype of each array argument. Dtypes are compared, because NumPy takes long to return a dtype's name.
        self._dtypes = [np.dtype(kind[:-1]) if kind.endswith("*") else None for kind in self._kinds]
        self._table = ctypes.c_int64 * len(self._kinds)
        self.places = tuple(k for k, dtype in enumerate(self._dtypes) if dtype is not None)

    def __call__(self, *arguments: Any) -> object:
        return self.bound(*arguments)()

    def bound(self, *arguments: Any) -> "Bound":
        """Return the kernel with its arguments bound. A later call saves a microsecond per argument."""
        return self.bound_parts(((),), arguments)[0]

    def bound_parts(self, parts: Collection[tuple[int, ...]], arguments: tuple[Any, ...]) -> list["Bound"]:
        """Return one bound call for each part, in order; nothing is called.

        A part gives the values of the first arguments; `arguments` are the others, shared by all parts. Raise TypeError
        for a wrong number of arguments, a wrong dtype, and an array that is not contiguous.
        """
        leading = len(self._kinds) - len(arguments)
        for part in parts:
            if len(part) != leading:
                raise ArgumentInvalid(
                    f"a kernel with {len(self._kinds)} arguments got {len(part) + len(arguments)}",
                    hint="Pass one value for each argument of the kernel.",
                )
        # To get the address of an array takes a microsecond, so parts that share arrays get it once.
        words = [self._word(argument, dtype) for argument, dtype in zip(arguments, self._dtypes[leading:], strict=True)]
        return [Bound(self, self._table(*part, *words), (*part, *arguments)) for part in parts]

    @staticmethod
    def _word(argument: Any, dtype: np.dtype[Any] | None) -> int:
        if dtype is None:
            return argument  # type: ignore[no-any-return]
        if argument.dtype != dtype or not argument.flags.c_contiguous:
            raise ArgumentInvalid(
                f"a kernel needs a contiguous array of {dtype}, but got an array of {argument.dtype} with the "
                f"strides {argument.strides}",
                hint="Convert the array with numpy.ascontiguousarray(array, dtype).",
            )
        address: int = argument.__array_interface__["data"][0]
        return address


class Bound:
    """A kernel bound to an argument table.

    - `function`: the address of the machine code.
    - `argument`: the address of the table.
    - `gives`: the type of the result, "void" or "bool".
    - `held`: the table and the arrays, to keep them alive while their addresses are used.
    - `places`: the indices of the addresses in the table.
    """

    __slots__ = ("_run", "argument", "function", "gives", "held", "places")

    def __init__(self, kernel: Kernel, table: Any, arrays: tuple[Any, ...]):
        self.function, self.argument, self.gives = kernel.address, ctypes.addressof(table), kernel.gives
        self.held = (table, arrays)
        self._run, self.places = kernel._run, kernel.places

    def __call__(self) -> object:
        return self._run(self.argument)
