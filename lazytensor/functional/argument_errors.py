"""Errors for invalid arguments of public functions, raised as the package's own classes with the user's line.

A successful call costs one comparison of argument types. If a function fails, its arguments are compared with its
signature, and an argument of a wrong type is reported. Otherwise an error of the package is raised unchanged, and an
error of Python or NumPy is replaced by one of the package.
"""

import collections.abc
import functools
import inspect
import itertools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from lazytensor.core import source, storage
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor
from lazytensor.errors import (
    ArgumentInvalid,
    LazyError,
    MemoryMissing,
    NumberMissing,
    NumberTooLarge,
    ShapeError,
    TensorMissing,
)
from lazytensor.functional.argument_kinds import is_mismatched, matching_types
from lazytensor.functional.type_promotion import python_number

F = TypeVar("F", bound=Callable[..., Any])
_PYTHON_ERRORS = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
"""Exceptions that Python and NumPy raise for operands that they cannot process."""
_FUNCTIONS_CALLING_USER_CODE = ("backward_of", "apply_", "map_", "triplet_margin_with_distance_loss")
"""Functions that call user functions, such as hooks. Python exceptions raised in them reach the user unchanged."""
public_namespaces: list[Mapping[str, Any]] = []
"""The names of the package and of nn.functional, which the package adds. These modules import this one."""
_INT64_LIMIT = 1 << 63
_SEQUENCE_TYPES = (collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection, list, tuple)


def guard_arguments(function: F, place: str | None = "F.") -> F:
    """Return `function` wrapped so that invalid arguments raise LazyError subclasses that name the user's line.

    `place` is the prefix of the function in PyTorch: "" for torch, "F." for torch.nn.functional. None stands for a
    method of Tensor, whose arguments are not checked before the call.

    The wrapper first checks argument kinds against the table of `argument_kinds`, if it has the function. A mismatch
    raises the error of `_signature_error` or `_combination_error`. If the call fails and an argument has PyTorch's
    method `__torch_function__`, the wrapper returns its result. If another call fails, the wrapper retries with
    positional NumPy numbers and one-element integer tensors converted to Python numbers. If there are none, it raises
    the error that `_error_for` returns, or the original one.
    """

    name = "" if place is None else place + function.__name__
    fitting = matching_types(name)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if fitting is not None:
            # Most calls have one or two arguments. This expression avoids a function call for them.
            n = len(args)
            types = (n, args[0].__class__, args[-1].__class__) if 0 < n < 3 else tuple(map(type, args))
            if types not in fitting and is_mismatched(name, args, kwargs, types):
                if (overrider := _find_overrider(args, kwargs)) is not None:
                    return _call_override(overrider, checked, args, kwargs)
                kind = NumberMissing if any(isinstance(v, Tensor) for v in args[1:]) else ArgumentInvalid
                raise _signature_error(function, args, kwargs) or _combination_error(function, args, kwargs, kind)
        try:
            return function(*args, **kwargs) if kwargs else function(*args)
        except (LazyError, *_PYTHON_ERRORS) as e:
            if (overrider := _find_overrider(args, kwargs)) is not None:
                return _call_override(overrider, checked, args, kwargs)
            if plain := _convert_numbers(function, args):
                return checked(*plain, **kwargs)
            error = _error_for(function, args, kwargs, e)
            try:
                if error is None:
                    raise
                raise error from e
            finally:
                # The traceback of the error refers to this frame. The reference cycle would keep the tensors of the
                # call alive.
                del error

    return typing.cast(F, checked)


def _find_overrider(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the first argument, or member of a list or tuple, with the method `__torch_function__`; None without one.

    Tensors do not count.
    """
    for value in (*args, *kwargs.values()):
        for member in value if isinstance(value, list | tuple) else (value,):
            if hasattr(type(member), "__torch_function__") and not isinstance(member, Tensor):
                return member
    return None


def _call_override(overrider: Any, function: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> Any:
    """Return `overrider.__torch_function__(function, types, args, kwargs)`, as PyTorch does for objects like tensors.

    The function that is passed is the public one. Raises ArgumentInvalid, a TypeError, if the method returns
    NotImplemented.
    """
    answer = type(overrider).__torch_function__(
        _find_public_function(function), (type(overrider),), tuple(args), kwargs
    )
    if answer is NotImplemented:
        raise ArgumentInvalid(
            f"no implementation found for '{function.__name__}' on types that implement __torch_function__: "
            f"[{type(overrider).__name__}]",
            where=source.where(),
            hint="Pass tensors, or add the function to the __torch_function__ of the class.",
        )
    return answer


def _find_public_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of the package or of `nn.functional` that wraps `function`, or `function` itself.

    Classes compare it with names such as `torch.stack`.
    """
    bare = inspect.unwrap(function)
    found = (names.get(function.__name__) for names in public_namespaces)
    return next((f for f in found if f is not None and inspect.unwrap(f) is bare), function)


def _error_for(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], error: Exception
) -> LazyError | None:
    """Return the error to raise in place of `error`, which a call of `function` raised; None to raise `error` itself.

    `args` and `kwargs` are the arguments of the call. None is returned for refusals of the wafer, for other errors of
    the package whose arguments fit the signature, and for functions that call user code. Otherwise the error is the
    first that applies: an argument that does not match its annotation, an integer beyond 64 bits (NumberTooLarge), a
    result larger than the memory (MemoryMissing), wrong argument names or numbers, or the list of all argument types.
    The last is ArgumentInvalid for TypeError and AttributeError, else ShapeError.
    """
    # A refusal of the wafer does not mean that the arguments are wrong.
    if isinstance(error, LazyError) and error.is_refusal:
        return None
    is_ours = isinstance(error, LazyError)
    if (not is_ours or isinstance(error, ShapeError)) and (misfit := _signature_error(function, args, kwargs)):
        return misfit
    if not isinstance(error, NumberTooLarge) and any(map(_exceeds_int64, (*args, *kwargs.values()))):
        text = f"{function.__name__}(): Overflow when unpacking long long"
        return NumberTooLarge(text, where=source.where(), hint="Pass a number that fits in 64 bits.")
    if is_ours or function.__name__ in _FUNCTIONS_CALLING_USER_CODE:
        return None
    if isinstance(error, MemoryError) or "array is too big" in str(error):
        return MemoryMissing(f"{function.__name__}(): the result is larger than any memory", 0, where=source.where())
    kind = ArgumentInvalid if isinstance(error, TypeError | AttributeError) else ShapeError
    return _arity_error(function, args, kwargs) or _combination_error(function, args, kwargs, kind)


def _arity_error(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> LazyError | None:
    """Return the ArgumentInvalid for missing, surplus or unknown arguments of a call; None if all bind.

    The types of the arguments are not considered.
    """
    try:
        inspect.signature(inspect.unwrap(function)).bind(*args, **kwargs)
    except TypeError as e:
        text = f"{function.__name__}(): {e}"
        return ArgumentInvalid(
            text, where=source.where(), hint=f"Compare the arguments with help({function.__name__})."
        )
    return None


def _convert_numbers(function: Callable[..., Any], args: Sequence[Any]) -> Sequence[Any]:
    """Return the positional arguments `args` with NumPy numbers and one-element integer tensors as Python numbers.

    A parameter annotated as an array, tensor or `object` keeps its argument. Tensors also stay as they are inside a
    step. Returns () if nothing was converted.
    """
    bare = inspect.unwrap(function)
    hints = typing.get_type_hints(bare)
    of_places = [hints.get(name) for name in inspect.signature(bare).parameters]
    plain = [_python_number(v, hint) for v, hint in itertools.zip_longest(args, of_places[: len(args)])]
    return plain if any(a is not b for a, b in zip(plain, args, strict=True)) else ()


def _python_number(value: Any, hint: Any) -> Any:
    if isinstance(value, np.generic) and hint is not np.ndarray and hint is not object:
        return python_number(value)
    is_integer = isinstance(value, Tensor) and value.spec.size == 1 and value.dtype.kind == "i"
    # A tensor has no value while a step is traced.
    return int(value) if is_integer and not _takes_tensors(hint) and storage.thread_state.current is None else value


def _takes_tensors(hint: Any) -> bool:
    return hint in (None, Any, Tensor, object) or any(map(_takes_tensors, typing.get_args(hint)))


def _signature_error(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> LazyError | None:
    """Return the error for the first argument whose type does not match its annotation.

    Returns None if all arguments match, or if they do not bind to the signature.
    """
    bare = inspect.unwrap(function)
    signature = inspect.signature(bare)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return None  # wrong number or names of arguments: `_arity_error` reports it
    hints = typing.get_type_hints(bare)
    for at, (name, value) in enumerate(given.items(), 1):
        # The annotation of `*sizes` applies to each of its values.
        is_many = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        for v in value if is_many else (value,):
            if name in hints and not _fits(v, hints[name]):
                return _argument_error(function.__name__, "input" if at == 1 else name, at, hints[name], v)
    return None


def _combination_error(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], kind: type[LazyError]
) -> LazyError:
    """Return an error of class `kind` that lists the types of all arguments of the call."""
    kinds = ", ".join([*map(_argument_text, args), *(f"{k}={_argument_text(v)}" for k, v in kwargs.items())])
    text = f"{function.__name__}() received an invalid combination of arguments - got ({kinds})"
    return kind(text, where=source.where(), hint="Check the shapes, types and numbers of the arguments.")


def _argument_text(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"Tensor {value.spec}"
    return repr(value) if isinstance(value, int | float) else type(value).__name__


def _fits(value: Any, hint: Any) -> bool:
    """Return whether `value` matches the annotation `hint`.

    Annotations that this function does not handle match everything. An int also matches NumPy integers and one-element
    tensors that are not floating-point. A float matches every real number and every one-element tensor. A sequence
    matches every iterable except strings and tensors; its elements are checked, those of an iterator are not.
    """
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, m) for m in members)
    if hint is None or hint is type(None):
        return value is None
    if hint is int:
        return isinstance(value, int | np.integer) or (_is_number(value) and value.dtype.kind != "f")
    if hint is float:
        return isinstance(value, int | float | np.number) or _is_number(value)
    if hint in (Tensor, str, DType):
        return isinstance(value, hint)
    if (origin or hint) in _SEQUENCE_TYPES:
        inner = members[0] if members else Any
        return (
            isinstance(value, collections.abc.Iterable)
            and not isinstance(value, str | Tensor)
            and (isinstance(value, collections.abc.Iterator) or all(_fits(v, inner) for v in value))
        )
    return True


def _is_number(value: Any) -> bool:
    """Return whether `value` is a tensor with one element, which may replace a number."""
    return isinstance(value, Tensor) and value.spec.size == 1


def _argument_error(name: str, parameter: str, at: int, hint: Any, value: Any) -> LazyError:
    text = f"{name}(): argument '{parameter}' (position {at}) must be {_hint_name(hint)}, not {type(value).__name__}"
    # PyTorch's exception class depends on whether it parses the argument, reads its value or calls a method of it.
    kind = TensorMissing if hint is Tensor else NumberMissing if isinstance(value, Tensor) else ArgumentInvalid
    return kind(text, where=source.where(), hint=f"Pass {_hint_name(hint)} for this argument.")


def _hint_name(hint: Any) -> str:
    """Return PyTorch's name of the type `hint` for an error message, such as "Number" or "tuple of ints".

    The members of a union are joined by "or", without None.
    """
    members = [m for m in typing.get_args(hint) if m is not type(None)]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_hint_name, members)))
    if (typing.get_origin(hint) or hint) in _SEQUENCE_TYPES:
        return f"tuple of {_hint_name(members[0])}s" if members else "tuple"
    return {DType: "torch.dtype", float: "Number"}.get(hint, getattr(hint, "__name__", "another type"))


def _exceeds_int64(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_exceeds_int64, value))
    return isinstance(value, int) and not -_INT64_LIMIT <= value < _INT64_LIMIT
