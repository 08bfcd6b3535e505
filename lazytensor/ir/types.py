"""Properties of nodes: type, source location, and amount of work."""

from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from lazytensor.core.dtype import DType

StateId = str
"""A dotted path that names a loop-carried tensor, such as "model.fc1.weight"."""


@dataclass(frozen=True)
class Type:
    """Shape and element type of a value."""

    shape: tuple[int, ...]
    dtype: DType
    _hash: int = field(init=False, repr=False, compare=False)
    _size: int = field(init=False, repr=False, compare=False)

    def __init__(self, shape: tuple[int, ...], dtype: DType):
        # Each operation creates a Type, and `object.__setattr__` would take three times as long.
        facts = self.__dict__
        facts["shape"], facts["dtype"], facts["_size"] = shape, dtype, prod(shape)
        # Interning hashes types often, so the hash is cached.
        facts["_hash"] = hash((shape, id(dtype)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Size in bytes on the device."""
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"


DRAW = "call"
"""The attribute that numbers the draws of random bits in a step."""
REPORTED_OPERATION = "reported"
"""The value of `Where.operation` for nodes of a refused call, in a check run that has reported the refusal."""


@dataclass(frozen=True)
class Where:
    """A line of the user's code and the module path (such as "model.fc1") that was active there.

    Only for printed graphs: `frames` are the user's functions there, innermost first, as (name, file, line);
    `operation` is the function that the script called, if it was lowered to other operations.
    """

    file: str
    line: int
    scope: str = ""
    frames: tuple[tuple[str, str, int], ...] = field(default=(), compare=False)
    operation: str = field(default="", compare=False)

    @cached_property
    def backward(self) -> "Where":
        """The same line, with ".bwd" appended to the module path.

        `operation` is dropped unless it is REPORTED_OPERATION.
        """
        operation = self.operation if self.operation == REPORTED_OPERATION else ""
        return Where(self.file, self.line, f"{self.scope}.bwd", self.frames, operation)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Work:
    """The abstract cost of an operation: floating-point operations, and bytes read and written on the device."""

    flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    def __add__(self, other: "Work") -> "Work":
        return Work(
            self.flops + other.flops, self.bytes_read + other.bytes_read, self.bytes_written + other.bytes_written
        )
