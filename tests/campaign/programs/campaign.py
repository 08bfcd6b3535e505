"""Runs drawn programs here and with PyTorch, compares what they show, and shrinks the programs that differ."""

import collections
import json
import math
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.campaign.programs import runner
from tests.campaign.programs.drawing import Drawn, drawn

ROOT = pathlib.Path(__file__).parents[3]
BATCH = 16
"""Programs that one request holds, and the number of threads of the law about threads times two."""
TOLERANCE = {"float64": 1e-4, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}
"""Relative to the largest element: a value in a coarse type makes all that follows as coarse."""
NOISE_RATIO = 0.1
"""A difference is rounding if numbers that differ in their last place make a difference of at least this share."""

Rows = list[list[Any]]


class Server:
    """A process that runs programs with one package; see `runner`."""

    def __init__(self, python: str, kind: str, **environment: str):
        env = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
        env["PYTHONPATH"] = str(ROOT) if kind == "ours" else ""
        self._command, self._env = [python, runner.__file__, kind], env
        self._process: subprocess.Popen[str] | None = None

    def run(self, programs: list[tuple[str, ...]], threads: int = 1) -> list[Rows]:
        """Return what programs show. A program that ends the process gives one row with the label "crash"."""
        try:
            return self._answer(programs, threads)
        except (ValueError, BrokenPipeError):
            self.close()
            if len(programs) == 1:
                return [[["crash", []]]]
            return [self.run([program])[0] for program in programs]

    def _answer(self, programs: list[tuple[str, ...]], threads: int) -> list[Rows]:
        if self._process is None:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self._process = subprocess.Popen(
                self._command,
                **pipes,
                text=True,
                env=self._env,
                start_new_session=True,  # type: ignore[call-overload]
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"programs": programs, "threads": threads}) + "\n")
        self._process.stdin.flush()
        rows: list[Rows] = json.loads(self._process.stdout.readline())
        return rows

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()
            self._process = None


@dataclass(frozen=True)
class Difference:
    """The first difference of two runs: its kind, the label where it is, and both sides."""

    kind: str
    label: str
    left: Any
    right: Any

    def __str__(self) -> str:
        return f"{self.kind} at {self.label}: {str(self.left)[:300]} and {str(self.right)[:300]}"


def difference(left: Rows, right: Rows, program: Drawn | None = None) -> Difference | None:
    """Return the first difference of two runs; None if there is none.

    Without `program`, each bit is compared. Otherwise values that have one right result in each bit are compared so,
    and others relative to the largest element of their tensor.
    """
    for one, other in zip(left, right, strict=False):
        label = str(one[0])
        if "error" in (one[0], other[0]) and one[:2] != other[:2]:
            refused = min((row for row in (one, other) if row[0] == "error"), key=lambda row: row[1])
            side = "the first" if refused is one else "the second"
            return Difference(
                f"refused by {side}", f"statement {refused[1]}", refused[3], one[1:] if refused is other else other[1:]
            )
        if one[0] != other[0]:
            return Difference("labels", label, one[0], other[0])
        if label == "error":
            if one[2][0] not in other[2] and other[2][0] not in one[2]:
                return Difference("error class", f"statement {one[1]}", one[3], other[3])
            continue
        tolerance = TOLERANCE[program.coarsest.get(label, "bfloat16")] if program is not None else None
        if program is not None and label in program.exact:
            tolerance = 0.0
        if (found := _unlike(one[1], other[1], tolerance, label)) is not None:
            return found
    return None if len(left) == len(right) else Difference("rows", "the end", len(left), len(right))


TENSOR = ("type", "type", "shape", "requires_grad", "value", "gradient")
"""What the entries of the list are that stands for a tensor."""


def _unlike(left: Any, right: Any, tolerance: float | None, label: str) -> Difference | None:
    """Return the first difference of two values; the label of an entry is that of the whole with its place."""
    if isinstance(left, list) and isinstance(right, list):
        if left and all(isinstance(v, float | int) and not isinstance(v, bool) for v in (*left, *right)):
            is_far = len(left) != len(right) or _is_far(left, right, tolerance)
            return Difference("value", label, left, right) if is_far else None
        if len(left) != len(right):
            return Difference("length", label, left, right)
        is_tensor = bool(left) and left[0] == "tensor"
        for k, (a, b) in enumerate(zip(left, right, strict=True)):
            place = TENSOR[k] if is_tensor else str(k)
            # A gradient is a sum, whose order is free.
            bound = max(tolerance, TOLERANCE["float32"]) if place == "gradient" and tolerance is not None else tolerance
            found = _unlike(a, b, bound, f"{label}.{place}")
            if found is not None:
                return replace(found, kind=place) if is_tensor and place in TENSOR[1:4] else found
    elif isinstance(left, dict) and isinstance(right, dict):
        if list(left) != list(right):
            return Difference("names", label, list(left), list(right))
        return next((d for k in left if (d := _unlike(left[k], right[k], tolerance, f"{label}.{k}"))), None)
    elif type(left) is not type(right):
        return Difference("class", label, left, right)
    elif left != right and (isinstance(left, bool | str) or _is_far([left], [right], tolerance)):
        return Difference("value", label, left, right)
    return None


def _is_far(left: list[float], right: list[float], tolerance: float | None) -> bool:
    tolerance = tolerance or 0.0
    scale = max((abs(v) for v in (*left, *right) if math.isfinite(v)), default=0.0)
    for a, b in zip(left, right, strict=True):
        if a == b or (a != a and b != b):
            continue
        if not math.isfinite(a) or not math.isfinite(b) or abs(a - b) > tolerance * max(scale, tolerance):
            return True
    return False


class Campaign:
    """The processes that programs run in: ours and, if `real` names an interpreter with PyTorch, that one."""

    def __init__(self, real: str | None):
        self.ours = Server(sys.executable, "ours")
        self.real = Server(real, "real") if real else None

    def __enter__(self) -> "Campaign":
        return self

    def __exit__(self, *_: object) -> None:
        self.ours.close()
        if self.real is not None:
            self.real.close()

    def findings(self, seed: int, numbers: range) -> Iterator[tuple[int, str, Difference]]:
        """Yield the number of each program with a difference, the pair of runs that differ, and the difference."""
        for first in range(numbers.start, numbers.stop, BATCH):
            batch = range(first, min(first + BATCH, numbers.stop))
            programs = {n: drawn(seed, n) for n in batch}
            ours = dict(zip(batch, self.ours.run([p.statements for p in programs.values()]), strict=True))
            yield from self._unlawful(programs, ours)
            if self.real is not None:
                real = dict(zip(batch, self.real.run([p.statements for p in programs.values()]), strict=True))
                for n, program in programs.items():
                    found = difference(real[n], ours[n], program)
                    if found is not None and not self._is_rounding(seed, n, program, real[n], ours[n]):
                        yield n, "PyTorch and ours", found

    def _unlawful(self, programs: dict[int, Drawn], before: dict[int, Rows]) -> Iterator[tuple[int, str, Difference]]:
        """Yield where a second run in the process differs in a bit, and where a run in one of several threads does."""
        again = self.ours.run([p.statements for p in reversed(programs.values())])
        for n, rows in zip(reversed(programs), again, strict=True):
            found = difference(before[n], rows)
            if found is not None:
                yield n, "equal runs", found
        # The default generator is one for all threads.
        quiet = {n: p for n, p in programs.items() if not p.uses_generator}
        for n, rows in zip(quiet, self.ours.run([p.statements for p in quiet.values()], BATCH // 2), strict=True):
            found = difference(before[n], rows)
            if found is not None:
                yield n, "threads", found

    def _is_rounding(self, seed: int, number: int, program: Drawn, real: Rows, ours: Rows) -> bool:
        """Return whether all differences are small beside what numbers that differ in their last place change."""
        assert self.real is not None
        noisy = self.real.run([drawn(seed, number, is_noisy=True).statements])[0]
        if len({len(noisy), len(real), len(ours)}) > 1:
            return False
        for changed, one, other in zip(noisy, real, ours, strict=True):
            if (found := difference([one], [other], program)) is not None:
                if found.kind != "value" or (one[0] in program.exact and ".gradient" not in found.label):
                    return False
                if _distance(one[1:], other[1:]) * NOISE_RATIO > _distance(one[1:], changed[1:]):
                    return False
        return True

    def shrunk(self, program: Drawn, pair: str, found: Difference) -> tuple[tuple[str, ...], Difference]:
        """Return the fewest statements that show a difference of the same kind at the same label."""
        statements = program.statements
        k = len(statements)
        while k > 0:
            k -= 1
            fewer = (*statements[:k], *statements[k + 1 :])
            other = self._difference(Drawn(fewer, program.exact, program.coarsest, program.uses_generator), pair)
            if other is not None and other.kind == found.kind and _is_same_label(found, other):
                statements, found = fewer, other
        return statements, found

    def _difference(self, program: Drawn, pair: str) -> Difference | None:
        if pair == "PyTorch and ours":
            assert self.real is not None
            return difference(self.real.run([program.statements])[0], self.ours.run([program.statements])[0], program)
        one, *others = self.ours.run([program.statements] * BATCH, BATCH // 2 if pair == "threads" else 1)
        return next((d for other in others if (d := difference(one, other)) is not None), None)


def _is_same_label(found: Difference, other: Difference) -> bool:
    if not found.kind.startswith("refused"):
        return found.label.partition(".")[0] == other.label.partition(".")[0]
    one, two = (re.sub(r"\d+", "", str(d.left))[:60] for d in (found, other))
    return one == two


def _distance(left: Any, right: Any) -> float:
    """Return the largest difference of two numbers at the same place."""
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return max((_distance(a, b) for a, b in zip(left, right, strict=True)), default=0.0)
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        return max((_distance(left[k], right[k]) for k in left), default=0.0)
    if isinstance(left, float) and isinstance(right, float):
        return (
            abs(left - right)
            if left == left and right == right
            else 0.0
            if left != left and right != right
            else math.inf
        )
    return 0.0 if left == right else math.inf


def run(seed: int, numbers: Iterable[int], real: str | None, is_shrunk: bool) -> int:
    """Run programs, and print what differs and how often. Returns 1 if a program differs."""
    counts = collections.Counter[str]()
    numbers = range(min(numbers), max(numbers) + 1)
    with Campaign(real) as campaign:
        for number, pair, found in campaign.findings(seed, numbers):
            counts[f"{pair}: {found.kind}"] += 1
            print(f"program {number}, {pair}: {found}", flush=True)
            if is_shrunk:
                program = drawn(seed, number)
                statements, less = campaign.shrunk(program, pair, found)
                print(
                    *(f"    {line}" for s in statements for line in s.splitlines()),
                    f"    => {less}",
                    sep="\n",
                    flush=True,
                )
    print(f"{len(numbers)} programs of seed {seed}, {sum(counts.values())} differences")
    for name, count in counts.most_common():
        print(f"{count:6} {name}")
    return 1 if counts else 0
