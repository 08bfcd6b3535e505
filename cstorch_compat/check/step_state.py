"""Check what a step leaves after it: state that is created inside the step, and the arguments of its closures."""

import inspect
from collections.abc import Iterable
from typing import Any

from cstorch_compat.check.findings import Findings
from cstorch_compat.check.origins import is_weight_name
from cstorch_compat.files.tree import flatten
from cstorch_compat.run import process
from cstorch_compat.run.closures import ClosureCall
from lazytensor.core.dtype import cbfloat16
from lazytensor.core.storage import Storage
from lazytensor.ir.types import Where


def examine_state(findings: Findings, late: Iterable[tuple[str, Storage]], results: Iterable[Any]) -> None:
    """Add a finding for each storage of `late`, as `find_late_state` returns them, that is not one of the `results`."""
    returned = {id(t.cell) for r in results for _, t in flatten(r)}
    for name, cell in late:
        # Results are created in the step on purpose.
        if id(cell) not in returned and cell.node is not None:
            findings.add("state in step", cell.node.where, detail=f"{name}, created as {cell.type}")


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
        taken = [t.cell for v in call.arguments().values() for _, t in flatten(v)]
        weights = [cell.state for cell in taken if cell.home is not None and is_weight_name(cell.state)]
        if weights and not call.needs_checkpoint:
            findings.add("weights in closure", place, name, f"takes {weights[0]}")
