"""Runs drawn programs here and with PyTorch, compares what they show, and shrinks the programs that differ."""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tests.campaign.programs import runner
from tests.campaign.programs.comparing import Difference, Rows, difference, differences, distance
from tests.campaign.programs.drawing import Drawn, drawn
from tests.campaign.programs.explaining import reason

ROOT = pathlib.Path(__file__).parents[3]
BATCH = 16
"""Programs that one request holds, and the number of threads of the law about threads times two."""
NOISE_RATIO = 0.1
"""A difference is rounding if numbers that differ in their last place make a difference of at least this share."""
NOISES = 8
"""How often numbers are changed: a rule such as Adagrad's has the sign of a gradient that is zero but for rounding."""
BESIDE = "PyTorch and ours"


@dataclass(frozen=True)
class Finding:
    """A difference of a program: the pair of runs that differ, and the reason if it is known."""

    number: int
    pair: str
    difference: Difference
    reason: str | None


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

    def findings(self, seed: int, numbers: range) -> Iterator[Finding]:
        """Yield the differences of programs: between two runs here, and between PyTorch and ours."""
        for first in range(numbers.start, numbers.stop, BATCH):
            batch = range(first, min(first + BATCH, numbers.stop))
            programs = {n: drawn(seed, n) for n in batch}
            ours = dict(zip(batch, self.ours.run([p.statements for p in programs.values()]), strict=True))
            yield from self._unlawful(programs, ours)
            if self.real is not None:
                real = self.real.run([p.statements for p in programs.values()])
                for (n, program), rows in zip(programs.items(), real, strict=True):
                    yield from self._beside(seed, n, program, rows, ours[n])

    def _unlawful(self, programs: dict[int, Drawn], before: dict[int, Rows]) -> Iterator[Finding]:
        """Yield where a second run in the process differs in a bit, and where a run in one of several threads does."""
        again = self.ours.run([p.statements for p in reversed(programs.values())])
        # The default generator is one for all threads.
        quiet = {n: p for n, p in programs.items() if not p.uses_generator}
        threads = self.ours.run([p.statements for p in quiet.values()], BATCH // 2)
        for pair, numbers, rows in (("equal runs", reversed(programs), again), ("threads", quiet, threads)):
            for n, row in zip(numbers, rows, strict=True):
                found = difference(before[n], row)
                if found is not None:
                    yield Finding(n, pair, found, None)

    def _beside(self, seed: int, number: int, program: Drawn, real: Rows, ours: Rows) -> Iterator[Finding]:
        """Yield the differences from PyTorch, each with the reason if it is known; at most one without."""
        for found in differences(real, ours, program):
            why = reason(program, found, real, ours)
            if why is None and self._is_rounding(seed, number, program, found, real, ours):
                why = "rounding: numbers that differ in their last place change as much"
            yield Finding(number, BESIDE, found, why)
            if why is None:
                return

    def _is_rounding(self, seed: int, number: int, program: Drawn, found: Difference, real: Rows, ours: Rows) -> bool:
        """Return whether a difference is small beside what numbers change that differ in their last place."""
        label = found.label.partition(".")[0]
        if found.kind != "value" or (label in program.exact and ".gradient" not in found.label):
            return False
        assert self.real is not None
        spreads: dict[int, float] = {}
        for noise in range(1, NOISES + 1):
            noisy = self.real.run([drawn(seed, number, noise).statements])[0]
            if len({len(noisy), len(real), len(ours)}) > 1:
                return False
            rows = [k for k, row in enumerate(real) if row[0] == label]
            for k in rows:
                spreads[k] = max(spreads.get(k, 0.0), distance(real[k][1:], noisy[k][1:]))
            if all(distance(real[k][1:], ours[k][1:]) * NOISE_RATIO <= spreads[k] for k in rows):
                return True
        return False

    def shrunk(self, program: Drawn, pair: str, found: Difference) -> tuple[tuple[str, ...], Difference]:
        """Return the fewest statements that show a difference of the same kind at the same label."""
        statements = program.statements
        k = len(statements)
        while k > 0:
            k -= 1
            fewer = (*statements[:k], *statements[k + 1 :])
            other = self._difference(replace(program, statements=fewer), pair)
            if other is not None and other.kind == found.kind and _is_same_label(found, other):
                statements, found = fewer, other
        return statements, found

    def _difference(self, program: Drawn, pair: str) -> Difference | None:
        if pair == BESIDE:
            assert self.real is not None
            return difference(self.real.run([program.statements])[0], self.ours.run([program.statements])[0], program)
        one, *others = self.ours.run([program.statements] * BATCH, BATCH // 2 if pair == "threads" else 1)
        return next((d for other in others if (d := difference(one, other)) is not None), None)


def _is_same_label(found: Difference, other: Difference) -> bool:
    if not found.kind.startswith("refused"):
        return found.label.partition(".")[0] == other.label.partition(".")[0]
    one, two = (re.sub(r"\d+", "", str(d.left))[:60] for d in (found, other))
    return one == two


def run(seed: int, numbers: Iterable[int], real: str | None, is_shrunk: bool) -> int:
    """Run programs, and print what differs and how often. Returns 1 if a program differs."""
    counts, unexplained = collections.Counter[str](), 0
    numbers = range(min(numbers), max(numbers) + 1)
    with Campaign(real) as campaign:
        for found in campaign.findings(seed, numbers):
            counts[f"{found.pair}: {found.reason or found.difference.kind}"] += 1
            if found.reason is None:
                unexplained += 1
                print(f"program {found.number}, {found.pair}: {found.difference}", flush=True)
                if is_shrunk:
                    _print_smallest(campaign, drawn(seed, found.number), found)
    print(f"{len(numbers)} programs of seed {seed}, {unexplained} unexplained differences")
    for name, count in counts.most_common():
        print(f"{count:6} {name}")
    return 1 if unexplained else 0


def _print_smallest(campaign: Campaign, program: Drawn, found: Finding) -> None:
    statements, less = campaign.shrunk(program, found.pair, found.difference)
    lines = (f"    {line}" for s in statements for line in s.splitlines())
    print(*lines, f"    => {less}", sep="\n", flush=True)
