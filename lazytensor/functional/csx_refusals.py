"""Refusals: errors for public functions that the vendor's front end refuses although this package can compute them.

`publish` wraps each public function and method with the rows of `csx_refused_names` that have its name. The rows apply
only while a step is traced for the wafer. Each row acts at one of four stages, as in the front end:

- "trace": the operation has no kernel; the call raises.
- "lowering": the call is traced, and its result cannot be lowered to CIRH if the step needs it.
- "backward": backward() raises when a gradient reaches the call.
- "gradient": the gradient of the call cannot be lowered if the step needs it.

Rows of the stage "remember" refuse nothing: they record results for which a later call is refused.

Errors go through `errors.refuse`, so that `lazywafer check` can collect them and continue.
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
"""The rule name under which `lazywafer check` reports a refusal, by stage."""


def raise_refusal(row: Refusal) -> None:
    """Raise the CompileError of `row` at the user's line, or report it if `lazywafer check` is collecting refusals."""
    error = CompileError(row.message, where=source.where(), hint=row.hint)
    refuse(row.rule or RULES_BY_STAGE[row.stage], error, row.operation)


def with_refusals(name: str, function: F) -> F:
    """Return `function` wrapped with the refusals of the public name `name`; `function` itself if there are none.

    The wrapper does nothing outside a step for the wafer. Inside one, the first row of the stage "trace" that applies
    raises CompileError at the call; rows of other stages mark the result. If `lazywafer check` is collecting refusals,
    the error is only reported and the call goes on.
    """
    rows = REFUSALS.get(name, ())
    if not rows:
        return function
    parameters = inspect.signature(inspect.unwrap(function))

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        # A half type is set only in a step for the wafer. On the host every function runs.
        if half_type() is None:
            return function(*args, **kwargs)
        applying = [row for row in rows if row.when is None or row.when(_bind_arguments(parameters, args, kwargs))]
        traced = [row for row in applying if row.stage == "trace"]
        if not traced:
            result = function(*args, **kwargs)
        else:
            raise_refusal(traced[0])
            # A check continues here. The operations of the call are marked as reported, so that lowering does not
            # report them again.
            with source.fixed_location(replace(source.where(), operation=REPORTED_OPERATION)):
                result = function(*args, **kwargs)
        for row in applying:
            if row.stage != "trace":
                result = _mark_result(result, row, name)
        return result

    return cast(F, wrapped)


def refuse_call(name: str, **arguments: Any) -> None:
    """Raise the first refusal of `name` that applies to the keyword `arguments`, in a step for the wafer only.

    Internal functions use it in place of `with_refusals`.
    """
    if half_type() is not None:
        for row in REFUSALS[name]:
            if row.when is None or row.when(arguments):
                raise_refusal(row)
                return


def refuse_result(name: str, result: Any) -> Any:
    """Return `result` marked with the refusals of `name`; unchanged outside a step for the wafer.

    The marks raise when the result is lowered or differentiated. Internal functions use it in place of `with_refusals`.
    """
    if half_type() is not None:
        for row in REFUSALS[name]:
            result = _mark_result(result, row, name)
    return result


def _bind_arguments(parameters: inspect.Signature, args: Any, kwargs: Any) -> Mapping[str, Any]:
    """Return the arguments of a call by parameter name, with defaults.

    If they do not bind to `parameters`, positional arguments are paired in order and keyword arguments keep their
    names.
    """
    try:
        bound = parameters.bind_partial(*args, **kwargs)
    except TypeError:
        return {**dict(zip(parameters.parameters, args, strict=False)), **kwargs}
    bound.apply_defaults()
    return bound.arguments


def _mark_result(result: Any, row: Refusal, name: str) -> Any:
    """Return `result` with the refusal `row` added to the graph of each of its tensors.

    The refusal acts only if the step needs the tensor, or its gradient. Tuples, named tuples and lists keep their
    class. Other objects are returned unchanged.
    """
    if isinstance(result, Tensor):
        return wrap(_mark_node(operand_node(result), row, name), result.device)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*(_mark_result(r, row, name) for r in result))
    return type(result)(_mark_result(r, row, name) for r in result) if isinstance(result, tuple | list) else result


def _unsupported_node(n: Node, row: Refusal, name: str) -> Node:
    rule, place = row.rule or RULES_BY_STAGE[row.stage], str(source.where())
    return call("unsupported", n, message=row.message, hint=row.hint, rule=rule, function=name, place=place)


def _mark_node(n: Node, row: Refusal, name: str) -> Node:
    """Return `n` with the refusal `row` attached, by the stage of the row.

    "lowering" adds an operation that lowering refuses. "remember" adds a float32 node to `remembered_results` and
    returns `n`. "backward" raises when the gradient of `n` is computed, and "gradient" makes lowering refuse the
    gradient; both return `n` unchanged if it requires no gradient.
    """
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
