"""Skeletons: which records of a shallow program the program of a deep net consists of.

Nothing of it depends on the batch, so that the same skeleton holds for the programs of every batch.
"""

from dataclasses import dataclass, field

from lazytensor.ir.types import Where

DRAW = "call"
"""The attribute that numbers the draws of random bits in a step; all else of equal layers is equal."""


@dataclass(frozen=True)
class Stretch:
    """Instructions from `start` on in a deep program, and from `short` on in the shallow one that it grew from.

    They are `copies` of `period` instructions each, and `short_copies` in the shallow one: 1 of what is there once.
    """

    start: int
    short: int
    period: int
    copies: int = 1
    short_copies: int = 1


@dataclass(frozen=True)
class Skeleton:
    """For each instruction and buffer of the deep program the number of its like in the shallow one.

    `reads`, `writes` and `wheres` are those of the deep program's instructions. Of instructions that draw random bits
    `draws` has the attributes. `ends` are the buffers that hold new states, in the order of `names`. `stretches` are
    all instructions in order; buffers of those that are repeated go on by equal steps from copy to copy.
    """

    instrs: tuple[int, ...]
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...], ...]
    buffers: tuple[int, ...]
    names: tuple[str, ...]
    ends: tuple[int, ...]
    batch: tuple[int, ...]
    fetches: tuple[int, ...]
    stretches: tuple[Stretch, ...]
    wheres: tuple[Where | None, ...] = field(repr=False, compare=False)
    draws: dict[int, int] = field(default_factory=dict, repr=False)
