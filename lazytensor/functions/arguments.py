"""What is said of an argument of a kind that a function has no use for, in PyTorch's words.

Nothing is asked before a call: the good path pays nothing. When a function fails with an error of Python's or NumPy's,
what it was given is compared with what its signature says, and what does not fit is named. Errors that the house raises
on purpose, and those of the user's own functions, stand.
"""

import collections.abc
import functools
import inspect
import itertools
import linecache
import re
import traceback
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from lazytensor import cells, source
from lazytensor.dtype import DType
from lazytensor.errors import (
    ArgumentInvalid,
    IndexInvalid,
    LazyError,
    MemoryMissing,
    NameMissing,
    NumberTooLarge,
    OptionInvalid,
    OptionMissing,
    ShapeError,
)
from lazytensor.functions.precedence import first_fault, next_fault
from lazytensor.functions.promotion import number_of
from lazytensor.functions.readings import flagged, misread, overflow, types_that_fit, unread
from lazytensor.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])
STRAY = (
    *(AttributeError, TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError, RecursionError, MemoryError),
)
"""What Python and NumPy raise for operands that they do not know."""
_OF_OPERANDS = (
    ShapeError,
    IndexInvalid,
    ArgumentInvalid,
    OptionInvalid,
    OptionMissing,
    NumberTooLarge,
    MemoryMissing,
    NameMissing,
)
"""What the house raises for operands of the wrong kind, shape or size."""
_LARGEST = 1 << 63
_NO_NUMBER = re.compile("cannot be converted to Scalar|Boolean value of Tensor")
_ARITY = re.compile(r"positional argument|unexpected keyword|multiple values for")
_LISTS = (collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection, list, tuple)


def guarded(function: F, place: str | None = "F.") -> F:
    """`function`, which names an argument that does not fit.

    `place` is where PyTorch has it: "" for torch itself, "F." for torch.nn.functional; None for a method of Tensor,
    which reads its arguments more freely.
    """

    name = "" if place is None else place + function.__name__
    fitting = types_that_fit(name)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            if fitting is not None:
                # One or two, as most calls have, without another call.
                n = len(args)
                types = (n, args[0].__class__, args[-1].__class__) if 0 < n < 3 else tuple(map(type, args))
                if types not in fitting and misread(name, args, kwargs, types):
                    raise _blamed(function, args, kwargs) or _unfit(function, args, kwargs, ArgumentInvalid)
            return function(*args, **kwargs) if kwargs else function(*args)
        except (LazyError, RuntimeError) as e:
            if plain := _plain(function, name, args):
                return checked(*plain, **kwargs)
            error = _earlier(function, name, args, kwargs, e)
            # A tensor in the place of a number: its many elements are not what is wrong.
            if error is None and isinstance(e, ShapeError):
                error = _misplaced(function, args, kwargs, e)
            if error is None or error is e:
                raise
            raise error from e
        except STRAY as e:
            if plain := _plain(function, name, args):
                return checked(*plain, **kwargs)
            stray = _blamed(function, args, kwargs) or _stray(function, args, kwargs, e)
            error = _earlier(function, name, args, kwargs, stray or e) or stray
            if error is None or error is e:
                raise
            raise error from e

    return typing.cast(F, checked)


def _plain(function: Callable[..., Any], name: str, args: Sequence[Any]) -> Sequence[Any]:
    """The arguments with numbers of NumPy and of tensors as Python's, for functions that ask for no others.

    Nothing if there are none.
    """
    if first_fault(name, args) or unread(name, args, {"": ()}) is not None or flagged(name, args):
        return ()
    bare = inspect.unwrap(function)
    hints = typing.get_type_hints(bare)
    of_places = [hints.get(name) for name in inspect.signature(bare).parameters]
    plain = [_number_for(v, hint) for v, hint in itertools.zip_longest(args, of_places[: len(args)])]
    return plain if any(a is not b for a, b in zip(plain, args, strict=True)) else ()


def _number_for(value: Any, hint: Any) -> Any:
    if isinstance(value, np.generic) and hint is not np.ndarray:
        return number_of(value)
    is_integer = isinstance(value, Tensor) and value.spec.size == 1 and value.dtype.kind == "i"
    # In a step there are no values to be had.
    return int(value) if is_integer and not _takes_tensors(hint) and cells.here.current is None else value


def _takes_tensors(hint: Any) -> bool:
    return hint in (None, Any, Tensor) or any(map(_takes_tensors, typing.get_args(hint)))


def _earlier(
    function: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any], error: Exception
) -> Exception | None:
    """The error about what PyTorch finds first, which may be `error` itself; None if it is not known to be another."""
    # What the wafer refuses is no fault of the arguments.
    is_of_operands = isinstance(error, (*_OF_OPERANDS, *STRAY)) or type(error) in (RuntimeError, NotImplementedError)
    if not name or getattr(error, "is_refusal", False) or not is_of_operands:
        return None
    kind = first_fault(name, args)
    if kind is None and unread(name, args, kwargs) is not None:
        return error if isinstance(error, TypeError) else _unfit(function, args, kwargs, ArgumentInvalid)
    if kind is None and overflow(name, args):
        kind = NumberTooLarge
    if kind is None and flagged(name, args):
        kind = ShapeError
    # A fault that `next_fault` finds may be that of an argument given by name, which it does not see.
    if kind is None and not (kwargs and isinstance(error, MemoryMissing)):
        kind = next_fault(name, args)
    if kind is None or isinstance(error, kind):
        return error if kind else None
    # What is said stays, as that of another kind.
    text = error.what if isinstance(error, LazyError) else f"{function.__name__}(): {error}"
    return kind(text, where=source.where(), hint=getattr(error, "hint", ""))


def _misplaced(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], error: ShapeError
) -> LazyError | None:
    """The error about a tensor that was given for a number, if that is what went wrong."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    blamed = _blamed(function, args, kwargs)
    if blamed is not None:
        return blamed
    # What a function is about is in its first argument, but for one that takes sizes alone.
    is_about = first is not None and first.kind is not inspect.Parameter.VAR_POSITIONAL
    others = [*args[is_about:], *kwargs.values()]
    if _NO_NUMBER.search(error.what) and any(isinstance(v, Tensor) and not _is_number(v) for v in others):
        return _unfit(function, args, kwargs, ArgumentInvalid)
    return None


def _blamed(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> LazyError | None:
    """The error about the first argument that does not fit the signature, if there is one."""
    bare = inspect.unwrap(function)
    signature = inspect.signature(bare)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return None  # Python's own words name the argument
    hints = typing.get_type_hints(bare)
    for at, (name, value) in enumerate(given.items(), 1):
        # Of `*sizes` each one has the type that is written.
        is_many = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        for v in value if is_many else (value,):
            if name in hints and not _fits(v, hints[name]):
                return _refused(function.__name__, "input" if at == 1 else name, at, hints[name], v)
    if any(map(_is_too_large, given.values())):
        text = f"{function.__name__}(): Overflow when unpacking long long"
        return NumberTooLarge(text, where=source.where(), hint="Give a number of 64 bits.")
    return None


def _stray(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], error: Exception
) -> LazyError | None:
    """The error in place of one that Python or NumPy raised in the house; None if somebody has raised it on purpose."""
    if isinstance(error, MemoryError) or (isinstance(error, ValueError) and "array is too big" in str(error)):
        return MemoryMissing(f"{function.__name__}(): its result is larger than any memory", 0, where=source.where())
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    file = frame.f_code.co_filename
    is_on_purpose = linecache.getline(file, line).lstrip().startswith("raise")
    if not source.is_house(file) or (is_on_purpose and not file.startswith(source.NUMPY)):
        return None
    # Python's own words name what is missing or too many, as PyTorch's do.
    if isinstance(error, TypeError) and _ARITY.search(str(error)):
        return None
    kind = ArgumentInvalid if isinstance(error, TypeError | AttributeError) else ShapeError
    return _unfit(function, args, kwargs, kind)


def _unfit(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], kind: type[LazyError]
) -> LazyError:
    kinds = ", ".join([*map(_kind, args), *(f"{k}={_kind(v)}" for k, v in kwargs.items())])
    text = f"{function.__name__}() received an invalid combination of arguments - got ({kinds})"
    return kind(text, where=source.where(), hint="Look at the shapes, types and numbers that are given.")


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"Tensor {value.spec}"
    return repr(value) if isinstance(value, int | float) else type(value).__name__


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value may be one of a hint; a hint that is not known here fits all."""
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
    if (origin or hint) in _LISTS:
        inner = members[0] if members else Any
        return (
            isinstance(value, collections.abc.Iterable)
            and not isinstance(value, str | Tensor)
            and (isinstance(value, collections.abc.Iterator) or all(_fits(v, inner) for v in value))
        )
    return True


def _is_number(value: Any) -> bool:
    """Whether it is a tensor that counts as the number it has."""
    return isinstance(value, Tensor) and value.spec.size == 1


def _refused(name: str, parameter: str, at: int, hint: Any, value: Any) -> LazyError:
    text = f"{name}(): argument '{parameter}' (position {at}) must be {_word(hint)}, not {type(value).__name__}"
    return ArgumentInvalid(text, where=source.where(), hint="Look at what is given there.")


def _word(hint: Any) -> str:
    """PyTorch's word for a kind of argument."""
    members = [m for m in typing.get_args(hint) if m is not type(None)]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_word, members)))
    if (typing.get_origin(hint) or hint) in _LISTS:
        return f"tuple of {_word(members[0])}s" if members else "tuple"
    return {DType: "torch.dtype", float: "Number"}.get(hint, getattr(hint, "__name__", "another type"))


def _is_too_large(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_is_too_large, value))
    return isinstance(value, int) and not -_LARGEST <= value < _LARGEST
