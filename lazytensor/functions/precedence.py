"""Which of several faults of a call PyTorch finds first, for a call that has failed here for another one.

Nobody asks before a call has failed, so the good path pays nothing, and each function checks its operands in the order
that suits it. The order here is that of PyTorch, found by calling it with two faults at once.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lazytensor.errors import (
    ArgumentInvalid,
    CountZero,
    IndexInvalid,
    LazyError,
    NumberTooLarge,
    OperandInvalid,
    OptionInvalid,
    OptionMissing,
    ShapeError,
    TensorMissing,
    TypeUnsupported,
)
from lazytensor.tensor import Tensor

Kind = type[LazyError] | None
Args = Sequence[Any]

# Functions that PyTorch writes in Python ask a method of what they are given, before any reader has seen it; how many
# of the first arguments they ask stands in front.
_ASKED = """
    1 F.softsign F.tanhshrink F.glu F.sigmoid F.tanh F.dropout1d F.dropout2d F.dropout3d F.normalize F.softmax
    1 F.softmin F.log_softmax F.interpolate F.upsample F.affine_grid F.gaussian_nll_loss F.group_norm F.instance_norm
    1 F.local_response_norm F.lp_pool1d F.lp_pool2d F.adaptive_avg_pool2d F.adaptive_avg_pool3d F.adaptive_max_pool2d
    1 F.adaptive_max_pool3d F.max_unpool2d norm split unravel_index
    2 F.mse_loss F.l1_loss F.smooth_l1_loss F.huber_loss F.binary_cross_entropy F.binary_cross_entropy_with_logits
    2 F.embedding_bag tensordot
    3 F.margin_ranking_loss F.triplet_margin_with_distance_loss
"""
# Of these Python's `if` is asked, which a tensor with a shape cannot answer; their place stands in front.
_WEIGHED = """
    1 F.dropout F.dropout1d F.dropout2d F.dropout3d F.alpha_dropout F.feature_alpha_dropout F.group_norm
    2 F.mse_loss F.l1_loss F.smooth_l1_loss F.kl_div F.embedding
    3 F.binary_cross_entropy F.nll_loss F.cross_entropy
"""


def _number(table: str, name: str) -> int:
    rows = (line.split() for line in table.strip().splitlines())
    return next((int(row[0]) for row in rows if name in row), 0)


def first_fault(name: str, args: Args) -> Kind:
    """The kind of error for what PyTorch finds before it reads the kinds of all arguments; None if that is nothing."""
    fault = _EARLY[name](args) if name in _EARLY else None
    if fault is not None:
        return fault
    if not all(isinstance(value, Tensor) for value in args[: _number(_ASKED, name)]):
        return TensorMissing
    at = _number(_WEIGHED, name)
    value = args[at] if 0 < at < len(args) else None
    return ShapeError if isinstance(value, Tensor) and value.spec.size != 1 else None


def next_fault(name: str, args: Args) -> Kind:
    """The kind of error for what PyTorch finds once all kinds fit; None if that is not known."""
    try:
        return _LATE[name](*args) if name in _LATE else None
    except (AttributeError, TypeError, IndexError, ValueError):
        return None  # other operands than the check is about


def _lacks(x: Tensor, *dims: int) -> Kind:
    """IndexInvalid if a tensor does not have all dimensions."""
    return None if all(-x.ndim <= d < x.ndim for d in dims) else IndexInvalid


def _group_norm(args: Args) -> Kind:
    if len(args) < 2 or not isinstance(args[0], Tensor) or isinstance(args[1], bool) or not isinstance(args[1], int):
        return ShapeError if len(args) > 1 and isinstance(args[0], Tensor) and args[0].ndim < 2 else None
    x, groups = args[:2]
    if x.ndim < 2 or not groups:
        return ShapeError if x.ndim < 2 else CountZero
    # PyTorch's own guard, which it asks before whether the groups divide the channels.
    counted = x.shape[0] * x.shape[1] // groups * math.prod(x.shape[2:])
    return OptionInvalid if counted == 1 else None


def _tensordot(args: Args) -> Kind:
    dims = args[2] if len(args) > 2 else 2
    if isinstance(dims, list | tuple):
        return None if len(dims) == 2 else OptionInvalid
    if not isinstance(dims, Tensor):
        return None if isinstance(dims, int) and dims >= 0 else ShapeError
    if dims.spec.size < 2:
        return None if dims.spec.size else ShapeError
    # A tensor counts as two lists of dimensions.
    if dims.shape[0] != 2:
        return OperandInvalid
    return ArgumentInvalid if dims.ndim == 1 or dims.dtype.kind == "f" else None


def _einsum(args: Args) -> Kind:
    if len(args) < 2 or (len(args) == 2 and args[1] in ([], ()) and isinstance(args[1], list | tuple)):
        return OptionInvalid
    equation, first, *rest = args
    if isinstance(equation, str):
        tensors = first if isinstance(first, list | tuple) and not rest else args[1:]
        return None if all(isinstance(t, Tensor) for t in tensors) else ArgumentInvalid
    # In the other form each operand is followed by the numbers of its dimensions.
    if not isinstance(equation, Tensor) or not isinstance(first, Tensor | list | tuple):
        return None
    return OptionInvalid if any(isinstance(n, int) and not 0 <= n < 52 for n in first) else ShapeError


def _dropout(args: Args) -> Kind:
    p = args[1] if len(args) > 1 else 0.5
    return OptionInvalid if isinstance(p, int | float) and not 0 <= p <= 1 else None


def _adaptive(args: Args) -> Kind:
    if len(args) != 2 or not isinstance(args[0], Tensor):
        return None
    if isinstance(args[1], int):
        return None if args[1] < 1 << 63 else NumberTooLarge
    x, size = args
    # A tensor counts as the list of its rows.
    if not isinstance(size, list | tuple | str) and not (isinstance(size, Tensor) and size.ndim):
        return ArgumentInvalid
    if len(size) >= x.ndim:
        return OptionInvalid
    if isinstance(size, str):
        return ArgumentInvalid
    is_size = not isinstance(size, Tensor) or (size.ndim == 1 and size.dtype.kind == "i")
    return ShapeError if not len(size) or (is_size and len(size) != 2) else None


def _glu(args: Args) -> Kind:
    return ShapeError if args and isinstance(args[0], Tensor) and not args[0].ndim else None


def _entropy(args: Args) -> Kind:
    is_pair = len(args) > 1 and isinstance(args[0], Tensor) and isinstance(args[1], Tensor)
    return OptionInvalid if is_pair and args[0].shape != args[1].shape else None


def _table(args: Args) -> Kind:
    if len(args) < 3 or not isinstance(args[1], Tensor) or not isinstance(args[2], int) or not args[1].ndim:
        return None
    rows = args[1].shape[0]
    return None if -rows <= args[2] < rows else OperandInvalid


def _pieces(args: Args) -> Kind:
    is_list = len(args) > 1 and isinstance(args[0], Tensor) and isinstance(args[1], Tensor) and args[1].spec.size != 1
    return ArgumentInvalid if is_list else None


_EARLY: Mapping[str, Callable[[Args], Kind]] = {
    "F.group_norm": _group_norm,
    "F.dropout": _dropout,
    "F.adaptive_avg_pool2d": _adaptive,
    "F.glu": _glu,
    "F.binary_cross_entropy": _entropy,
    "F.embedding": _table,
    "split": _pieces,
    "tensordot": _tensordot,
    "einsum": _einsum,
}


def _narrow(x: Tensor, dim: int, start: Any, _: int) -> Kind:
    if not x.ndim or isinstance(start, Tensor):
        return None if x.ndim and not start.ndim and start.dtype.kind == "i" else ShapeError
    return _lacks(x, dim) or (None if -x.shape[dim] <= start <= x.shape[dim] else IndexInvalid)


def _reduced(x: Tensor, dim: Any = -1, *_: Any) -> Kind:
    dims = dim if isinstance(dim, list | tuple) else [dim]
    is_empty = x.ndim > 0 and not _lacks(x, *dims) and not all(x.shape[d] for d in dims)
    return IndexInvalid if x.ndim and (is_empty or _lacks(x, *dims)) else None


def _extreme(x: Tensor, *dims: Any) -> Kind:
    return _reduced(x, *dims) if dims else None


def _kth(x: Tensor, k: int, *dims: Any) -> Kind:
    return _reduced(x, *dims)


def _attention(*args: Any) -> Kind:
    return ShapeError if len({t.dtype for t in args[:3]}) > 1 or min(t.ndim for t in args[:3]) < 2 else None


def _window(x: Tensor, *args: Any) -> Kind:
    # What is no window is found first: other than one or two numbers, or some of more than 32 bits.
    sizes = [v if isinstance(v, list | tuple) else [v] for v in args[:2] if v is not None]
    if any(
        not 0 < len(size) < 3 or any(isinstance(n, int) and not -1 << 31 <= n < 1 << 31 for n in size) for size in sizes
    ):
        return None
    return _lacks(x, -3)


def _columns(x: Tensor, *args: Any) -> Kind:
    if any(isinstance(v, Tensor) and v.shape[:1] == (0,) for v in args):
        return ShapeError
    # What is no pair of positive numbers, and an image without columns, is found first.
    is_image = all(map(_is_extent, args)) and (x.ndim != 2 or x.shape[1])
    return _lacks(x, 2) if is_image else None


def _is_extent(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.shape[:1] == (2,) and min(value.reshape(-1).tolist()) > 0
    return len(value) == 2 and min(value) > 0 if isinstance(value, list | tuple) else bool(value > 0)


def _logits(x: Tensor, *_: Any) -> Kind:
    if not x.ndim:
        return IndexInvalid
    return TypeUnsupported if x.dtype.kind != "f" and x.spec.size else None


def _resized(x: Tensor, size: Any = None, scale: Any = None, *_: Any) -> Kind:
    lengths = [len(v) for v in (size, scale) if isinstance(v, list | tuple)]
    is_one = (size is None) != (scale is None)
    return None if is_one and all(count == x.ndim - 2 for count in lengths) else OptionInvalid


def _same_rank(x: Tensor, y: Tensor, *_: Any) -> Kind:
    return None if x.ndim == y.ndim else ShapeError


def _along(x: Tensor, dim: int, index: Tensor, *sources: Any) -> Kind:
    if not x.ndim or _lacks(x, dim) or not index.spec.size:
        return _lacks(x, dim) if x.ndim else None
    if max(index.ndim, 1) != x.ndim:
        return ShapeError
    return _lacks(sources[0], dim) if sources and isinstance(sources[0], Tensor) and sources[0].ndim else None


def _place(x: Tensor, *dims: Any) -> Kind:
    return TypeUnsupported if x.dtype.kind == "b" else _reduced(x, *dims)


def _ranked(x: Tensor, *_: Any) -> Kind:
    return _lacks(x, 0)


def _ends(*ends: Any) -> Kind:
    return ShapeError if any(isinstance(v, Tensor) and v.ndim for v in ends[:2]) else None


_PADDINGS = ("constant", "reflect", "replicate", "circular")
_LATE: Mapping[str, Callable[..., Kind]] = {
    "baddbmm": lambda _, a, b: _lacks(a, 0, 1) or _lacks(b, 2),
    "linspace": _ends,
    "narrow": _narrow,
    "bincount": lambda x, *_: None if x.dtype.kind == "i" else TypeUnsupported,
    "trace": lambda x: TypeUnsupported if x.dtype.kind == "b" else None,
    "permute": lambda x, dims: None if x.ndim == len(dims) else ShapeError,
    "outer": lambda x, y: None if x.ndim == y.ndim == 1 else ShapeError,
    "cat": lambda tensors, *_: None if tensors else OptionInvalid,
    **dict.fromkeys(("mv", "unbind", "select"), _ranked),
    **dict.fromkeys(("cross", "take_along_dim"), _same_rank),
    **dict.fromkeys(("amax", "amin"), _extreme),
    **dict.fromkeys(("argmax", "argmin"), _place),
    "chunk": lambda x, *_: None if x.ndim else ShapeError,
    "split": lambda _, size, *__: ShapeError if isinstance(size, int) and size < 0 else None,
    "repeat_interleave": lambda _, times, *__: ShapeError if isinstance(times, Tensor) and times.ndim > 1 else None,
    "F.pad": lambda _, __, mode="constant", *___: None if mode in _PADDINGS else OptionMissing,
    **dict.fromkeys(("scatter", "gather"), _along),
    "kthvalue": _kth,
    "F.embedding": lambda x, weight, *__: (
        None if weight.ndim == 2 and (weight.spec.size or not x.spec.size) else ShapeError
    ),
    "F.scaled_dot_product_attention": _attention,
    "F.avg_pool2d": _window,
    "F.unfold": _columns,
    "F.cross_entropy": _logits,
    "F.interpolate": _resized,
}
"""By function, what it finds first in operands of the right kinds."""
