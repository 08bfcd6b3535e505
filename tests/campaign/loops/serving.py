"""Runs scripts in servers: one process with our packages, one with the real ones, each of which forks for a script."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Any

SERVER = pathlib.Path(__file__).with_name("server.py")
ROOT = pathlib.Path(__file__).parents[3]
SECONDS = 60
"""The time after which a script is ended. Most take less than one second."""


@dataclass(frozen=True)
class Answer:
    """What became of a script: the JSON lists that it printed, and the error that ended it, if any."""

    lines: list[list[Any]]
    error: dict[str, Any] | None

    @property
    def text(self) -> str:
        """The error in one line, or "ended"."""
        if self.error is None:
            return "ended"
        return f"{self.error['type']} at line {self.error['line']}: {self.error['text'][:300]}"


@dataclass
class Servers:
    """The servers, started when they are first used. A context manager, which ends them."""

    real: str | None = None
    _folder: Any = field(default_factory=lambda: tempfile.TemporaryDirectory(prefix="loops"))
    _started: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def __enter__(self) -> "Servers":
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._started.values():
            server.communicate()
        self._folder.cleanup()

    def answer(self, package: str, text: str, backend: str, half: str = "") -> Answer:
        """Run a script on a backend of a package, "ours" or "real", in an empty folder.

        With `half`, our CSX computes in that type where it would take the half type.
        """
        folder = pathlib.Path(self._folder.name) / package
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        script = folder.with_suffix(".py")
        script.write_text(text)
        server = self._server(package)
        job = {"script": str(script), "args": [backend], "folder": str(folder), "seconds": SECONDS, "half": half}
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(job) + "\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        return Answer([_parsed(line) for line in answer["lines"]], answer["error"])

    def _server(self, package: str) -> subprocess.Popen[str]:
        if package not in self._started:
            python = self.real if package == "real" else sys.executable
            assert python is not None
            # One thread each: a campaign runs beside others, and sums in a fixed order are compared.
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
            if package == "real":
                del environment["PYTHONPATH"]
                # The package starts programs of its own folder.
                environment["PATH"] = f"{pathlib.Path(python).parent}{os.pathsep}{os.environ['PATH']}"
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            command = [python, str(SERVER), package]
            # In a session of its own: a terminal that stops jobs in the background does not stop it.
            self._started[package] = subprocess.Popen(
                command, **pipes, text=True, env=environment, start_new_session=True
            )
        return self._started[package]


def _parsed(line: str) -> list[Any]:
    try:
        parsed = json.loads(line)
    except ValueError:
        return ["text", line]
    return parsed if isinstance(parsed, list) else ["text", line]
