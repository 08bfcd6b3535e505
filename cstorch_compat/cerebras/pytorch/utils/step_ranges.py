"""Sets of steps, such as checkpoint steps, given as ranges."""

import builtins
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

PAST_THE_END_MESSAGE = "Target {} exceeds the last interval step {}"


@dataclass
class Schedule:
    """A set of steps, counted from 0, given as consecutive ranges. Iteration yields the steps in order.

    Raises ValueError if the ranges overlap or are not in order.
    """

    @dataclass
    class Range:
        """Every `step`-th step from `start` up to but excluding `end`.

        With `include_last`, step `end` - 1 is included too. Raises ValueError unless 0 <= start < end and step > 0.
        """

        start: int
        end: int
        step: int
        include_last: bool

        def __post_init__(self) -> None:
            if not _is_int_at_least(self.start, 0):
                raise ValueError(f"start ({self.start}) must be an integer >= 0.\n  Pass a start of at least 0.")
            if not _is_int_at_least(self.end, self.start + 1):
                raise ValueError(
                    f"end ({self.end}) must be an integer greater than start {self.start}."
                    "\n  Pass an end after the start."
                )
            if not _is_int_at_least(self.step, 1):
                raise ValueError(f"step ({self.step}) must be an integer greater than zero.\n  Pass a positive step.")
            if not isinstance(self.include_last, bool):
                raise ValueError(f"include_last must be a bool, got {type(self.include_last)}\n  Pass True or False.")

        @property
        def steps(self) -> builtins.range:
            """Return the regular steps, without an additional last one."""
            return range(self.start, self.end, self.step)

        @property
        def final_step(self) -> int:
            """Return the last step of the range."""
            return self.end - 1 if self.include_last else self.steps[-1]

        def match(self, index: int) -> bool:
            """Return whether step `index` is in the range."""
            return index in self.steps or (self.include_last and index == self.end - 1)

        def range(self) -> builtins.range:
            """Return the regular steps, as `steps`."""
            return self.steps

        def __iter__(self) -> Iterator[int]:
            yield from self.steps
            if self.final_step not in self.steps:
                yield self.final_step

        def __len__(self) -> int:
            return len(self.steps) + (self.final_step not in self.steps)

        def next_immediate_step(self, target: int) -> int:
            """Return the first step of the range that is not before `target`, which may be the additional last step.

            Raises ValueError if `target` is after the last step.
            """
            if target > self.final_step:
                raise ValueError(PAST_THE_END_MESSAGE.format(target, self.final_step))
            # The first regular step at or after the target, by rounding up.
            regular = self.start + max(0, -(-(target - self.start) // self.step)) * self.step
            return min(regular, self.final_step)

    intervals: list[Range]

    def __post_init__(self) -> None:
        if any(after.start < before.end for before, after in pairwise(self.intervals)):
            raise ValueError(
                f"Intervals must be non-overlapping ranges, but got {self.intervals}."
                "\n  Pass ranges that do not overlap."
            )

    @classmethod
    def every(cls, steps: int, num_steps: int) -> "Schedule":
        """Return the schedule of every `steps`-th step of `num_steps` and of the last step.

        Steps count from 0: `every(10, 25)` contains 9, 19 and 24.
        """
        return cls([cls.Range(min(steps, num_steps) - 1, num_steps, steps, True)])

    def match(self, index: int) -> bool:
        """Return whether step `index` is in one of the ranges."""
        return any(interval.match(index) for interval in self.intervals)

    def range(self) -> list[builtins.range]:
        """Return the regular steps of each range."""
        return [interval.steps for interval in self.intervals]

    def __iter__(self) -> Iterator[int]:
        return (step for interval in self.intervals for step in interval)

    def __len__(self) -> int:
        return sum(map(len, self.intervals))

    @property
    def start(self) -> int | None:
        """Return the first step, or None if there are no ranges."""
        return self.intervals[0].start if self.intervals else None

    @property
    def final_step(self) -> int | None:
        """Return the last step, or None if there are no ranges."""
        return self.intervals[-1].final_step if self.intervals else None

    def next_immediate_step(self, target: int) -> int | None:
        """Return the first step that is not before `target`, or None if there are no ranges.

        Raises ValueError if `target` is after the last step.
        """
        # Ranges are in order, so the first one that ends at or after the target contains the step.
        for interval in self.intervals:
            if target <= interval.final_step:
                return interval.next_immediate_step(target)
        if self.intervals:
            raise ValueError(PAST_THE_END_MESSAGE.format(target, self.final_step))
        return None


def _is_int_at_least(value: object, least: int) -> bool:
    return isinstance(value, int) and value >= least
