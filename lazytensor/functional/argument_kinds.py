"""Argument kinds that PyTorch's argument parser accepts, by function, to refuse other kinds before a call.

PyTorch raises TypeError for an argument of another kind, such as a tensor in place of a number. The table was made by
calling PyTorch. The functions themselves check the elements of lists.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor

# Kinds: T tensor, N number, E tensor or number, i integer, D integer but no tensor with dimensions, L list of integers,
# M integer or list, S size but no 0-d tensor, P integer or two of them, Ts list of tensors, b bool, s string, d dtype;
# "?" adds None. ";" precedes the optional arguments, "/" separates alternative signatures, "*" is a size given as a
# list or as separate integers. Arguments at and after "..." are not checked. F. is torch.nn.functional.
_SIGNATURE_TABLE = """
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
    F.adaptive_avg_pool2d, F.adaptive_avg_pool3d, F.adaptive_max_pool2d, F.adaptive_max_pool3d: T S ...
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
_INT64_LIMIT = 1 << 63

Types = set[tuple[object, ...]]
Signature = tuple[Sequence[str], Sequence[str]]
"""The kinds of the required arguments, and those of the optional arguments."""
_matching_types: dict[str, Types] = {}


def matching_types(name: str) -> Types | None:
    """Return the cached set of tuples of argument types that are valid for the function `name` whatever their values.

    `is_mismatched` adds to the set. Returns None if the table does not have the function.
    """
    return _matching_types.setdefault(name, set()) if name in _signatures() else None


def is_mismatched(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], types: tuple[object, ...]) -> bool:
    """Return whether the positional arguments `args` match none of the signatures that the table has for `name`.

    Both the kinds and the number of arguments have to match; with keyword arguments, positional ones may be missing.
    `types` are the types of `args`; they are added to the set of `matching_types` if every value of these types
    matches. Elements of lists and keyword arguments are not checked. Raises KeyError if the table does not have `name`.
    """
    readings = _signatures()[name]
    if any(_matches_signature(reading, args, kwargs, _always_matches_kind) for reading in readings):
        _matching_types[name].add(types)
        return False
    return not any(_matches_signature(reading, args, kwargs, _matches_kind) for reading in readings)


@functools.cache
def _signatures() -> Mapping[str, Sequence[Signature]]:
    # Parsed at the first use, so that importing the module stays cheap.
    rows = [line.strip().partition(": ") for line in _SIGNATURE_TABLE.strip().splitlines()]
    return {
        name: [_parse_signature(r) for r in kinds.split("/")] for names, _, kinds in rows for name in names.split(", ")
    }


def _parse_signature(text: str) -> Signature:
    required, _, optional = text.partition(";")
    return required.split(), optional.split()


def _matches_signature(
    reading: Signature, args: Sequence[Any], kwargs: Mapping[str, Any], fits: Callable[[Any, str], bool]
) -> bool:
    """Return whether the arguments match the signature `reading`, where `fits(value, kind)` tests one argument.

    `reading` has the kinds of the required and of the optional arguments. A kind that ends in "?" also accepts None. A
    last kind "..." allows more arguments, which are not tested. The required kinds ["*"] stand for a size, as in
    `zeros(2, 3)`. With any keyword arguments, fewer positional ones match.
    """
    required, optional = reading
    if required == ["*"]:
        return _matches_size(args, kwargs, fits)
    kinds = [*required, *optional]
    if kinds[-1] == "...":
        kinds.pop()
        required, args = kinds[: len(required)], args[: len(kinds)]
    # A missing positional argument may be among the keyword arguments.
    if len(args) > len(kinds) or (len(args) < len(required) and not kwargs):
        return False
    pairs = zip(args, kinds, strict=False)
    return all((kind.endswith("?") and value is None) or fits(value, kind.rstrip("?")) for value, kind in pairs)


def _matches_size(args: Sequence[Any], kwargs: Mapping[str, Any], fits: Callable[[Any, str], bool]) -> bool:
    """Return whether `args` is a size: one list or tuple, or separate integers of at most 64 bits.

    A bool is accepted as an integer except in the first position. No positional arguments match only if there are
    keyword arguments.
    """
    if len(args) == 1 and isinstance(args[0], list | tuple):
        return True
    is_size = all((fits(v, "i") or (at and isinstance(v, bool))) and _is_int64(v) for at, v in enumerate(args))
    return is_size and bool(args or kwargs)


def _matches_kind(value: Any, kind: str) -> bool:
    return _ARGUMENT_KINDS[kind](value)


def _always_matches_kind(value: Any, kind: str) -> bool:
    """Return whether every value that has the type of `value` is of the kind `kind`."""
    return kind in ("T", "E") if isinstance(value, Tensor) else _matches_kind(value, kind)


def _is_number(value: Any) -> bool:
    is_scalar = isinstance(value, Tensor) and not value.ndim
    return is_scalar or isinstance(value, int | float | complex | np.number | np.bool_)


def _is_integer(value: Any, kinds: str = "i") -> bool:
    """Return whether `value` is an integer, or a one-element tensor whose dtype kind is in `kinds`.

    Bools do not count.
    """
    if isinstance(value, Tensor):
        return value.spec.size == 1 and value.dtype.kind in kinds
    # PyTorch does not accept a bool as an integer, although it is one in Python.
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_dimension(value: Any) -> bool:
    return _is_integer(value) and not (isinstance(value, Tensor) and value.ndim)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_int64(value: Any) -> bool:
    return not isinstance(value, int) or -_INT64_LIMIT <= value < _INT64_LIMIT


def _is_pair(value: Any) -> bool:
    """Return whether `value` is an integer or a list of integers, or a tensor that can be iterated over as one.

    Such a tensor is not floating-point, and its rows have one element each; an empty tensor of any dtype is accepted.
    """
    if isinstance(value, Tensor):
        # A tensor is iterated over, so its rows have to be integers.
        return value.shape[:1] == (0,) or (
            value.ndim > 0 and value.dtype.kind != "f" and all(extent == 1 for extent in value.shape[1:])
        )
    return (_is_integer(value) and _is_int64(value)) or _is_list(value)


_ARGUMENT_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "T": lambda v: isinstance(v, Tensor),
    "N": _is_number,
    "E": lambda v: isinstance(v, Tensor) or _is_number(v),
    "i": _is_integer,
    "D": _is_dimension,
    "L": _is_list,
    "M": lambda v: _is_integer(v, "ib") or _is_list(v),
    "S": lambda v: not isinstance(v, Tensor) or v.ndim > 0,
    "P": _is_pair,
    "Ts": _is_list,
    "b": lambda v: isinstance(v, bool | np.bool_),
    "s": lambda v: isinstance(v, str),
    "d": lambda v: isinstance(v, DType),
}
