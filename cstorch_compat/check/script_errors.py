"""Classify the exceptions of a checked script."""

import traceback

from cstorch_compat.check.findings import Findings
from lazytensor.errors import NameMissing, OptionMissing
from lazytensor.ir.types import Where


def add_api_error(findings: Findings, e: BaseException, place: Where | None) -> bool:
    """Add a finding for an error that the Cerebras API has raised, or for a missing name or option.

    Returns False, and adds nothing, for any other exception. `place` is the user's line, by default the running one.
    """
    if isinstance(e, NameMissing | OptionMissing):
        findings.add("missing here", place, type(e).__name__, e.what, e.hint)
        return True
    if not _is_api_error(e):
        return False
    # The error may follow from a refusal of the same line, which the check has ignored to continue.
    if place is None or not any(f.rule.severity == "refused" for f in findings.at(place)):
        findings.add("api", place, type(e).__name__, first_line(e))
    return True


def _is_api_error(e: BaseException) -> bool:
    """Return whether `e` was raised by the emulated Cerebras API, which raises the same error on the system."""
    # Test the frame that raised it: user code may raise the same error type.
    innermost = [f for f, _ in traceback.walk_tb(e.__traceback__)][-1]
    name = innermost.f_globals.get("__name__", "")
    return name.startswith("cstorch_compat.") and not name.startswith(("cstorch_compat.names", "cstorch_compat.check"))


def first_line(e: BaseException) -> str:
    """Return the first line of the text of `e`, or "" if it has none."""
    return str(e).strip().splitlines()[0] if str(e).strip() else ""
