"""Convert tensors of one element to Python numbers: `item()`, `bool(x)`, `float(x)`, `int(x)`, and use as an index."""

from typing import Any

from lazytensor.core import source
from lazytensor.errors import ArgumentInvalid, ShapeError


class NumberProtocol:
    """Methods of Tensor that return Python numbers."""

    __slots__ = ()

    def tolist(self: Any) -> Any:
        """Return the values as nested lists of Python numbers; a single number for a tensor without dimensions."""
        return self.array(".tolist()").tolist()

    def item(self: Any, what: str = ".item()") -> float | int | bool:
        """Return the value of a tensor with one element as a Python number.

        `what` names the reading call in error messages. Raises ShapeError if the tensor does not have exactly one
        element.
        """
        value: float | int | bool = self._scalar(what)
        return value

    def _scalar(self: Any, what: str) -> Any:
        """Return the value of a tensor with one element as a Python number.

        Raises ShapeError for another number of elements.
        """
        if self.spec.size != 1:
            raise ShapeError(
                f"a Tensor with {self.spec.size} elements cannot be converted to Scalar",
                where=source.where(),
                hint="Select one element, for example with x[0], or call .tolist().",
            )
        return self.array(what).item()

    def __bool__(self: Any) -> bool:
        if self.spec.size > 1:
            raise ShapeError(
                f"Boolean value of Tensor with more than one value is ambiguous: the shape is {list(self.spec.shape)}",
                where=source.where(),
                hint="Call .any() or .all() first.",
            )
        return bool(self._scalar("bool()"))

    def __float__(self: Any) -> float:
        return float(self._scalar("float()"))

    def __int__(self: Any) -> int:
        return int(self._scalar("int()"))

    def __index__(self: Any) -> int:
        # PyTorch accepts any non-float tensor with one element as an index, whatever its shape.
        if self.dtype.kind == "f":
            raise ArgumentInvalid(
                f"only integer tensors of a single element can be converted to an index, but this one is {self.spec}",
                where=source.where(),
                hint="Convert a tensor of one element with int(x).",
            )
        return int(self._scalar("an index"))
