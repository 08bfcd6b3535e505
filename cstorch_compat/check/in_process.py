"""`cstorch_compat.check`: run a check from a notebook or another tool, in a child process.

A check runs the script as `__main__` and replaces missing modules, so it must not run in the caller's process.
"""

import html
import json
import os
import pathlib
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from lazytensor.errors import LazyError

CHECK_COMMAND = "from cstorch_compat.check.check_command import print_report_as_json; print_report_as_json()"


@dataclass(frozen=True)
class CheckReport:
    """The result of a check. `text` is the printed report; `details` holds the keys of `lazywafer check --json`."""

    text: str
    details: dict[str, Any]

    @property
    def status(self) -> int:
        """0 if nothing is refused, 1 if something is, 2 if the script itself fails or has no step to check."""
        return int(self.details["status"])

    @property
    def findings(self) -> list[dict[str, Any]]:
        """The findings as dicts, most severe first."""
        return list(self.details["findings"])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<check of {self.details['script']}: {self.details['verdict']}>"

    def _repr_html_(self) -> str:
        """Return the verdict as a paragraph and a table with one row per missing name and finding."""
        missing = [
            ("missing", m["name"], m["places"][0]["line"], "", m["way_out"]) for m in self.details["missing_names"]
        ]
        listed = [
            (f["severity"], f["id"], f["line"], f["source_line"], f"{f['title']}: {f['way_out']}")
            for f in self.findings
        ]
        rows = [
            f"<tr><td>{severity}</td><td>{name}</td><td>{line}</td><td style='text-align:left'><code>{code}</code></td>"
            f"<td style='text-align:left'>{advice}</td></tr>"
            for severity, name, line, code, advice in (map(_escape_html, row) for row in (*missing, *listed))
        ]
        table = f"<table>{''.join(rows)}</table>" if rows else ""
        return f"<p><b>{_escape_html(self.details['verdict'])}</b></p>{table}"


def _escape_html(value: Any) -> str:
    return html.escape(str(value or ""))


def check(path: str | os.PathLike[str], *args: str, api: str | None = None) -> CheckReport:
    """Check a script like `lazywafer check PATH ARGS` in a child process and return the report.

    `path` is the Python file, `args` are its command-line arguments, and `api` is the release of the Cerebras API that
    it was written for (None: the current one). Raises LazyError if there is no such file or the child process fails.

    >>> check("nowhere.py")
    Traceback (most recent call last):
        ...
    lazytensor.errors.LazyError: the script nowhere.py does not exist
      Pass the path of a Python file.
    """
    script = pathlib.Path(path)
    if not script.is_file():
        raise LazyError(f"the script {script} does not exist", hint="Pass the path of a Python file.")
    # The child process must find this package where the parent found it, besides the folders of PYTHONPATH.
    house = str(pathlib.Path(__file__).parents[2])
    folders = filter(None, (os.environ.get("PYTHONPATH"), house))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    asked = json.dumps({"path": str(script), "args": list(args), "api": api})
    done = subprocess.run(
        [sys.executable, "-c", CHECK_COMMAND, asked], env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LazyError(f"the check of {script} failed with status {done.returncode}", hint=done.stderr.strip()[-2000:])
    text, details = json.loads(done.stdout.splitlines()[-1])
    return CheckReport(text, details)
