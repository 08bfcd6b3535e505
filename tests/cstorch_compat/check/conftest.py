"""`checked` checks the text of a script in a fork of a process that has imported everything."""

import itertools
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture(scope="session")
def server() -> Iterator[subprocess.Popen]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(pathlib.Path(__file__).with_name("server.py"))]
    process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


Check = Callable[..., dict]


@pytest.fixture
def checked(server: subprocess.Popen, tmp_path: pathlib.Path) -> Check:
    """Check a script, given as text or path; returns what --json prints, with the exit status as "exit".

    With form="text" the report is under "text".
    """
    return checker(server, tmp_path)


@pytest.fixture(scope="module")
def check_script(server: subprocess.Popen, tmp_path_factory: pytest.TempPathFactory) -> Check:
    """The same for answers that several tests look at."""
    return checker(server, tmp_path_factory.mktemp("scripts"))


def checker(server: subprocess.Popen, tmp_path: pathlib.Path) -> Check:
    """What checks scripts, written to a folder, in the process of the server."""
    numbers = itertools.count()

    def check(script: str | pathlib.Path, *args: str, api: str | None = None, form: str = "json") -> dict:
        if isinstance(script, str):
            path = tmp_path / f"script_{next(numbers)}.py"
            path.write_text(script)
        else:
            path = script
        assert server.stdin is not None and server.stdout is not None
        options = {"script": str(path), "args": args, "api": api, "json": form == "json"}
        server.stdin.write(json.dumps({"folder": str(tmp_path), **options}) + "\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        found = json.loads(answer["text"]) if form == "json" else {"text": answer["text"]}
        return {**found, "exit": answer["status"]}

    return check
