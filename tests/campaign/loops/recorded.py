"""Reads and writes the real package's answers to loops, which are recorded in tests/golden/loops.json."""

import json
import pathlib
from typing import Any

from tests.campaign.loops.drawing import Loop
from tests.campaign.loops.explaining import REAL_DEFECTS
from tests.campaign.loops.rendering import script
from tests.campaign.loops.serving import Answer

GOLDEN = pathlib.Path(__file__).parents[2] / "golden" / "loops.json"
BACKENDS = ("CPU", "V")
"""The backends whose answers are recorded: the CPU, and CSX with validate_only."""
DIGITS = 7
"""Digits of a number that are kept; float32 has as many."""


def has_defect(answer: Answer) -> bool:
    """Tell whether a defect of the real package ended a script."""
    return any(text in answer.text for text in REAL_DEFECTS)


def written(answer: Answer, text: str) -> dict[str, Any]:
    """Return an answer for the file: numbers rounded, and the line of an error by its text."""
    error = answer.error
    if error is not None:
        line = text.splitlines()[error["line"] - 1] if error["line"] else ""
        error = {"type": error["type"], "line": line}
    return {"lines": _rounded(answer.lines), "error": error}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def recorded() -> dict[str, tuple[Loop, dict[str, Answer]]]:
    """Return the recorded loops by name, each with the answers by backend."""
    entries = json.loads(GOLDEN.read_text()).items()
    return {name: (e["loop"], {b: _answer(e["loop"], e[b]) for b in BACKENDS if b in e}) for name, e in entries}


def _answer(loop: Loop, written: dict[str, Any]) -> Answer:
    error = written["error"]
    if error is not None:
        error = {**error, "line": script(loop).splitlines().index(error["line"]) + 1, "text": ""}
    return Answer(written["lines"], error)
