"""An attention block as data: what is done with the scores of a head, in any order that a compiled program has.

Scores, and all that is made of them element by element, are `tile`s of rows by keys. A row has `stat`istics. What has
a row of numbers for each row, as queries have, is of kind `rows`; for each key, as keys and values have, `keys`; a
mask that all heads share is a `grid`. `state` is that of a generator of random numbers.
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
    """One of a block's values: its kind, the type of its elements on a core, and how many of them a row or key has."""

    kind: Kind
    dtype: str
    width: int = 1


@dataclass(frozen=True)
class Step:
    """What makes the values `writes` of the values `reads`.

    `pairs`: a tile, the products of rows and keys. `nest`: element by element, and statistics of what it sums.
    `softmax`: of each row of a tile. `draw`: random numbers. `row_sum`: rows, a tile times keys. `key_sum`: keys, the
    transpose of a tile times rows.
    """

    op: Literal["pairs", "nest", "softmax", "draw", "row_sum", "key_sum"]
    writes: tuple[int, ...]
    reads: tuple[int, ...]
    nest: Nest | None = None


@dataclass(frozen=True)
class Given:
    """How a value comes of array number `read`: a matrix for each head, read the other way if `is_turned`.

    With an `access` it is what that reads of the array in loops over `ScoreBlock.lead`, rows and keys; without an
    array, the place itself.
    """

    value: int
    read: int
    is_turned: bool = False
    access: Access | None = None


@dataclass(frozen=True)
class ScoreBlock:
    """Steps over heads with extents `lead`, each of `rows` by `keys` scores; what they are given, and what they give.

    `results` are values and whether the array has them the other way.
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
        # Plans look the same blocks up all the time, and a nest's own fields may have no hash.
        steps = tuple((s.op, s.writes, s.reads, s.nest.key if s.nest else None) for s in self.steps)
        return hash((self.lead, self.rows, self.keys, self.values, steps, self.given, self.results))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def heads(self) -> int:
        """Heads of all samples."""
        return int(np.prod(self.lead))

    def on_cores(self, name_of: Callable[[str], str], nest_of: Callable[[Nest], Nest]) -> "ScoreBlock":
        """The same with other element types, and with nests that work on them."""
        values = (v if v.kind == "state" else replace(v, dtype=name_of(v.dtype)) for v in self.values)
        steps = (replace(step, nest=nest_of(step.nest) if step.nest else None) for step in self.steps)
        return replace(self, values=tuple(values), steps=tuple(steps))

    def operand(self, given: Given, reads: Sequence[np.ndarray], head: int) -> np.ndarray:
        """A value of one head, from the arrays that are read."""
        if given.access is None:
            array = reads[given.read]
            if self.values[given.value].kind == "state":
                return array
            matrix: np.ndarray = array.reshape(self.heads, *array.shape[-2:])[head]
            return matrix.T if given.is_turned else matrix
        # As the nest reads it, in the loops over all heads: only where this head begins has to be told.
        *lead, along, across = given.access.strides
        at = sum(s * n for s, n in zip(lead, np.unravel_index(head, self.lead), strict=True))
        kind = self.values[given.value].kind
        down = along * np.arange(self.rows if kind != "keys" else 1)
        right = across * np.arange(self.keys if kind != "rows" else 1)
        places: np.ndarray = given.access.offset + int(at) + np.add.outer(down, right)
        return places.astype(np.float32) if given.read < 0 else reads[given.read].reshape(-1)[places]
