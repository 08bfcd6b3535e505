"""Parameters and buffers that get their shape later: `torch.nn.parameter`."""

from typing import Any, Self, cast

from lazytensor.core.tensor import Tensor
from lazytensor.errors import ShapeError
from lazytensor.functional.creation import empty
from lazytensor.nn.module import Parameter


class UninitializedTensorMixin:
    """The base class of parameters and buffers without a shape. `materialize` gives them one, and changes their class.

    The shape of such a tensor raises ShapeError, a RuntimeError.
    """

    cls_to_become: type[Tensor] = Tensor

    @property
    def shape(self) -> Any:
        """Raise ShapeError."""
        raise ShapeError(
            "Can't access the shape of an uninitialized parameter or buffer",
            hint="Call materialize(shape), or run the module on its first input.",
        )

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a plain parameter or buffer of a shape in place, with arbitrary values.

        The defaults of `device` and `dtype` are those of the tensor.
        """
        tensor: Any = self
        values = empty(shape, device=device or tensor.device, dtype=dtype or tensor.dtype)
        tensor.__class__ = self.cls_to_become
        tensor.cell, tensor.device = values.cell, values.device
        tensor._seen = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter without a shape, which `materialize` turns into a Parameter.

    >>> p = UninitializedParameter()
    >>> p.materialize((2, 3))
    >>> type(p).__name__, tuple(p.shape)
    ('Parameter', (2, 3))
    """

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Self:
        """Return a parameter without a shape, of a dtype and on a device."""
        return Parameter.__new__(cls, empty(0, device=device, dtype=dtype), requires_grad)

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        """Do nothing: `__new__` has set all fields."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "UninitializedParameter":
        memo[id(self)] = copy = type(self)(self.requires_grad, self.device, self.dtype)
        return copy


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer without a shape, which `materialize` turns into a tensor."""

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> Self:
        """Return a buffer without a shape, of a dtype and on a device."""
        buffer: Any = empty(0, device=device, dtype=dtype).as_subclass(cls)
        buffer.persistent = persistent
        return cast(Self, buffer)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: `__new__` has set all fields."""


def is_lazy(param: Any) -> bool:
    """Return whether a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)
