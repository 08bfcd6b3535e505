"""What the vendor's front end refuses of public functions that this package can compute.

`publish` wraps each public function and method by the rows of `csx_refused_names` that have its name. The rows apply
only while a step is traced for the wafer. There a row acts at one of four stages, as the front end does:

- "trace": the operation has no kernel; the call raises.
- "lowering": the call is traced, and its result cannot be lowered to CIRH if the step needs it.
- "backward": backward() raises when a gradient reaches the call.
- "gradient": the gradient of the call cannot be lowered if the step needs it.

Rows of the stage "remember" refuse nothing: they note results for which a later call is refused.

Errors go through `errors.refuse`, so that `lazywafer check` collects them and goes on.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

from lazytensor.autograd.function import observe_gradient
from lazytensor.core import source
from lazytensor.core.autocast import half_type
from lazytensor.core.dtype import float32
from lazytensor.core.tensor import Tensor, operand_node, wrap
from lazytensor.errors import CompileError, refuse
from lazytensor.functional.csx_refused_names import REFUSALS, Refusal, remembered_results
from lazytensor.ir.graph import Node
from lazytensor.ir.types import REPORTED_OPERATION
from lazytensor.ops import call

F = TypeVar("F", bound=Callable[..., Any])
RULES_BY_STAGE: Mapping[str, str] = {
    "trace": "no kernel",
    "lowering": "no lowering",
    "backward": "no gradient",
    "gradient": "no gradient",
}
"""The rule of `lazywafer check` that reports a stage."""


def raise_refusal(row: Refusal) -> None:
    """Raise CompileError at the user's line, or report it to the check that listens."""
    error = CompileError(row.message, where=source.where(), hint=row.hint)
    refuse(row.rule or RULES_BY_STAGE[row.stage], error, row.operation)


def with_refusals(name: str, function: F) -> F:
    """Return `function` with the refusals of the public name `name`; the same function if there are none."""
    rows = REFUSALS.get(name, ())
    if not rows:
        return function
    parameters = inspect.signature(inspect.unwrap(function))

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        # Only a step traced for the wafer has a half type; on the host every function runs.
        if half_type() is None:
            return function(*args, **kwargs)
        applying = [row for row in rows if row.when is None or row.when(_bind_arguments(parameters, args, kwargs))]
        traced = [row for row in applying if row.stage == "trace"]
        if not traced:
            result = function(*args, **kwargs)
        else:
            raise_refusal(traced[0])
            # A check goes on here. What the call records has been reported, and is not reported again when lowered.
            with source.fixed_location(replace(source.where(), operation=REPORTED_OPERATION)):
                result = function(*args, **kwargs)
        for row in applying:
            if row.stage != "trace":
                result = _mark_result(result, row, name)
        return result

    return cast(F, wrapped)


def refuse_call(name: str, **arguments: Any) -> None:
    """Refuse an internal call by the trace rows of `name`, in a step for the wafer."""
    if half_type() is not None:
        for row in REFUSALS[name]:
            if row.when is None or row.when(arguments):
                raise_refusal(row)
                return


def refuse_result(name: str, result: Any) -> Any:
    """Return the result of an internal function, marked by the lowering refusals of `name` in a step for the wafer."""
    if half_type() is not None:
        for row in REFUSALS[name]:
            result = _mark_result(result, row, name)
    return result


def _bind_arguments(parameters: inspect.Signature, args: Any, kwargs: Any) -> Mapping[str, Any]:
    """Return the arguments by name, with defaults; PyTorch's other names for operands stay as they were given."""
    try:
        bound = parameters.bind_partial(*args, **kwargs)
    except TypeError:
        return {**dict(zip(parameters.parameters, args, strict=False)), **kwargs}
    bound.apply_defaults()
    return bound.arguments


def _mark_result(result: Any, row: Refusal, name: str) -> Any:
    """Return the result of a call with the refusal in its graph, which acts if the step needs the result."""
    if isinstance(result, Tensor):
        return wrap(_mark_node(operand_node(result), row, name), result.device)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*(_mark_result(r, row, name) for r in result))
    return type(result)(_mark_result(r, row, name) for r in result) if isinstance(result, tuple | list) else result


def _unsupported_node(n: Node, row: Refusal, name: str) -> Node:
    rule, place = row.rule or RULES_BY_STAGE[row.stage], str(source.where())
    return call("unsupported", n, message=row.message, hint=row.hint, rule=rule, function=name, place=place)


def _mark_node(n: Node, row: Refusal, name: str) -> Node:
    if row.stage == "lowering":
        return _unsupported_node(n, row, name)
    if row.stage == "remember":
        if n.type.dtype is float32:
            remembered_results.add(n)
        return n
    if not n.tracks:
        return n

    def report(g: Node) -> Node:
        if row.stage == "backward":
            raise_refusal(row)
            return g
        return _unsupported_node(g, row, name)

    return observe_gradient(n, report)
