"""The small facts that every node carries: its type, its place in the user's code, its amount of work."""

from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from lazytensor.core.dtype import DType

StateId = str
"""A dotted path such as "model.fc1.weight" that names a loop-carried tensor."""


@dataclass(frozen=True)
class Type:
    """Shape and element type of one value."""

    shape: tuple[int, ...]
    dtype: DType
    _hash: int = field(init=False, repr=False, compare=False)
    _size: int = field(init=False, repr=False, compare=False)

    def __init__(self, shape: tuple[int, ...], dtype: DType):
        # Each operation makes one, which takes three times as long by way of `object.__setattr__`.
        facts = self.__dict__
        facts["shape"], facts["dtype"], facts["_size"] = shape, dtype, prod(shape)
        # Interning hashes types all the time; a tuple hash is kept instead of recomputed.
        facts["_hash"] = hash((shape, id(dtype)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(str, self.shape))}]"


DRAW = "call"
"""The attribute that numbers the draws of random bits in a step."""
REPORTED_OPERATION = "reported"
"""The `operation` of what a refused call records while a check goes on: the refusal has been reported."""


@dataclass(frozen=True)
class Where:
    """A line of the user's code and the path of modules (such as "model.fc1") that was active there.

    For printed graphs alone, `frames` are the user's functions there, innermost first, with file and line, and
    `operation` is what the script called, where that was lowered to others.
    """

    file: str
    line: int
    scope: str = ""
    frames: tuple[tuple[str, str, int], ...] = field(default=(), compare=False)
    operation: str = field(default="", compare=False)

    @cached_property
    def backward(self) -> "Where":
        """The same line with `.bwd` after the module's path."""
        operation = self.operation if self.operation == REPORTED_OPERATION else ""
        return Where(self.file, self.line, f"{self.scope}.bwd", self.frames, operation)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Work:
    """What an operation costs in the abstract: floating-point operations and bytes touched on the device."""

    flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    def __add__(self, other: "Work") -> "Work":
        return Work(
            self.flops + other.flops, self.bytes_read + other.bytes_read, self.bytes_written + other.bytes_written
        )
