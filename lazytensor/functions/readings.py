"""What kinds of arguments PyTorch's own reader takes, by function, for a call that has failed.

PyTorch reads all arguments before it looks at any shape, so one of another kind is a TypeError whatever else is wrong.
The kinds are facts about its functions, found by calling them; what is wider here serves calls all the same, since
nobody asks before a call has failed.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lazytensor.dtype import DType
from lazytensor.tensor import Tensor

# T a tensor, N a number, E either, i an integer, D one that no tensor with a shape stands for, L integers in a list,
# M such a list or one integer, P what makes two integers, Ts tensors in a list, b a flag, s a word, d a type; ? for one
# that may be None. What stands behind ";" may be left out, "/" divides several readings of one function, "*" is a size,
# in a list or one by one, and behind "..." nothing is looked at. F. is torch.nn.functional.
_TABLE = """
    pow, bitwise_and, bitwise_or, bitwise_xor, remainder: T T / T N / N T
    fmod, eq, ne, lt, le, gt, ge, true_divide: T T / T N
    maximum, minimum, fmax, fmin, atan2, hypot, logical_and, logical_or, logical_xor: T T
    clamp, clip: T ; T? T? / T ; N? N?
    lerp: T T N / T T T
    add, sub: E E / T N T
    mul, div, floor_divide: E E
    addcmul, addcdiv: T T T / T N T T
    sum, mean: T ; d? / T M? ; b
    all, any: T / T D ; b / T L? ; b
    prod: T ; d? / T D ; b
    amax, amin: T ; M? b
    max, min: T / T D ; b / T T
    argmax, argmin: T ; D? b
    std, var, std_mean, var_mean: T ; b / T M? ; b b
    logsumexp: T M ; b
    softmax, log_softmax: T D ; d?
    cumsum, cumprod, cummax, cummin, logcumsumexp: T D
    mm, bmm, dot, mv, outer, matmul, masked_select: T T
    baddbmm, addbmm, addmm: T T T
    cat, stack: Ts ; D
    chunk: T D ; D
    unbind: T ; D
    narrow: T D i i / T D T i
    select: T D i
    transpose: T D D
    index_select, gather: T D T
    scatter: T D T T / T D T N
    take_along_dim: T T ; D?
    masked_fill: T T E
    where: T / T E E
    reshape, permute, broadcast_to, flip, tile: T L
    squeeze: T / T D / T L
    unsqueeze: T D
    flatten: T ; D D
    movedim, moveaxis: T D D / T L L
    roll: T M ; M?
    repeat_interleave: T / T T ; D? / T i ; D?
    tril, triu, diag: T ; i
    trace, nonzero, zeros_like, ones_like, empty_like: T
    topk: T i ; D b b
    sort, argsort: T ; D b
    kthvalue: T i ; D b
    bincount: T ; T? i
    histc: T ; D N N
    cross: T T ; D?
    zeros, ones, rand, randn, empty: *
    full: L N
    full_like: T N
    arange: N / N N / N N N
    linspace: E E D
    logspace: E E D ; N
    eye: i / i i
    randint: i L / i i L
    F.linear: T T ; T?
    F.conv1d, F.conv2d, F.conv3d: T T ; T? M M M i / T T ; T? M s M i
    F.embedding: T T ; E? ...
    F.cross_entropy: T T ; T? ...
    F.scaled_dot_product_attention: T T T ; T? N b
    F.layer_norm: T L ; T? T? N b
    F.max_pool1d, F.max_pool2d, F.max_pool3d: T M ; M? M M b b
    F.avg_pool1d: T M ; M M b b
    F.avg_pool2d, F.avg_pool3d: T M ; M? M b b i?
    F.pad: T L ; s N?
    F.gelu, F.logsigmoid: T
    F.one_hot: T ; D
    F.unfold: T P ; P P P
    F.glu: T ; D
    F.kl_div: T T ...
    F.smooth_l1_loss, F.huber_loss: T T ...
    F.binary_cross_entropy: T T ; T? ...
    split: T ...
    F.dropout: T ; N b ...
"""
_LARGEST = 1 << 63


Types = set[tuple[object, ...]]
_fitting: dict[str, Types] = {}


def types_that_fit(name: str) -> Types | None:
    """The types of arguments that are known to fit whatever their values, which `misread` adds to.

    None if the function is not known.
    """
    return _fitting.setdefault(name, set()) if name in _readings() else None


def misread(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], types: tuple[object, ...]) -> bool:
    """Whether PyTorch's reader refuses an argument of a known function; what is in lists, the function sees itself."""
    readings = _readings()[name]
    if None in [_end(reading, args, kwargs, _is_ever) for reading in readings]:
        _fitting[name].add(types)
        return False
    return None not in [_end(reading, args, kwargs, _may_be) for reading in readings]


def unread(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> int | None:
    """The place of the first argument that PyTorch's reader refuses; None if all fit or the function is not known.

    Where there are several readings it is the last place that one of them comes to.
    """
    readings = _readings().get(name)
    if readings is None:
        return None
    ends = [_end(reading, args, kwargs, _is) for reading in readings]
    return None if None in ends else max(end for end in ends if end is not None)


Reading = tuple[Sequence[str], Sequence[str]]


@functools.cache
def _readings() -> Mapping[str, Sequence[Reading]]:
    # Split when the first function is published, so that the import of the table alone pays nothing.
    rows = [line.strip().partition(": ") for line in _TABLE.strip().splitlines()]
    return {name: [_reading(r) for r in kinds.split("/")] for names, _, kinds in rows for name in names.split(", ")}


def flagged(name: str, args: Sequence[Any]) -> bool:
    """Whether a truth value in a tensor is what PyTorch stops at behind its reader, which takes it for an integer."""
    readings = _readings().get(name, ())
    return bool(readings) and None not in [_end(reading, args, {"": ()}, _may_be) for reading in readings]


def overflow(name: str, args: Sequence[Any]) -> bool:
    """Whether a number of more than 64 bits is what PyTorch's reader stops at, all kinds being right."""
    return name in _readings() and not all(map(_is_small, args))


def _reading(text: str) -> Reading:
    required, _, optional = text.partition(";")
    return required.split(), optional.split()


def _end(
    reading: Reading, args: Sequence[Any], kwargs: Mapping[str, Any], fits: Callable[[Any, str], bool]
) -> int | None:
    required, optional = reading
    if required == ["*"]:
        # One list, or integers one by one, which are read as if they were in a list.
        if len(args) == 1 and isinstance(args[0], list | tuple):
            return None if fits(args[0], "L") else 0
        is_size = all((fits(v, "i") or (at and isinstance(v, bool))) and _is_small(v) for at, v in enumerate(args))
        return None if is_size and (args or kwargs) else 0
    kinds = [*required, *optional]
    if kinds[-1] == "...":
        kinds.pop()
        required, args = kinds[: len(required)], args[: len(kinds)]
    for at, (value, kind) in enumerate(zip(args, kinds, strict=False)):
        if not (kind.endswith("?") and value is None) and not fits(value, kind.rstrip("?")):
            return at
    # What is left out may have been given by name, and names are not compared here.
    is_short = len(args) < len(required) and not kwargs
    return min(len(args), len(kinds)) if is_short or len(args) > len(kinds) else None


def _is(value: Any, kind: str) -> bool:
    return _KINDS[kind](value)


def _may_be(value: Any, kind: str) -> bool:
    """Whether a value fits, if what is in a list does; a tensor of a truth value is no integer in the end."""
    if isinstance(value, list | tuple):
        return kind in ("L", "M", "P", "Ts")
    return _KINDS[kind](value) and not (isinstance(value, Tensor) and value.dtype.kind == "b" and kind == "i")


def _is_ever(value: Any, kind: str) -> bool:
    """Whether all values of a type fit, as far as `_may_be` looks."""
    return kind in ("T", "E") if isinstance(value, Tensor) else _may_be(value, kind)


def _is_number(value: Any) -> bool:
    is_scalar = isinstance(value, Tensor) and not value.ndim
    return is_scalar or isinstance(value, int | float | complex | np.number | np.bool_)


def _is_integer(value: Any) -> bool:
    # A flag is no integer for PyTorch, though it is one for Python.
    if isinstance(value, Tensor):
        return value.spec.size == 1 and value.dtype.kind != "f"
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_dimension(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not value.ndim and value.dtype.kind == "i"
    return _is_integer(value)


def _is_size(value: Any) -> bool:
    """Whether it is a list of integers of 64 bits; behind the first one a flag counts as one."""
    if not isinstance(value, list | tuple) or (value and not _is_integer(value[0])):
        return False
    return all((isinstance(v, bool) or _is_integer(v)) and _is_small(v) for v in value)


def _is_small(value: Any) -> bool:
    return not isinstance(value, int) or -_LARGEST <= value < _LARGEST


def _is_pair(value: Any) -> bool:
    if isinstance(value, Tensor):
        # It is taken apart, so what counts is what one row of it is.
        return value.shape[:1] == (0,) or (
            value.ndim > 0 and value.dtype.kind != "f" and all(extent == 1 for extent in value.shape[1:])
        )
    return (_is_integer(value) and _is_small(value)) or _is_size(value)


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "T": lambda v: isinstance(v, Tensor),
    "N": _is_number,
    "E": lambda v: isinstance(v, Tensor) or _is_number(v),
    "i": _is_integer,
    "D": _is_dimension,
    "L": _is_size,
    "M": lambda v: _is_integer(v) or _is_size(v),
    "P": _is_pair,
    "Ts": lambda v: isinstance(v, list | tuple) and all(isinstance(t, Tensor) for t in v),
    "b": lambda v: isinstance(v, bool | np.bool_),
    "s": lambda v: isinstance(v, str),
    "d": lambda v: isinstance(v, DType),
}
