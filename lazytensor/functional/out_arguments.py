"""PyTorch's keywords of public functions: `out=`, and the names `input` and `other` for the operands.

Functions are written without them; `public` adds them by a wrapper. It does nothing if no keyword is given.
"""

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from lazytensor.core import source
from lazytensor.core.overlapping_views import refuse_overlap, refuse_shared
from lazytensor.core.tensor import Tensor, is_grad_enabled, wrap
from lazytensor.errors import ArgumentInvalid, AutogradError, ShapeError
from lazytensor.functional.autocast_rules import publish
from lazytensor.functional.creation_options import accept_creation_options, has_creation_options
from lazytensor.functional.in_place import assign
from lazytensor.functional.numpy_argument_names import alternative_names, rename_arguments
from lazytensor.functional.out_argument_names import FUNCTIONS_WITHOUT_OUT, PARAMETERS_REQUIRED_BY_OUT
from lazytensor.ops.elementwise import cast

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


ELEMENTWISE_MODULES = frozenset(("pointwise", "pointwise_special", "pointwise_ternary"))
"""Modules of elementwise functions. Their `out` may share all elements with an operand, but not only some."""
GATHERING_FUNCTIONS = frozenset(("cat", "concat", "concatenate", "stack", "gather", "index_select", "take"))
"""Functions whose `out` must not share elements with an operand."""


class Public(Protocol[P, R]):
    """The type of a public function: its signature, and the keywords that every public function accepts."""

    __name__: str

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __call__(self, *args: Any, out: Tensor | Sequence[Tensor], **kwargs: Any) -> R: ...
    @overload
    def __call__(self, *args: Any, input: Any, **kwargs: Any) -> R: ...
    @overload
    def __call__(self, *args: Any, other: Any, **kwargs: Any) -> R: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""


def public(function: Callable[P, R], has_out: bool | None = None) -> Public[P, R]:
    """Return `function` as the package publishes it.

    The wrapper adds argument checks, automatic casts, refusals of the wafer, `out=`, and PyTorch's names of the
    operands. Functions that create tensors also accept keywords such as `layout` and `pin_memory`. `has_out` is that of
    `accept_torch_names`.
    """
    # One cast serves all functions: the wrapper passes every other argument on.
    published = accept_torch_names(publish(function, place=""), has_out)
    parameters = inspect.signature(function).parameters
    if has_creation_options(function.__name__, parameters):
        published = accept_creation_options(published, parameters)
    return typing.cast(Public[P, R], published)


def accept_torch_names(function: Callable[..., Any], has_out: bool | None = None) -> Callable[..., Any]:
    """Return `function` wrapped to accept `out=` and PyTorch's names of the first two operands.

    `has_out` states whether the function accepts `out=`. None stands for the tables of `out_argument_names`. A call
    with an `out=` that PyTorch refuses raises ArgumentInvalid (a TypeError).

    A function that has a parameter `out` is returned itself. With `out=`, the result is written to `out`, in its dtype,
    and `out` is returned; several results are written to a tuple of tensors, which are returned in a new tuple. An
    empty `out` takes the shape of the result. The call raises AutogradError if an argument requires a gradient while
    gradients are recorded, and ShapeError if `out` has another shape, if its dtype cannot hold the result, or if it
    overlaps an operand in a way that PyTorch refuses.
    """
    # Inspected once, when the function is published, and not at each call.
    parameters = list(inspect.signature(function).parameters.values())
    if any(p.name == "out" for p in parameters):
        return function
    name = function.__name__
    if has_out is None:
        has_out = name not in FUNCTIONS_WITHOUT_OUT
    required = PARAMETERS_REQUIRED_BY_OUT.get(name)
    renamed = alternative_names(function)
    is_elementwise = function.__module__.rpartition(".")[2] in ELEMENTWISE_MODULES
    refuse = refuse_shared if name in GATHERING_FUNCTIONS else refuse_overlap if is_elementwise else None

    @functools.wraps(function)
    def offered(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            return function(*args)
        if "out" in kwargs and not (has_out and (required is None or _has_argument(required, args, kwargs))):
            raise _unexpected_out(name)
        out = kwargs.pop("out", None)
        rename_arguments(renamed, kwargs)
        if out is None:
            return function(*args, **kwargs)
        _refuse_gradient(name, args, kwargs, out)
        result = function(*args, **kwargs)
        if refuse is not None and isinstance(out, Tensor):
            refuse(out, *_tensors(args))
        return _write_results(result, out)

    return offered


def _has_argument(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return name in kwargs or (name == "dim" and len(args) > 1)


def _unexpected_out(name: str) -> ArgumentInvalid:
    return ArgumentInvalid(
        f"{name}() got an unexpected keyword argument 'out'",
        where=source.where(),
        hint="Use the returned tensor, or copy it with out.copy_(...).",
    )


def _tensors(args: Sequence[Any]) -> list[Tensor]:
    """Return the tensors among `args`, including those in lists and tuples."""
    given = [t for v in args for t in (v if isinstance(v, tuple | list) else (v,))]
    return [t for t in given if isinstance(t, Tensor)]


def _refuse_gradient(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> None:
    """Raise AutogradError if gradients are recorded and an argument or `out` requires a gradient."""
    # Also inside lists, as `cat` receives its tensors.
    given = [*args, *kwargs.values(), *(out if isinstance(out, tuple | list) else (out,))]
    given += [t for v in given if isinstance(v, tuple | list) for t in v]
    if is_grad_enabled() and any(isinstance(v, Tensor) and v.requires_grad for v in given):
        raise AutogradError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad.",
            where=source.where(),
            hint="Call it inside torch.no_grad(), or use the returned tensor instead of out.",
        )


def _write_results(value: Any, out: Any) -> Any:
    """Write `value` to `out`, and return the tensors of `out` in the structure of `value`.

    For a tensor, `out` is a tensor and is returned itself. For a tuple, namedtuple or list, `out` is a tuple or list of
    as many tensors. These are then returned in a new object of the class of `value`, as PyTorch does.

    Raises ArgumentInvalid (a TypeError) if `out` has another structure.
    """
    if isinstance(value, Tensor):
        return _write_result(value, out)
    if not isinstance(value, tuple | list) or not isinstance(out, tuple | list) or len(value) != len(out):
        kind = f"{type(out).__name__} of {len(out)}" if isinstance(out, tuple | list) else type(out).__name__
        raise ArgumentInvalid(
            f"out= must be {_expected_out_text(value)}, not a {kind}",
            where=source.where(),
            hint="Pass an out of this kind, or omit it.",
        )
    written = [_write_result(v, o) for v, o in zip(value, out, strict=True)]
    # Named tuples keep their class: `torch.max(x, 0, out=...)` has `.values`.
    return type(value)(*written) if hasattr(value, "_fields") else type(value)(written)


def _expected_out_text(value: Any) -> str:
    return (
        f"a tuple of {len(value)} tensors"
        if isinstance(value, tuple | list)
        else "None for a result that is not a tensor"
    )


def _write_result(value: Tensor, out: Any) -> Tensor:
    """Write `value` to the tensor `out` and return it. An empty `out` that is no view takes the shape of `value`.

    Raises ArgumentInvalid (a TypeError) if `out` is no tensor, and ShapeError for another shape or if its dtype cannot
    hold the result.
    """
    if not isinstance(out, Tensor):
        raise ArgumentInvalid(
            f"out= must be a Tensor, not {type(out).__name__}", where=source.where(), hint="Pass a tensor, or omit out."
        )
    if out.spec.size or not value.spec.size or out.view_ops:
        return assign(out, value)
    # An empty tensor is resized to the shape of the result, as in PyTorch. No alias can observe it.
    if out.dtype.kind != "f" and value.dtype.kind not in (out.dtype.kind, "b"):
        raise ShapeError(
            f"result type {value.dtype.name} can't be cast to the desired output type {out.dtype.name}",
            where=source.where(),
            hint="Pass an output with the dtype of the result.",
        )
    out.cell, out._seen = wrap(cast(value.node, out.dtype)).cell, None
    return out
