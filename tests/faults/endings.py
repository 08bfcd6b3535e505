"""Runs that are killed or asked to end at random moments: `python -m tests.faults kills N` and `... signals N`.

A case is a number, which with the seed says which script runs and when it ends; a campaign goes on where it stopped.
"""

import contextlib
import functools
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cstorch_compat.files import checkpoint
from tests.campaign.corpora import fingerprint
from tests.faults.owned import SHARED, owner_name, pieces
from tests.faults.run_scripts import CACHED, PLAIN, WAFER
from tests.faults.soak import ROOT

SCRIPTS = {"plain": PLAIN, "wafer": WAFER, "cached": CACHED}
SHARES = ("plain", "plain", "plain", "wafer")
"""How often each of them is drawn: that of the wafer takes longer."""
COLD = 0.05
"""The share of signals that meet a process of its own from its imports on, and no fork of one that has them."""
GRACE_SECONDS = 5.0
"""Until when processes and memory of a run that was killed have to be gone by themselves."""
HANGING_SECONDS = 180.0
"""What no run takes, on whatever machine."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Case = Callable[["Ground", random.Random], tuple[str, list[str]]]
"""One run: what it was, and what is wrong behind it."""
OWN = {"train.py", "out", "err", "cerebras_logs"}


@dataclass(frozen=True)
class Reference:
    """What a script comes to that nothing stops: its checkpoints by name, and its seconds of a processor."""

    checkpoints: dict[str, str]
    seconds: float


class Ground:
    """The process that forks, and what the scripts come to."""

    def __init__(
        self,
        folder: pathlib.Path,
        shares: Sequence[str] = SHARES,
        cache: pathlib.Path | None = None,
    ):
        self.folder, self.shares, self.name = folder, shares, owner_name()
        own = {} if cache is None else {"LT_CACHE": str(cache)}
        self.settings = {**os.environ, "PYTHONPATH": str(ROOT)} | own
        self._warm = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.warm", self.name, *set(shares)],
            env=self.settings,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()
        self._references: dict[tuple[str, bool], Reference] = {}

    def _answer(self) -> str:
        assert self._warm.stdout is not None
        answer = self._warm.stdout.readline().strip()
        if not answer:
            raise RuntimeError("the process that forks has ended")
        return answer

    def empty(self, name: str) -> pathlib.Path:
        """A folder with nothing but the script."""
        folder = self.folder / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "train.py").write_text(SCRIPTS[name])
        return folder

    def run(self, folder: pathlib.Path, end: Callable[[int], object], is_cold: bool = False) -> int:
        """Run the script there; `end` is called with its process. Returns its status, below zero for a signal.

        A run that never ends has the status of a kill.
        """
        if is_cold:
            command = [sys.executable, "-m", "tests.faults.owned", self.name, "run", "train.py"]
            with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
                process = subprocess.Popen(
                    command,
                    cwd=folder,
                    env=self.settings,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                    preexec_fn=_hear_signals,  # noqa: PLW1509 - no thread runs here
                )
            end(process.pid)
            kill_if_hanging(process.pid)
            return process.wait()
        assert self._warm.stdin is not None
        self._warm.stdin.write(json.dumps(["train.py", str(folder)]) + "\n")
        self._warm.stdin.flush()
        pid = int(self._answer())
        end(pid)
        kill_if_hanging(pid)
        return os.waitstatus_to_exitcode(int(self._answer()))

    def reference(self, name: str, is_cold: bool = False) -> Reference:
        """What a script comes to in a fork, or in a process of its own."""
        if (name, is_cold) not in self._references:
            # Twice: the first run compiles kernels, which later ones find.
            seconds = [self._whole(name, is_cold) for _ in range(2)][1]
            self._references[name, is_cold] = Reference(values(self.folder / "case"), seconds)
        return self._references[name, is_cold]

    def _whole(self, name: str, is_cold: bool) -> float:
        """Run a script to its end. Returns its seconds of a processor, without those of its workers."""
        folder, seconds = self.empty(name), 0.0

        def follow(pid: int) -> None:
            nonlocal seconds
            wait_for_handlers(pid)
            while (now := seconds_of(pid)) is not None:
                seconds = now
                time.sleep(0.005)

        if status := self.run(folder, follow, is_cold):
            raise RuntimeError(f"{name} ended with {status}: {(folder / 'err').read_text()}")
        return seconds

    def close(self) -> None:
        """End the process that forks."""
        self._warm.communicate()


def values(folder: pathlib.Path) -> dict[str, str]:
    """What each checkpoint of a folder holds, all of it read. Raises CheckpointError for one that is not whole."""
    return {path.name: fingerprint(checkpoint.load(path)) for path in sorted(folder.glob("*.mdl"))}


def _hear_signals() -> None:
    """Begin as in a terminal: behind nohup, or in the background, a campaign and what it starts ignore some of them."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def is_caught(pid: int) -> bool | None:
    """Whether the command has said what signals do to it, and is not over; None once the process has ended."""
    try:
        status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    except OSError:
        return None
    caught = int(status.get("SigCgt", "0"), 16)
    return None if status["State"][0] == "Z" else all(caught >> (number - 1) & 1 for number in SIGNALS)


def kill_if_hanging(pid: int) -> None:
    """Wait for the end of a process, and end one that does not: its status says so."""
    until = time.monotonic() + HANGING_SECONDS
    while is_caught(pid) is not None:
        if time.monotonic() > until:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def wait_for_handlers(pid: int) -> None:
    """Until the command answers to signals, which it does before all else, or is over."""
    while is_caught(pid) is False:
        time.sleep(0.001)


def seconds_of(pid: int) -> float | None:
    """The seconds of a processor that a process has had; None once it answers to no signal any more."""
    try:
        # The kernel's number for the clock of another process.
        return time.clock_gettime((~pid << 3) | 2) if is_caught(pid) else None
    except OSError:
        return None


def sending(number: int, share: float, whole_seconds: float) -> Callable[[int], None]:
    """What sends a signal when a run has had that share of what it takes of a processor: its clock knows no load."""

    def send(pid: int) -> None:
        wait_for_handlers(pid)
        began = seconds_of(pid)
        while began is not None and (now := seconds_of(pid)) is not None:
            if now - began >= share * (whole_seconds - began):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
                return
            time.sleep(0.0005)

    return send


def left_of(session: int, name: str, before: set[str]) -> list[str]:
    """What a run that is over has left: processes, and shared memory of its name that was not there before."""
    until = time.monotonic() + GRACE_SECONDS
    while left := [*_processes(session), *(f"{SHARED / piece}" for piece in sorted(pieces(name) - before))]:
        if time.monotonic() > until:
            return left
        time.sleep(0.02)
    return []


def _processes(session: int) -> list[str]:
    living = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                state, _, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(of) == session and state != "Z":
                    living.append(f"process {entry.name}")
    return living


def differing(folder: pathlib.Path, reference: Reference) -> list[str]:
    """Which checkpoints of a folder are not what the reference has under their names."""
    try:
        return [f"{n} is another" for n, v in values(folder).items() if reference.checkpoints.get(n) != v]
    except Exception as e:
        return [f"a checkpoint cannot be read: {e}"]


def unfinished(folder: pathlib.Path) -> list[str]:
    """Files of a folder that nobody asked for."""
    return [f"{p.name} is left" for p in folder.iterdir() if p.name not in OWN and p.suffix != ".mdl"]


def signalled(ground: Ground, draw: random.Random, number: int) -> tuple[str, list[str]]:
    """One run that a signal ends: what it was, and what is wrong behind it."""
    name, is_cold = draw.choice(ground.shares), draw.random() < COLD
    reference, shared = ground.reference(name, is_cold), pieces(ground.name)
    folder, session = ground.empty(name), 0

    def end(pid: int) -> None:
        nonlocal session
        session = pid
        sending(number, draw.random(), reference.seconds)(pid)

    status = ground.run(folder, end, is_cold)
    lines = (folder / "err").read_text(errors="replace").splitlines(keepends=True)
    # How far it is, once a second, is said there too.
    said = "".join(line for line in lines if not line.startswith("step "))
    wrong = [*differing(folder, reference), *unfinished(folder), *left_of(session, ground.name, shared)]
    if status == 0 and values(folder) == reference.checkpoints:
        return "over before", wrong
    # A signal that comes while Python shuts down has its default effect.
    if status not in (128 + number, -number):
        wrong.append(f"it ended with {status}")
    if status != -number and said != f"lazywafer: stopped by {signal.Signals(number).name}\n":
        wrong.append(f"it said {said[-1500:]!r}")
    return f"{signal.Signals(number).name}, {name}{', from its imports on' if is_cold else ''}", wrong


def killed(ground: Ground, draw: random.Random) -> tuple[str, list[str]]:
    """One run that is killed, and the next start, which is not: what it was, and what is wrong behind both."""
    name = draw.choice(ground.shares)
    reference, shared = ground.reference(name), pieces(ground.name)
    folder, session, wrong = ground.empty(name), 0, list[str]()

    def end(pid: int) -> None:
        nonlocal session
        session = pid
        sending(signal.SIGKILL, draw.random(), reference.seconds)(pid)

    if ground.run(folder, end) != -signal.SIGKILL:
        return "over before", []
    at = len(list(folder.glob("*.mdl")))
    wrong += [*differing(folder, reference), *left_of(session, ground.name, shared)]
    if status := ground.run(folder, lambda pid: None):
        wrong.append(f"the next start ended with {status}: {(folder / 'err').read_text(errors='replace')[-1500:]}")
    wrong += [*differing(folder, reference), *unfinished(folder)]
    if len(list(folder.glob("*.mdl"))) != len(reference.checkpoints):
        wrong.append("the next start has not made all checkpoints")
    return f"{name}, {at} checkpoints there", wrong


def campaign(
    ground: Ground, kind: str, count: int, seed: int, notes: pathlib.Path, case: Case | None = None
) -> tuple[Counter[str], list[list[Any]]]:
    """How often each end came, until `count` of each have come that count, and what was wrong behind which.

    `case` runs one that is neither a kill nor a signal.
    """
    done, counts, bad = 0, Counter[str](), list[list[Any]]()
    if notes.exists():
        said = json.loads(notes.read_text())
        done, counts, bad = said["done"], Counter(said["counts"]), said["bad"]
    notes.parent.mkdir(parents=True, exist_ok=True)
    wanted = count * (len(SIGNALS) if kind == "signals" else 1)
    while sum(counts.values()) - counts["over before"] < wanted:
        draw = random.Random(f"{seed} {kind} {done}")
        # By what has come and not by the case: one that was over before counts for no signal.
        number = SIGNALS[(sum(counts.values()) - counts["over before"]) % len(SIGNALS)]
        one = case or (killed if kind == "kills" else functools.partial(signalled, number=number))
        end, wrong = one(ground, draw)
        counts[end] += 1
        if wrong:
            bad.append([done, end, *wrong])
            print(f"case {done}: {end}: {'; '.join(wrong)}", flush=True)
        done += 1
        temporary = notes.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps({"done": done, "counts": counts, "bad": bad}))
        temporary.replace(notes)
    return counts, bad
