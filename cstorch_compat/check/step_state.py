"""Check what a step leaves after it: state that is created inside the step, and the arguments of its closures."""

import inspect
from collections.abc import Iterable
from typing import Any

from cstorch_compat.check.findings import Findings
from cstorch_compat.files.tree import flatten
from cstorch_compat.run import process
from cstorch_compat.run.closures import ClosureCall
from cstorch_compat.run.state_checks import find_late_state
from lazytensor.core.capture import Capture
from lazytensor.core.dtype import cbfloat16
from lazytensor.ir.types import Where
from lazytensor.optim.traced.optimizer import alive


def examine_state(findings: Findings, capture: Capture, results: Iterable[Any]) -> None:
    """Add a finding for each tensor that is created in the step, should be state, and is not one of the `results`."""
    returned = {id(t.cell) for r in results for _, t in flatten(r)}
    for name, cell in find_late_state(capture):
        # Results are created in the step on purpose.
        if id(cell) not in returned and cell.node is not None:
            findings.add("state in step", cell.node.where, detail=f"{name}, created as {cell.type}")


def list_learning_rates() -> list[tuple[str, float]]:
    """Return the optimizer class name and learning rate of each parameter group whose rate is a Python number."""
    groups = [(o, g) for o in alive() for g in o.param_groups]
    return [(type(o).__name__, g["lr"]) for o, g in groups if isinstance(g.get("lr"), int | float)]


def examine_closures(findings: Findings, calls: list[ClosureCall], executor: Any) -> None:
    """Add findings for the step closures in `calls`.

    Reported are: checkpoint closures of a loop without checkpoint steps, cbfloat16 arguments unless they are cast
    implicitly, and step closures that take weights. `executor` is the running DataExecutor.
    """
    for call in calls:
        name = getattr(call.function, "__name__", "a closure")
        # Unwrap the decorator to get the line of the user's function.
        code = inspect.unwrap(call.function).__code__ if hasattr(call.function, "__code__") else None
        place = Where(code.co_filename, code.co_firstlineno) if code is not None else None
        if call.needs_checkpoint and not executor.checkpoint_steps:
            findings.add("closure never runs", place, name)
        for _, t in flatten(list(call.arguments().values())):
            if t.dtype is cbfloat16 and not process.RUN.flags.debug.implicit_cast_cb16_to_fp32:
                findings.add("cb16 fetched", call.where, name, f"{t.spec}")
        weights = [t.cell.state for v in call.arguments().values() for _, t in flatten(v) if t.cell.home is not None]
        if weights and not call.needs_checkpoint:
            findings.add("weights in closure", place, name, f"takes {weights[0]}")
