"""Tensors of one element as numbers of Python: `item()`, `bool(x)`, `float(x)`, `int(x)`, an index, and formats."""

from typing import Any

from lazytensor.core import source
from lazytensor.errors import ShapeError


class NumberProtocol:
    """The methods of Tensor that give numbers."""

    __slots__ = ()

    def tolist(self: Any) -> Any:
        """The values as nested lists of Python numbers."""
        return self.array(".tolist()").tolist()

    def item(self: Any, what: str = ".item()") -> float | int | bool:
        """The one value as a Python number, which `what` needs. Raises ShapeError if there are several."""
        value: float | int | bool = self._scalar(what)
        return value

    def _scalar(self: Any, what: str) -> Any:
        if self.spec.size != 1:
            raise ShapeError(
                f"a Tensor with {self.spec.size} elements cannot be converted to Scalar", where=source.where()
            )
        return self.array(what).item()

    def __bool__(self: Any) -> bool:
        if self.spec.size > 1:
            raise ShapeError("Boolean value of Tensor with more than one value is ambiguous", where=source.where())
        return bool(self._scalar("bool()"))

    def __float__(self: Any) -> float:
        return float(self._scalar("float()"))

    def __int__(self: Any) -> int:
        return int(self._scalar("int()"))

    def __index__(self: Any) -> int:
        # PyTorch counts a tensor of one element as an index whatever its shape, as long as it is no float.
        if self.dtype.kind == "f":
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self._scalar("an index"))
