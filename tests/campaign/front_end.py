"""Serve scripts to one front end: read a request a line, run its script in a forked process, write the answer.

Run as `python front_end.py ours` or `python front_end.py real`; nothing of this repository is imported but the package
under test. A request is a JSON object with `source` (the text of a script), `folder` (an empty folder to run it in) and
`mode` ("run", or "check" for the command of ours). The answer has `end` ("accepted", "refused" or "lost"), `error`,
`line` (of the script, 0 if unknown) and `text` (the CIRH that was left in the folder).

The packages are imported once. Each script has a process of its own, since a process has one backend.
"""

# Packages under test are imported by `main`, which is told their kind; nothing else of this repository is.
# ruff: noqa: PLC0415

import importlib
import importlib.util
import json
import os
import pathlib
import re
import select
import signal
import sys
import tempfile
import time
import traceback
from typing import Any

SCRIPT = "script.py"
LIMIT_SECONDS = 60
LEFT = set[str]()
"""Modules that cannot be imported by their names."""


def answer(request: dict[str, str]) -> dict[str, Any]:
    """Run one script in a child process, and return what became of it."""
    folder = pathlib.Path(request["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SCRIPT).write_text(request["source"])
    pid = os.fork()
    if pid == 0:
        # The child answers through files: the standard output is the server's.
        try:
            os.chdir(folder)
            out = os.open("log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(out, 2)
            said = check() if request["mode"] == "check" else run(request["source"])
            said["modules"] = list(sys.modules)
            pathlib.Path("answer.json").write_text(json.dumps(said))
        finally:
            os._exit(0)
    if not wait(pid):
        return {"end": "lost", "error": f"no answer after {LIMIT_SECONDS} s", "line": 0, "text": ""}
    if not (folder / "answer.json").exists():
        return {"end": "lost", "error": (folder / "log.txt").read_text()[-2000:], "line": 0, "text": ""}
    said = json.loads((folder / "answer.json").read_text())
    texts = sorted(folder.glob("**/cirh.mlir"))
    said["text"] = texts[0].read_text() if texts else ""
    return said


def wait(pid: int) -> bool:
    """Wait for a child until the time limit; return whether it ended by itself."""
    handle = os.pidfd_open(pid)
    ready, _, _ = select.select([handle], [], [], LIMIT_SECONDS)
    os.close(handle)
    if not ready:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return bool(ready)


def run(source: str) -> dict[str, Any]:
    """Run the script as the main module."""
    try:
        exec(compile(source, SCRIPT, "exec"), {"__name__": "__main__", "__file__": SCRIPT})
    except BaseException as e:
        text = "".join(traceback.format_exception(e))
        # A refusal of the lowering names the line in its message, which comes last; the innermost one counts.
        lines = re.findall(rf'"?{SCRIPT}"?[:,](?: line )?(\d+)', text)
        said = str(e)
        if m := re.match(rf"(?:.*\n)*?{SCRIPT}:(\d+):", said):
            lines = [m[1]]
        return {"end": "refused", "error": f"{type(e).__name__}: {said}"[:1500], "line": int(lines[-1]) if lines else 0}
    return {"end": "accepted", "error": "", "line": 0}


def check() -> dict[str, Any]:
    """Check the script with the command of ours."""
    from cstorch_compat.check.check_command import run_check as checked

    findings, outcome = checked(SCRIPT, [])
    refused = [f for f in findings.sort_by_severity() if f.rule.severity == "refused"]
    said = "; ".join(f"{f.rule.id} {f.operation} {f.detail}" for f in refused)
    end = ("accepted", "refused", "lost")[outcome.status(findings)]
    error = said or outcome.crash
    return {
        "end": end,
        "error": error[:1500],
        "line": refused[0].line if refused else 0,
        "lines": [f.line for f in refused],
    }


def main() -> None:
    """Serve until the input ends."""
    if sys.argv[1] == "ours":
        import cstorch_compat

        cstorch_compat.install()
        import cstorch_compat.check.check_command
    else:
        quick_lowering()

    for line in sys.stdin:
        since = time.monotonic()
        said = answer(json.loads(line))
        keep(said.pop("modules", []))
        said["seconds"] = time.monotonic() - since
        sys.__stdout__.write(json.dumps(said) + "\n")
        sys.__stdout__.flush()


def keep(modules: list[str]) -> None:
    """Import here what a script has imported, so that the next process begins with it."""
    for name in modules:
        # A module that a script made up, or one under another name, cannot be imported, and need not be.
        if name not in sys.modules and name not in LEFT:
            try:
                importlib.import_module(name)
            except Exception:
                LEFT.add(name)


def quick_lowering() -> None:
    """Put the vendor's lowering program itself on the path: its Python wrapper takes two seconds to import."""
    package = importlib.util.find_spec("cerebras.pytorch").submodule_search_locations[0]
    folder = tempfile.mkdtemp()
    script = pathlib.Path(folder) / "torch-cirh-opt"
    script.write_text(f'#!/bin/sh\nexec "{package}/lib/torch-cirh-opt" "$@"\n')
    script.chmod(0o755)
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"


if __name__ == "__main__":
    main()
