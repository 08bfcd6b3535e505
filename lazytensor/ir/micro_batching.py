"""The script's settings for splitting a batch into micro-batches."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class MicroBatching:
    """How to split the batch of a system into micro-batches.

    - `kind` "auto": the planner chooses.
    - `kind` "whole": the batch is not split.
    - `kind` "size": micro-batches of `least` samples.
    - `kind` "explore": the planner tries all sizes from `least` to `most` and takes the fastest.
    - `most`: None if there is no upper bound.

    Source: the vendor's page on automatic microbatching. A size need not divide the batch of a system: micro-batches
    are as equal in size as their number allows, so they may have fewer samples than requested.
    """

    kind: str = "auto"
    least: int = 1
    most: int | None = None

    @property
    def cuts(self) -> bool:
        """Whether the script requests micro-batches ("size" or "explore")."""
        return self.kind in ("size", "explore")

    def counts(self, samples: int) -> Sequence[int]:
        """Return the numbers of micro-batches to try for a batch of `samples`, in ascending order; empty for "auto".

        A size gives ceil(samples / size) micro-batches; sizes above `samples` count as `samples`. For "explore",
        numbers whose even micro-batches have fewer than `least` samples are left out, unless all would be. The result
        is also empty for "explore" if `least` exceeds `most` or `samples`.
        """
        if self.kind == "whole":
            return (1,)
        if self.kind == "size":
            return (-(-samples // min(self.least, samples)),)
        if self.kind == "auto":
            return ()
        sizes = range(min(self.most or samples, samples), self.least - 1, -1)
        counts = dict.fromkeys(-(-samples // size) for size in sizes)
        # Even micro-batches of a given number may be smaller than `least`; drop those numbers.
        within = [count for count in counts if -(-samples // count) >= self.least]
        return within or tuple(counts)


AUTO = MicroBatching()
