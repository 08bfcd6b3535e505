"""The steps at which something is done, as ranges."""

import builtins
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

PAST_THE_END_MESSAGE = "Target {} exceeds the last interval step {}"


@dataclass
class Schedule:
    """Steps, counted from 0, as ranges that follow each other. Raises ValueError for ranges that overlap."""

    @dataclass
    class Range:
        """Every `step`-th step from `start` up to before `end`; with `include_last` the last one before it too."""

        start: int
        end: int
        step: int
        include_last: bool

        def __post_init__(self) -> None:
            if not _is_int_at_least(self.start, 0):
                raise ValueError(f"start ({self.start}) must be an integer >= 0.")
            if not _is_int_at_least(self.end, self.start + 1):
                raise ValueError(f"end ({self.end}) must be an integer greater than start {self.start}.")
            if not _is_int_at_least(self.step, 1):
                raise ValueError(f"step ({self.step}) must be an integer greater than zero.")
            if not isinstance(self.include_last, bool):
                raise ValueError(f"include_last must be a bool, got {type(self.include_last)}")

        @property
        def steps(self) -> builtins.range:
            """The regular steps."""
            return range(self.start, self.end, self.step)

        @property
        def final_step(self) -> int:
            """The last step."""
            return self.end - 1 if self.include_last else self.steps[-1]

        def match(self, index: int) -> bool:
            """Whether it is done at this step."""
            return index in self.steps or (self.include_last and index == self.end - 1)

        def range(self) -> builtins.range:
            """The regular steps."""
            return self.steps

        def __iter__(self) -> Iterator[int]:
            yield from self.steps
            # The last step may be a regular one too, and is then not listed twice.
            if self.final_step not in self.steps:
                yield self.final_step

        def __len__(self) -> int:
            return len(self.steps) + (self.final_step not in self.steps)

        def next_immediate_step(self, target: int) -> int:
            """The first step that is not before `target`. Raises ValueError past the end."""
            if target > self.final_step:
                raise ValueError(PAST_THE_END_MESSAGE.format(target, self.final_step))
            # The first regular step at or behind the target, by rounding up.
            regular = self.start + max(0, -(-(target - self.start) // self.step)) * self.step
            return min(regular, self.final_step)

    intervals: list[Range]

    def __post_init__(self) -> None:
        if any(after.start < before.end for before, after in pairwise(self.intervals)):
            raise ValueError(f"Intervals must be non-overlapping ranges, but got {self.intervals}.")

    @classmethod
    def every(cls, steps: int, num_steps: int) -> "Schedule":
        """After every `steps` steps, and after the last one."""
        # Steps are counted from 0 here and from 1 by scripts: after every 10 steps is at 9, 19, ...
        return cls([cls.Range(min(steps, num_steps) - 1, num_steps, steps, True)])

    def match(self, index: int) -> bool:
        """Whether it is done at this step."""
        return any(interval.match(index) for interval in self.intervals)

    def range(self) -> list[builtins.range]:
        """The regular steps of each range."""
        return [interval.steps for interval in self.intervals]

    def __iter__(self) -> Iterator[int]:
        return (step for interval in self.intervals for step in interval)

    def __len__(self) -> int:
        return sum(map(len, self.intervals))

    @property
    def start(self) -> int | None:
        """The first step, if there is one."""
        return self.intervals[0].start if self.intervals else None

    @property
    def final_step(self) -> int | None:
        """The last step, if there is one."""
        return self.intervals[-1].final_step if self.intervals else None

    def next_immediate_step(self, target: int) -> int | None:
        """The first step that is not before `target`; None of an empty schedule. Raises ValueError past the end."""
        # Ranges follow each other, so the first one that reaches as far is the one.
        for interval in self.intervals:
            if target <= interval.final_step:
                return interval.next_immediate_step(target)
        if self.intervals:
            raise ValueError(PAST_THE_END_MESSAGE.format(target, self.final_step))
        return None


def _is_int_at_least(value: object, least: int) -> bool:
    return isinstance(value, int) and value >= least
