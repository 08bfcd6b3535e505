"""Lookup of table rows by index: embeddings, bags of embeddings, and one-hot vectors."""

import math
import operator
from typing import Any

import numpy as np

from lazytensor.core import dtype as dt
from lazytensor.core import source, storage
from lazytensor.core.autocast import half_type
from lazytensor.core.tensor import Tensor, from_array, grad_mode, operand_node
from lazytensor.errors import (
    ArgumentInvalid,
    IndexInvalid,
    OperandInvalid,
    OptionInvalid,
    OptionMissing,
    ShapeError,
)
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction as red
from lazytensor.functional.creation import arange, zeros
from lazytensor.functional.gather_scatter import index_add, scatter_reduce
from lazytensor.functional.indexing import check_index_range
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.sorting import searchsorted
from lazytensor.functional.views import expand, reshape, unsqueeze, view
from lazytensor.ops import call
from lazytensor.ops.cirh_rows import NO_PADDING_INDEX
from lazytensor.ops.elementwise import cast


def refuse_options(**options: Any) -> None:
    """Raise OptionMissing if one of the keyword `options` is true. They are PyTorch options that are not supported."""
    for name, value in options.items():
        if value:
            raise OptionMissing(
                f"an embedding with {name}={value!r} is not supported",
                where=source.where(),
                hint="Remove this option.",
            )


def renormalize(weight: Tensor, numbers: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale rows of `weight` in place so that their norm is at most `max_norm`, as F.embedding(max_norm=) does.

    `numbers` are the indices of the rows, and `norm_type` is the order of the norm. No gradient is recorded. On the
    device "meta" nothing happens. Raises OptionMissing in a compiled step, where rows have no values, ArgumentInvalid
    if `max_norm` or `norm_type` is no number, and ShapeError if `weight` is not floating-point.
    """
    for name, value in (("max_norm", max_norm), ("norm_type", norm_type)):
        if not isinstance(value, int | float | Tensor):
            raise ArgumentInvalid(
                f"embedding_renorm_(): argument '{name}' must be float, not {type(value).__name__}",
                where=source.where(),
                hint="Pass a floating-point number.",
            )
    if storage.thread_state.current is not None:
        raise OptionMissing(
            f"an embedding with max_norm={max_norm!r} cannot be compiled: it changes its weight in the forward pass",
            where=source.where(),
            hint="Remove max_norm, or normalize the weight in torch.no_grad() outside of the step.",
        )
    if weight.dtype.kind != "f":
        raise ShapeError(
            f"norm(): input dtype should be floating point, got {weight.dtype.name}",
            where=source.where(),
            hint="Convert the weight first, for example with .float().",
        )
    if weight.device.type == "meta":
        return
    rows = np.unique(numbers.array("embedding()"))
    values = weight.array("embedding()")[rows]
    limit = float(max_norm)
    with np.errstate(all="ignore"):  # inf and NaN cause no warning, as in PyTorch
        norms = np.linalg.norm(values.astype(np.float64), float(norm_type), axis=1, keepdims=True)
        # PyTorch adds this constant to the norm.
        scaled = values * np.where(norms > limit, limit / (norms + 1e-7), 1.0).astype(values.dtype)
    with grad_mode(False):
        weight.index_put_((from_array(rows),), from_array(scaled).to(weight.dtype))


def _normalize_row(padding_idx: int | None, rows: int) -> int | None:
    """Return `padding_idx` as a non-negative row index, or None if it is None.

    Raises OperandInvalid if the table of `rows` rows does not have it.
    """
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise OperandInvalid(
            f"padding_idx must be within num_embeddings = {rows}, got {padding_idx}",
            where=source.where(),
            hint="Pass an index of the table, or None.",
        )
    return padding_idx % rows


def _check_row_indices(input: Tensor, weight: Tensor) -> Tensor:
    """Return `input` after checking that it contains row indices of `weight`.

    Raises ShapeError unless it is int32 or int64, and IndexInvalid for a negative index or one past the last row.
    Inside a step the range is not checked.
    """
    if input.dtype not in (dt.int64, dt.int32):
        raise ShapeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{input.dtype.name} instead (while checking arguments for embedding)",
            where=source.where(),
            hint="Convert the indices first, for example with .long().",
        )
    try:
        check_index_range(input, weight.spec.shape[0], 0, 0)
    except IndexError:
        raise IndexInvalid(
            "index out of range in self",
            where=source.where(),
            hint="Pass indices below the number of rows, or enlarge the table.",
        ) from None
    return input


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of `weight` [rows, dim] at the indices `input` [...]: [..., dim].

    - `padding_idx`: a row that gets no gradient.
    - `max_norm`: if given, the rows that are looked up are first scaled in place to at most this norm, of the order
      `norm_type`, without a gradient.
    - `scale_grad_by_freq`: not supported; raises OptionMissing if true.
    - `sparse`: ignored.

    While automatic casts are on, a float32 result is converted to the half type. Raises IndexError for an index out of
    range. Raises ShapeError if `input` is not int32 or int64, or if `weight` is not a matrix.

    >>> import lazytensor as lt
    >>> lt.nn.functional.embedding(lt.tensor([1, 0]), lt.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    refuse_options(scale_grad_by_freq=scale_grad_by_freq)
    if weight.ndim != 2:
        raise ShapeError(
            f"'weight' must be 2-D, got {weight.spec}",
            where=source.where(),
            hint="Pass a weight of shape [num_embeddings, embedding_dim].",
        )
    pad = _normalize_row(padding_idx, weight.spec.shape[0])
    numbers = _check_row_indices(input, weight)
    if max_norm is not None:
        renormalize(weight, numbers, max_norm, norm_type)
    rows = call(
        "embedding", operand_node(weight), operand_node(numbers), padding=NO_PADDING_INDEX if pad is None else pad
    )
    half = half_type()
    # One cast of the result, so that gradients are added in the half type.
    return tensor_of(rows if half is None or rows.type.dtype is not dt.float32 else cast(rows, half), weight)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return the sum, mean or maximum of bags of rows of `weight` [rows, dim]: [bags, dim].

    - `input`: indices [bags, n], one bag per row; or a vector [n] with `offsets`, the index where each bag starts.
      `input` and `weight` may be exchanged, as in former versions of PyTorch.
    - `max_norm`, `norm_type`: as in `embedding`.
    - `scale_grad_by_freq`: not supported; raises OptionMissing if true.
    - `mode`: "sum", "mean" or "max". An empty bag gives zeros.
    - `sparse`: ignored.
    - `per_sample_weights`: factors of the rows, for "sum" only, in the shape of `input`.
    - `include_last_offset`: the last offset is the end of the last bag. As in PyTorch, a mean of the last bag still
      counts the indices after it.
    - `padding_idx`: rows with this index are left out of the bags.

    Raises OptionInvalid (a ValueError) for another mode or for `offsets` that do not suit `input`. Raises OptionMissing
    for weights with another mode than "sum", and ShapeError for offsets that do not ascend from 0 within the input.

    >>> import lazytensor as lt
    >>> lt.nn.functional.embedding_bag(lt.tensor([[0, 1]]), lt.tensor([[1.0, 2.0], [3.0, 4.0]]), mode="sum")
    tensor([[4., 6.]])
    """
    refuse_options(scale_grad_by_freq=scale_grad_by_freq)
    if input.dtype.kind == "f" and weight.dtype.kind == "i":
        input, weight = weight, input  # the arguments in their former order, which PyTorch still accepts
    if mode not in ("sum", "mean", "max"):
        raise OptionInvalid(
            f"mode has to be one of sum, mean or max, but got {mode!r}",
            where=source.where(),
            hint='Pass mode="sum", mode="mean" or mode="max".',
        )
    if per_sample_weights is not None and mode != "sum":
        raise OptionMissing(
            f"embedding_bag: per_sample_weights is only supported for mode='sum', but got mode={mode!r}",
            where=source.where(),
            hint='Pass mode="sum", or omit per_sample_weights.',
        )
    bags, count = _bag_of_each_row(input, offsets, include_last_offset)
    if offsets is not None:
        _check_offsets(offsets, input.spec.shape[0])
    # The rows of all bags are looked up at once; `bags` has the bag of each row.
    flat = reshape(input, -1)
    is_plain = per_sample_weights is None and padding_idx is None and max_norm is None and not include_last_offset
    if mode != "max" and is_plain and weight.ndim == 2 and half_type() is None:
        # One operation, so that the rows of all bags are not stored.
        numbers = [operand_node(pw.cast_to(i, dt.int64)) for i in (_check_row_indices(flat, weight), bags)]
        total = tensor_of(call("add_rows", operand_node(weight), *numbers, count=count), weight)
        if mode == "sum":
            return total
        if input.ndim == 2:
            return total / float(max(input.spec.shape[1], 1))
        return _mean_of_bags(total, bags, count, None)
    rows = embedding(flat, weight, None, max_norm, norm_type)
    if per_sample_weights is not None:
        rows = rows * unsqueeze(reshape(per_sample_weights, -1), -1)
    pad = _normalize_row(padding_idx, weight.spec.shape[0])
    kept = None if pad is None else flat != pad
    if include_last_offset and offsets is not None:
        if not count:
            return zeros(0, weight.spec.shape[1], dtype=weight.dtype, device=weight.device)
        # Rows after the last offset are in no bag. As in PyTorch, a mean still counts them.
        inside = arange(input.spec.shape[0], dtype=offsets.dtype) < offsets[-1:]
        rows = pw.where(unsqueeze(inside, -1), rows, -math.inf if mode == "max" else 0.0)
    return _max_of_bags(rows, bags, count, kept) if mode == "max" else _sum_bags(rows, bags, count, kept, mode)


def _check_offsets(offsets: Tensor, length: int) -> None:
    """Raise ShapeError unless `offsets` start at 0, ascend, and end within an input of `length` elements.

    Inside a step, where offsets have no values, nothing is checked.
    """
    if storage.thread_state.current is not None or not offsets.spec.size:
        return
    values = offsets.array("embedding_bag()")
    first, last = values[[0, -1]]
    if first:
        text = "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
        raise ShapeError(f"{text}However, got {first}", where=source.where(), hint="Start the offsets at 0.")
    if last > length:
        text = f"offsets[-1] can not be greater than input's length {length} but got offsets[-1] of {last}"
        raise ShapeError(text, where=source.where(), hint="Reduce the last offset to the number of indices.")
    if (np.diff(values) < 0).any():
        raise ShapeError("offsets must be in ascending order", where=source.where(), hint="Sort the offsets.")


def _bag_of_each_row(input: Tensor, offsets: Tensor | None, include_last: bool) -> tuple[Tensor, int]:
    """Return the index of each row's bag, as a vector, and the number of bags.

    Raises OptionInvalid (a ValueError) if `offsets` does not suit the rank of `input`.
    """
    if input.ndim == 2:
        if offsets is not None:
            raise OptionInvalid(
                "if input is 2D, then offsets has to be None, as input is a mini-batch",
                where=source.where(),
                hint="Omit offsets, or flatten the input.",
            )
        n, length = input.spec.shape
        return reshape(expand(view(arange(n), (n, 1)), (n, length)), -1), n
    if input.ndim != 1 or offsets is None:
        raise OptionInvalid(
            f"if input is 1D, offsets has to be a 1D Tensor, but got an input of shape {list(input.shape)}",
            where=source.where(),
            hint="Pass the start of each bag as a 1D tensor of integers.",
        )
    count = offsets.spec.shape[0] - int(include_last)
    starts = offsets[:count]
    places = arange(input.spec.shape[0], dtype=offsets.dtype)
    # A row belongs to the last bag that starts at or before it. Empty bags have equal starts.
    return searchsorted(starts, places, right=True) - 1, count


def _sum_bags(rows: Tensor, bags: Tensor, count: int, kept: Tensor | None, mode: str) -> Tensor:
    """Return the sum or mean of the rows of each bag: [count, dim]. Rows where `kept` is false are left out.

    `bags` has the bag of each row. A mean divides by the number of rows that are not left out. An empty bag gives
    zeros.
    """
    if kept is not None:
        rows = pw.where(unsqueeze(kept, -1), rows, 0.0)
    empty = zeros(count, rows.spec.shape[1], dtype=rows.dtype, device=rows.device)
    total = index_add(empty, 0, bags, rows)
    return total if mode == "sum" else _mean_of_bags(total, bags, count, kept)


def _mean_of_bags(total: Tensor, bags: Tensor, count: int, kept: Tensor | None) -> Tensor:
    """Return the sums of the bags divided by the number of their rows, without those where `kept` is false."""
    # Bag indices are at least 0, so the comparison gives ones in the shape and on the device of the bags.
    one = pw.cast_to(bags >= 0 if kept is None else kept, total.dtype)
    sizes = index_add(zeros(count, dtype=total.dtype, device=total.device), 0, bags, one)
    # An empty bag is 0, not 0 / 0.
    return total / unsqueeze(pw.maximum(sizes, 1.0), -1)


def _max_of_bags(rows: Tensor, bags: Tensor, count: int, kept: Tensor | None) -> Tensor:
    """Return the maximum of the rows of each bag, zeros for an empty bag: [count, dim].

    `bags` has the bag of each row. Rows where `kept` is false are left out. A maximum of -inf becomes 0.
    """
    if kept is not None:
        rows = pw.where(unsqueeze(kept, -1), rows, -math.inf)
    # A bag that still contains -inf is empty.
    none = zeros(count, rows.spec.shape[1], dtype=rows.dtype, device=rows.device) + -math.inf
    wide = expand(unsqueeze(bags, -1), rows.spec.shape)
    largest = scatter_reduce(none, 0, wide, rows, "amax", include_self=True)
    return pw.where(largest == -math.inf, 0.0, largest)


def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """Return int64 one-hot vectors of the class indices `input` [...]: [..., num_classes].

    `num_classes` = -1 uses the largest index plus one. Raises ShapeError if `input` is not int64, if it is empty and
    `num_classes` is -1, or if an index is out of range. Inside a step indices are not checked, and one out of range
    gives a vector of zeros.

    >>> import lazytensor as lt
    >>> lt.nn.functional.one_hot(lt.tensor([0, 2]), 3)
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if input.dtype is not dt.int64:
        raise ShapeError(
            f"one_hot is only applicable to index tensor of type LongTensor. Got {input.dtype.name}.",
            where=source.where(),
            hint="Convert the indices first, for example with .long().",
        )
    num_classes = operator.index(num_classes)
    if num_classes == -1:
        if not input.spec.size:
            raise ShapeError(
                f"Can not infer total number of classes from empty tensor. Got the shape {list(input.shape)}.",
                where=source.where(),
                hint="Pass num_classes.",
            )
        num_classes = int(red.amax(input)) + 1
    # Inside a step the indices have no values to check; one out of range gives zeros.
    if storage.thread_state.current is None and input.spec.size and input.device.type != "meta":
        values = input.array("one_hot()")
        if values.min() < 0 or values.max() >= num_classes:
            raise ShapeError(
                "Class values must be non-negative and smaller than num_classes."
                f" Got values from {values.min()} to {values.max()}, and num_classes={num_classes}.",
                where=source.where(),
                hint="Increase num_classes, or remove negative indices.",
            )
    device = input.device if input.device.type == "meta" else None
    return pw.cast_to(unsqueeze(input, -1) == arange(num_classes, device=device), dt.int64)
