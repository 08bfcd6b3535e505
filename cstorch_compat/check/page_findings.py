"""Check a script for its HTML report."""

from collections.abc import Sequence
from typing import Any

from cstorch_compat.check.in_process import check
from cstorch_compat.run.script import MODULE_PREFIX, STDIN_NAME
from lazytensor.errors import LazyError
from lazytensor.ir.program import Program

MAX_CHECKED_STATE_BYTES = 1 << 30
"""Maximum size of a step's state for which the report has findings. A check keeps all state in memory."""


def check_for_page(target: str, args: Sequence[str], api: str | None, program: Program) -> dict[str, Any]:
    """Check a script in a child process, and return "verdict", "findings" and "is_complete" for its HTML report.

    `target` is that of `script.target_name`, and `program` a step of the script. A module, standard input, and a script
    with more state than MAX_CHECKED_STATE_BYTES are not checked: the verdict is then the reason.
    """
    state_bytes = sum(program.buffers[first].type.nbytes for first, _ in program.state.values())
    if target == STDIN_NAME or target.startswith(MODULE_PREFIX):
        return _skip("only scripts in a file are checked.")
    if state_bytes > MAX_CHECKED_STATE_BYTES:
        return _skip(f"its state of {state_bytes / 1e9:.1f} GB takes long. Run `lazywafer check`.")
    try:
        report = check(target, *args, api=api)
    except LazyError as e:
        return _skip(e.what)
    found = report.details
    return {"verdict": found["verdict"], "findings": found["findings"], "is_complete": not found["crash"]}


def _skip(reason: str) -> dict[str, Any]:
    """Return the entry of a script that was not checked."""
    return {"verdict": f"The script was not checked: {reason}", "findings": [], "is_complete": False}
