"""An attention block as data: the steps on the scores of a head, in any order that a compiled program has.

Values have these kinds:

- "tile": rows x keys elements, such as scores
- "stat": a number for each row
- "rows": a vector for each row, such as queries
- "keys": a vector for each key, such as keys and values
- "grid": rows x keys elements that all heads share, such as a mask
- "state": the state of a random generator
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from lazytensor.ir.nest import Access, Nest

Kind = Literal["tile", "stat", "rows", "keys", "grid", "state"]


@dataclass(frozen=True)
class Value:
    """A value of a block: its kind, the element type on a core, and the elements of a row or key."""

    kind: Kind
    dtype: str
    width: int = 1


@dataclass(frozen=True)
class Step:
    """A step that computes the values `writes` from the values `reads`, by number.

    `op` is one of:

    - "pairs": a tile of the products of rows and keys
    - "nest": elementwise operations, and sums over each row as statistics
    - "softmax": of each row of a tile
    - "draw": random numbers
    - "row_sum": rows, a tile times keys
    - "key_sum": keys, the transpose of a tile times rows
    """

    op: Literal["pairs", "nest", "softmax", "draw", "row_sum", "key_sum"]
    writes: tuple[int, ...]
    reads: tuple[int, ...]
    nest: Nest | None = None


@dataclass(frozen=True)
class Given:
    """The origin of a value: array number `read`.

    Without `access` the array has a matrix for each head, transposed if `is_turned`. With `access` the value is what
    that reads of the array in loops over `ScoreBlock.lead`, rows and keys. A negative `read` means the index that
    `access` computes instead of an element.
    """

    value: int
    read: int
    is_turned: bool = False
    access: Access | None = None


@dataclass(frozen=True)
class ScoreBlock:
    """An attention block.

    - `lead`: extents of the heads, such as (samples, heads)
    - `rows`, `keys`: extents of the scores of a head
    - `values`: all values
    - `steps`: steps in order
    - `given`: origin of each operand
    - `results`: pairs (value, whether the array has it transposed)
    """

    lead: tuple[int, ...]
    rows: int
    keys: int
    values: tuple[Value, ...]
    steps: tuple[Step, ...]
    given: tuple[Given, ...]
    results: tuple[tuple[int, bool], ...]

    @cached_property
    def _hash(self) -> int:
        # Plans look up the same blocks repeatedly, and fields of a nest may not be hashable.
        steps = tuple((s.op, s.writes, s.reads, s.nest.key if s.nest else None) for s in self.steps)
        return hash((self.lead, self.rows, self.keys, self.values, steps, self.given, self.results))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def heads(self) -> int:
        """Number of heads of all samples."""
        return int(np.prod(self.lead))

    def on_cores(self, name_of: Callable[[str], str], nest_of: Callable[[Nest], Nest]) -> "ScoreBlock":
        """Return a copy of the block with other element types and nests.

        `name_of` maps the name of each value's type, except of a random state, and `nest_of` each step's nest.
        """
        values = (v if v.kind == "state" else replace(v, dtype=name_of(v.dtype)) for v in self.values)
        steps = (replace(step, nest=nest_of(step.nest) if step.nest else None) for step in self.steps)
        return replace(self, values=tuple(values), steps=tuple(steps))

    def operand(self, given: Given, reads: Sequence[np.ndarray], head: int) -> np.ndarray:
        """Return the operand `given` of head number `head` as a matrix, from the arrays `reads`.

        Without `given.access` it is a view of the head's matrix, transposed if `is_turned`, or the whole array for a
        random state. With it, the result has the elements that the access selects: [rows, 1] for the kind "rows", [1,
        keys] for "keys", else [rows, keys]. If `given.read` is negative, it has their flat indices as float32 instead.
        """
        if given.access is None:
            array = reads[given.read]
            if self.values[given.value].kind == "state":
                return array
            matrix: np.ndarray = array.reshape(self.heads, *array.shape[-2:])[head]
            return matrix.T if given.is_turned else matrix
        # Read as in the nest, in loops over all heads; only the offset depends on the head.
        *lead, along, across = given.access.strides
        at = sum(s * n for s, n in zip(lead, np.unravel_index(head, self.lead), strict=True))
        kind = self.values[given.value].kind
        down = along * np.arange(self.rows if kind != "keys" else 1)
        right = across * np.arange(self.keys if kind != "rows" else 1)
        places: np.ndarray = given.access.offset + int(at) + np.add.outer(down, right)
        return places.astype(np.float32) if given.read < 0 else reads[given.read].reshape(-1)[places]
