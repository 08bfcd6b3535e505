"""What a script asks for when a batch is cut into micro-batches."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class MicroBatching:
    """How the batch of a system is to be cut into micro-batches.

    `kind` is one of:
        "auto"     the planner chooses;
        "whole"    the batch is not cut;
        "size"     micro-batches of `least` samples;
        "explore"  the planner tries all sizes from `least` to `most`, and takes the fastest.
    `most` is None without an upper bound.

    Source: the vendor's page on automatic microbatching. A size need not divide the batch of a system: its
    micro-batches are made as even as their number allows, so that they may have fewer samples than asked for.
    """

    kind: str = "auto"
    least: int = 1
    most: int | None = None

    @property
    def cuts(self) -> bool:
        """Whether micro-batches are asked for."""
        return self.kind in ("size", "explore")

    def counts(self, samples: int) -> Sequence[int]:
        """Return the numbers of micro-batches to try for the batch of a system, the smallest number first.

        It is empty for "auto", and for bounds that no size lies between.
        """
        if self.kind == "whole":
            return (1,)
        if self.kind == "size":
            return (-(-samples // min(self.least, samples)),)
        if self.kind == "auto":
            return ()
        sizes = range(min(self.most or samples, samples), self.least - 1, -1)
        counts = dict.fromkeys(-(-samples // size) for size in sizes)
        # Several sizes come to one number of even micro-batches, which may be smaller than the least one.
        within = [count for count in counts if -(-samples // count) >= self.least]
        return within or tuple(counts)


AUTO = MicroBatching()
