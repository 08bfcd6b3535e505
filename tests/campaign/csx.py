"""Compare our `check` and `run` with the real front end on drawn scripts: `python -m tests.campaign csx N SEED`.

Each script of `csx_programs` is given to `run` and `check` and, where `--real` names an interpreter that has
cerebras_pytorch 2.10.0, to that package with `validate_only=True`. Compared are: accepted or refused, the line of a
refusal, and the CIRH text of what both accept. Answers of the real package are kept in build/campaign/csx.jsonl.
"""

import collections
import concurrent.futures
import contextlib
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import cstorch_compat
from tests.campaign import cirh_texts, csx_programs, front_end
from tests.campaign.csx_programs import Script

ROOT = pathlib.Path(__file__).parents[2]
Answer = dict[str, Any]


class Server:
    """A front end in a process of its own; see `front_end`."""

    def __init__(self, python: str, kind: str):
        path = os.pathsep.join(filter(None, (str(ROOT) if kind == "ours" else "", os.environ.get("PYTHONPATH", ""))))
        env = {**os.environ, "PYTHONPATH": path if kind == "ours" else ""}
        command = [python, front_end.__file__, kind]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.lock = threading.Lock()

    def ask(self, source: str, mode: str = "run") -> Answer:
        """Return what the front end says of a script."""
        assert self.process.stdin is not None and self.process.stdout is not None
        with self.lock, tempfile.TemporaryDirectory() as folder:
            request = {"source": source, "folder": folder, "mode": mode}
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            answer: Answer = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


class Recorded:
    """The real front end behind a file of its answers; without an interpreter only recorded answers are given."""

    def __init__(self, python: str | None, path: pathlib.Path):
        self.server = Server(python, "real") if python else None
        self.path, self.answers = path, dict[str, Answer]()
        if path.exists():
            for line in path.read_text().splitlines():
                row = json.loads(line)
                self.answers[row["key"]] = row["answer"]
        path.parent.mkdir(parents=True, exist_ok=True)

    def ask(self, source: str) -> Answer | None:
        """Return the answer to a script, or None if it is unknown."""
        key = hashlib.sha256(source.encode()).hexdigest()
        if key not in self.answers and self.server is not None:
            answer = self.server.ask(source)
            self.answers[key] = answer
            with self.path.open("a") as f:
                f.write(json.dumps({"key": key, "answer": answer}) + "\n")
        return self.answers.get(key)


def is_at_line(source: str, real: Answer, answer: Answer) -> bool:
    """Return whether a refusal is at the line that the real front end names.

    That of a gradient is at backward() there, and at the line of the call here. A refusal of the whole graph is raised
    there where the loop goes on, or where a closure takes a result; those lines say nothing.
    """
    named = source.splitlines()[real["line"] - 1] if real["line"] else ""
    if not named or any(part in named for part in (".backward()", "show(step", "DataExecutor(")):
        return True
    return real["line"] in answer.get("lines", [answer["line"]])


@dataclass(frozen=True)
class Case:
    """A script with the answers of the real front end, of `run` and of `check`."""

    number: int
    script: Script
    real: Answer
    run: Answer
    check: Answer

    def kinds(self) -> list[str]:
        """Return by what the answers differ."""
        found = []
        for name, answer in (("run", self.run), ("check", self.check)):
            # A check that ends with the script's own error has not said READY.
            if answer["end"] != self.real["end"] and (answer["end"], self.real["end"]) != ("lost", "refused"):
                found.append(f"{name} {answer['end']}, real {self.real['end']}")
            elif self.real["end"] == "refused" and not is_at_line(self.script.text(), self.real, answer):
                found.append(f"{name} line")
        if self.real["end"] == self.run["end"] == "accepted" and self.difference():
            found.append("text")
        return found

    def difference(self) -> list[str]:
        """Return the lines by which the texts differ."""
        return cirh_texts.differences(self.run["text"], self.real["text"])


@dataclass
class Campaign:
    """The front ends, and what came of the scripts so far."""

    real: Recorded
    ours: Server
    checker: Server
    counts: collections.Counter[str] = field(default_factory=collections.Counter)

    def case(self, number: int, script: Script) -> Case | None:
        """Ask all of one script; None where the real answer is unknown."""
        source = script.text()
        real = self.real.ask(source)
        if real is None or real["end"] == "lost":
            return None
        return Case(number, script, real, self.ours.ask(source), self.checker.ask(source, "check"))

    def shrunk(self, case: Case) -> Case:
        """Return the smallest script that still differs in the same way."""
        kind = case.kinds()[0]
        is_smaller = True
        while is_smaller:
            is_smaller = False
            for script in csx_programs.smaller(case.script):
                with contextlib.suppress(Exception):
                    less = self.case(case.number, script)
                    if less is not None and kind in less.kinds():
                        case, is_smaller = less, True
                        break
        return case


def show(case: Case) -> str:
    """Return a case with what differs, for reading."""
    lines = [f"--- case {case.number}: {', '.join(case.kinds())}"]
    lines += [f"    {n} = {e}" for n, e in case.script.statements[1:]]
    lines += [f"    {c}" for _, c in case.script.layers[1:]]
    others = {k: v for k, v in vars(case.script).items() if k not in ("layers", "statements", "output") and v}
    lines.append(f"    {others}")
    for name in ("real", "run", "check"):
        answer = getattr(case, name)
        said = next((t for t in answer["error"].splitlines() if t.strip()), "")[:230]
        lines.append(f"  {name:5} {answer['end']} {answer['line']} {said}")
    if "text" in case.kinds():
        lines += [f"      {row[:260]}" for row in case.difference()[:14]]
    return "\n".join(lines)


def campaign(count: int, seed: int, real: str | None, shrinks: bool, first: int = 0, only: str = "") -> int:
    """Run a campaign and print its table. Returns 1 if answers differ."""
    cstorch_compat.install()
    notes = ROOT / "build" / "campaign" / "csx.jsonl"
    made = Campaign(Recorded(real, notes), Server(sys.executable, "ours"), Server(sys.executable, "ours"))
    counts: collections.Counter[str] = collections.Counter()
    differing = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for case in _cases(pool, made, seed, range(first, first + count), only):
            if case is None:
                counts["unknown"] += 1
                continue
            counts[f"real {case.real['end']}"] += 1
            kinds = case.kinds()
            counts["equal"] += not kinds
            counts.update(kinds)
            if kinds:
                differing.append(case)
                print(show(made.shrunk(case) if shrinks else case), flush=True)
    for name, n in sorted(counts.items()):
        print(f"{n:6} {name}")
    return 1 if differing else 0


def _cases(
    pool: concurrent.futures.Executor, made: Campaign, seed: int, numbers: range, only: str
) -> Iterator[Case | None]:
    waiting = collections.deque[concurrent.futures.Future[Case | None]]()
    for n in numbers:
        # Scripts are drawn in one thread: drawing runs calls on the host.
        script = csx_programs.draw(seed, n, only)
        if script is not None:
            waiting.append(pool.submit(made.case, n, script))
        if len(waiting) > 6:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
