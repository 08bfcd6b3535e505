"""Examines what a step leaves behind: state that was born in it, and what its closures take."""

import inspect
from collections.abc import Iterable
from typing import Any

from cstorch_compat.check.findings import Findings
from cstorch_compat.common.closures import Call
from cstorch_compat.common.tree import flatten
from cstorch_compat.generations.cstorch.backends import csx
from lazytensor.dtype import cbfloat16
from lazytensor.ir.types import Where
from lazytensor.nn import Module
from lazytensor.optim.optimizer import alive
from lazytensor.tensor import Tensor
from lazytensor.trace import Capture


def examine_state(found: Findings, capture: Capture, results: Iterable[Any], modules: Iterable[Module]) -> None:
    """Note the tensors that were made in the step and are kept by an optimizer or a module."""
    returned = {id(t.cell) for r in results for _, t in flatten(r)}
    born = {id(c) for r in capture.born if (c := r()) is not None}
    for owner, name, t in (*_of_optimizers(), *_of_modules(modules)):
        n = t.cell.node
        if id(t.cell) in born and t.cell.epoch is capture and not t.cell.home and id(t.cell) not in returned:
            found.add("state in step", n.where if n is not None else None, f"{owner}{name}", f"made as {t.spec}")


def _of_optimizers() -> list[tuple[str, str, Tensor]]:
    return [
        (type(o).__name__, f".state[...][{name!r}]", value)
        for o in alive()
        for state in o.state.values()
        for name, value in state.items()
        if isinstance(value, Tensor)
    ]


def _of_modules(modules: Iterable[Module]) -> list[tuple[str, str, Tensor]]:
    mine = [m for m in modules if not type(m).__module__.startswith(("lazytensor.", "cstorch_compat."))]
    held = [(m, name, value) for m in mine for name, value in {**m._buffers, **vars(m)}.items()]
    return [(type(m).__name__, f".{name}", value) for m, name, value in held if isinstance(value, Tensor)]


def rates() -> list[tuple[str, float]]:
    """The learning rates that are Python numbers, of all optimizers."""
    groups = [(o, g) for o in alive() for g in o.param_groups]
    return [(type(o).__name__, g["lr"]) for o, g in groups if isinstance(g.get("lr"), int | float)]


def examine_closures(found: Findings, calls: list[Call], executor: Any) -> None:
    """Note closures that need weights off checkpoint steps, and checkpoint closures that never run."""
    for call in calls:
        name = getattr(call.function, "__name__", "a closure")
        code = inspect.unwrap(call.function).__code__ if hasattr(call.function, "__code__") else None
        place = Where(code.co_filename, code.co_firstlineno) if code is not None else None
        if call.needs_checkpoint and not executor.checkpoint_steps:
            found.add("closure never runs", place, name)
        for _, t in flatten(list(call.arguments().values())):
            if t.dtype is cbfloat16 and not csx.debug.implicit_cast_cb16_to_fp32:
                found.add("cb16 fetched", call.where, name, f"{t.spec}")
        held = [t.cell.state for v in call.arguments().values() for _, t in flatten(v) if t.cell.home is not None]
        if held and not call.needs_checkpoint:
            found.add("weights in closure", place, name, f"takes {held[0]}")
