"""The variables of a program while it is drawn: their shapes and kinds, and which of them share a storage."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

FLOATS = ("float64", "float32", "float16", "bfloat16")
"""The floating types, from the finest to the coarsest."""
INTEGERS = ("int64", "int32", "uint8", "int8", "int16")
NUMBERS = (0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 0.25, 1.5, 3.0, -0.75, 0.69140625, 0.1, -4.775, 1.1, 0.3)
SINGULAR = (0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-8, 65504.0, 1e5, -1e-30)
EPSILON = {"float64": 1e-12, "float32": 2e-7, "float16": 1e-3, "bfloat16": 8e-3}

Shape = tuple[int, ...]


@dataclass
class Storage:
    """Elements that several variables may show.

    `is_exact` holds as long as every operation on the way has one right result, in each bit. `coarsest` is the
    coarsest type of a value on the way.
    """

    is_exact: bool = True
    coarsest: str = "float64"

    def mix(self, *others: "Storage", is_exact: bool = True) -> None:
        """Note that values of other storages are written here, by an operation that is exact or not."""
        self.is_exact = is_exact and self.is_exact and all(o.is_exact for o in others)
        self.coarsest = max((self.coarsest, *(o.coarsest for o in others)), key=FLOATS.index)


@dataclass
class Value:
    """A variable: a tensor or, if `is_array`, a NumPy array. `kind` is "float", "int" or "bool"."""

    name: str
    shape: Shape
    kind: str
    storage: Storage = field(default_factory=Storage)
    is_array: bool = False
    tracks: bool = False
    is_leaf: bool = False

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape))


@dataclass
class Statement:
    """A part of a program that is left out or kept as a whole."""

    text: str


class Program:
    """A program that is being drawn: its statements and its variables.

    With `noise`, each number of a literal is changed by one unit in the last place of its type or none.
    """

    def __init__(self, generator: random.Random, noise: random.Random | None = None):
        self.random, self.noise = generator, noise
        self.statements: list[Statement] = []
        self.values: list[Value] = []
        self.uses_generator = False
        self._count = 0

    def add(self, text: str) -> None:
        """Append a statement."""
        self.statements.append(Statement(text))

    def name(self, letter: str = "t") -> str:
        """Return a name that no variable has."""
        self._count += 1
        return f"{letter}{self._count}"

    def new(self, value: Value, text: str) -> Value:
        """Append the statement that gives a variable its value."""
        self.add(f"{value.name} = {text}")
        self.values.append(value)
        return value

    def pick(self, choices: Sequence):  # type: ignore[no-untyped-def, type-arg]
        """Return one of the choices."""
        return self.random.choice(choices)

    def chance(self, share: float) -> bool:
        """Return True in this share of calls."""
        return self.random.random() < share

    def value(self, test: Callable[[Value], bool]) -> Value | None:
        """Return a variable that meets a condition, more often a late one; None if there is none."""
        fitting = [v for v in self.values if test(v)]
        return self.pick(fitting[-4:] if self.chance(0.6) else fitting) if fitting else None

    def tensor(self, kind: str | None = None, dims: int | None = None) -> Value | None:
        """Return a tensor of a kind and number of dimensions; None if there is none."""
        return self.value(
            lambda v: not v.is_array and (kind is None or v.kind == kind) and (dims is None or len(v.shape) == dims)
        )

    def shape(self, dims: int | None = None) -> Shape:
        """Return a small shape; one extent in fifteen is 0."""
        dims = self.pick((0, 1, 1, 2, 2, 2, 3)) if dims is None else dims
        return tuple(0 if self.chance(0.04) else self.random.randint(1, 4) for _ in range(dims))

    def scalar(self, kind: str = "float") -> str:
        """Return a Python number as text."""
        if kind == "bool" or self.chance(0.05):
            return str(self.chance(0.5))
        if kind == "int" or self.chance(0.25):
            return str(self.random.randint(-3, 4))
        return repr(self.pick(NUMBERS))

    def literal(self, shape: Shape, dtype: str, kind: str) -> str:
        """Return a nested list of numbers of a type as text."""
        if shape:
            return "[" + ", ".join(self.literal(shape[1:], dtype, kind) for _ in range(shape[0])) + "]"
        if kind == "bool":
            return str(self.chance(0.5))
        if kind == "int":
            return str(self.random.randint(0 if dtype == "uint8" else -4, 5))
        number = self.pick(SINGULAR) if self.chance(0.04) else self.random.randint(-256, 256) / 64
        if self.noise is not None:
            number *= 1 + self.noise.choice((-1, 0, 1)) * EPSILON[dtype]
        text = repr(float(number))
        return f"float('{text}')" if text.lstrip("-") in ("inf", "nan") else text
