"""Convolutions and transposed convolutions over one to three spatial dimensions.

While automatic casts are on, input, weight and bias are converted to the half type.
"""

from collections.abc import Sequence
from typing import Any

from lazytensor.core import source
from lazytensor.core.autocast import cast_layer_operands
from lazytensor.core.tensor import Tensor, operand_node
from lazytensor.errors import ShapeError
from lazytensor.functional.pointwise import tensor_of
from lazytensor.ir.graph import Node
from lazytensor.ops import call
from lazytensor.ops.conv import Pairs
from lazytensor.ops.shape import reshape

Extents = int | Sequence[int]


def to_ntuple(value: Any, rank: int, what: str) -> tuple[int, ...]:
    """Return `value` as a tuple of `rank` integers. An integer or a one-element sequence is repeated.

    `what` names the option in the error. Raises ShapeError if a sequence has another length.
    """
    if isinstance(value, int):
        return (value,) * rank
    given = tuple(int(v) for v in value)
    # PyTorch accepts (3,) in place of 3, as some configurations write it.
    if len(given) == 1:
        return given * rank
    if len(given) != rank:
        raise ShapeError(
            f"expected {what} to be a single integer value or a list of {rank} values, got {list(given)}",
            where=source.where(),
            hint="Pass one integer, or one for each spatial dimension.",
        )
    return given


def _padding(padding: str | Extents, kernel: tuple[int, ...], dilation: tuple[int, ...], stride: Any) -> Pairs:
    """Return the padding before and after each spatial dimension, as pairs of element counts.

    `padding` is "valid" (none), "same" (output extent = input extent), or counts for both sides. Raises ShapeError for
    other strings, for negative counts, and for "same" with a stride other than 1.
    """
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding == "same":
        # With a stride no padding can give the extent of the input.
        if any(s != 1 for s in stride):
            raise ShapeError(
                f"padding='same' is not supported for strided convolutions: {list(stride)}",
                where=source.where(),
                hint="Pass stride=1, or give the padding as numbers.",
            )
        # The extent of the dilated kernel, less one.
        total = (d * (k - 1) for k, d in zip(kernel, dilation, strict=True))
        # An odd total puts the extra element at the end, as in PyTorch.
        return tuple((t // 2, t - t // 2) for t in total)
    if isinstance(padding, str):
        raise ShapeError(
            f"Invalid padding string {padding!r}, should be one of 'valid', 'same'",
            where=source.where(),
            hint='Pass "valid", "same" or numbers.',
        )
    pairs = tuple((p, p) for p in to_ntuple(padding, len(kernel), "padding"))
    if any(p < 0 for p, _ in pairs):
        raise ShapeError(
            f"negative padding is not supported: {list(pairs)}", where=source.where(), hint="Slice the input instead."
        )
    return pairs


def _operands(name: str, rank: int, input: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Node, ...]:
    """Return the nodes of `input`, `weight` and (if given) `bias`, cast together and checked to be of one dtype.

    The input node always has a batch dimension: one of extent 1 is added to an input of `rank` + 1 dimensions. Raises
    ShapeError if `input` has another number of dimensions or the dtypes differ. `name` is the function's name in the
    error.
    """
    if input.ndim not in (rank + 1, rank + 2):
        raise ShapeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got input of size: "
            f"{list(input.shape)}",
            where=source.where(),
            hint="Add or remove dimensions, for example with unsqueeze(0) for the batch.",
        )
    # Cast together, so that either all three are converted or none.
    given = cast_layer_operands(*(operand_node(t) for t in (input, weight, bias) if t is not None))
    x, w, *b = given
    if any(n.type.dtype is not w.type.dtype for n in given):
        raise ShapeError(
            f"Input type ({x.type.dtype.name}) and weight or bias type ({w.type.dtype.name}) should be the same",
            where=source.where(),
            hint="Convert the input or the module with .to(dtype).",
        )
    # The operation needs a batch dimension; `_add_bias_and_unbatch` removes it.
    return reshape(x, x.type.shape if input.ndim == rank + 2 else (1, *x.type.shape)), w, *b


def _add_bias_and_unbatch(y: Node, bias: list[Node], input: Tensor, weight: Tensor, rank: int) -> Tensor:
    """Return `y` plus the bias as a tensor, without the batch dimension if `input` had none.

    `bias` has zero or one node. Raises ShapeError if its shape is not [output channels].
    """
    if bias:
        # Dimension 1 of the result is the number of output channels for both kinds of convolution.
        if bias[0].type.shape != y.type.shape[1:2]:
            raise ShapeError(
                f"expected bias to be 1-dimensional with {y.type.shape[1]} elements, but got bias of size "
                f"{list(bias[0].type.shape)}",
                where=source.where(),
                hint="Pass a bias with one element for each output channel.",
            )
        # CIRH has a separate operation for the bias and for its gradient.
        y = call("bias_add", y, bias[0], dim=1)
    return tensor_of(y if input.ndim == rank + 2 else reshape(y, y.type.shape[1:]), input, weight)


def _conv(rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, *options: Any) -> Tensor:
    """Return the convolution with `rank` spatial dimensions. `options` are stride, padding, dilation and groups.

    Raises ShapeError if a stride or dilation is less than 1, and as `_operands` and `_padding` do.
    """
    x, w, *b = _operands(f"conv{rank}d", rank, input, weight, bias)
    names = ("stride", "padding", "dilation")
    stride, dilation = (to_ntuple(options[i], rank, names[i]) for i in (0, 2))
    if min((*stride, *dilation)) < 1:
        raise ShapeError(
            f"non-positive stride or dilation is not supported: stride={list(stride)}, dilation={list(dilation)}",
            where=source.where(),
            hint="Pass a stride and a dilation of at least 1.",
        )
    # "same" depends on the kernel, the dilation and the stride.
    padding = _padding(options[1], w.type.shape[2:], dilation, stride)
    y = call("conv", x, w, stride=stride, padding=padding, dilation=dilation, groups=options[3])
    return _add_bias_and_unbatch(y, b, input, weight, rank)


def _conv_transpose(rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, *options: Any) -> Tensor:
    """Return the transposed convolution with `rank` spatial dimensions.

    `options` are stride, padding, output_padding, groups and dilation. Raises ShapeError if an output padding is not
    less than the stride or the dilation of its dimension, or if the padding would make an output extent negative.
    """
    x, w, *b = _operands(f"conv_transpose{rank}d", rank, input, weight, bias)
    names = ("stride", "padding", "output_padding", "dilation")
    given = [to_ntuple(v, rank, n) for v, n in zip((*options[:3], options[4]), names, strict=True)]
    stride, padding, more, dilation = given
    # With more output padding, elements would receive the bias only.
    if any(m >= max(s, d) for m, s, d in zip(more, stride, dilation, strict=True)):
        raise ShapeError(
            f"output padding must be smaller than either stride or dilation, but got output_padding: {list(more)}, "
            f"stride: {list(stride)}, dilation: {list(dilation)}",
            where=source.where(),
            hint="Reduce output_padding below the stride or the dilation.",
        )
    sizes = zip(x.type.shape[2:], w.type.shape[2:], stride, padding, more, dilation, strict=True)
    # The extents that a convolution with these options reduces to e. `more` selects one of the s candidates.
    extents = tuple((e - 1) * s - 2 * p + d * (k - 1) + m + 1 for e, k, s, p, m, d in sizes)
    if min(extents) < 0:
        raise ShapeError(
            f"the output would have negative extents: {list(extents)}",
            where=source.where(),
            hint="Increase the input or the padding, or reduce the kernel or the dilation.",
        )
    pairs = tuple((p, p) for p in padding)
    y = call(
        "conv_transposed", x, w, extents=extents, stride=stride, padding=pairs, dilation=dilation, groups=options[3]
    )
    return _add_bias_and_unbatch(y, b, input, weight, rank)


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extents = 1,
    padding: str | Extents = 0,
    dilation: Extents = 1,
    groups: int = 1,
) -> Tensor:
    """Return the 1-D convolution (cross-correlation) of `input` with `weight`, plus `bias`: [N, out, L'] or [out, L'].

    - `input`: [N, C, L] or, without a batch dimension, [C, L].
    - `weight`: [out, C / groups, k]; `bias`: [out] or None.
    - `stride`, `dilation`: integers or one-element sequences.
    - `padding`: zeros added at both ends, "valid" for none, or "same" for an output as long as the input (stride 1
      only).
    - `groups`: number of channel groups, each convolved separately.

    Raises ShapeError if shapes, dtypes or options do not fit.

    >>> import lazytensor as lt
    >>> lt.nn.functional.conv1d(lt.tensor([[1.0, 2.0, 4.0]]), lt.tensor([[[-1.0, 1.0]]]))
    tensor([[1., 2.]])
    """
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extents = 1,
    padding: str | Extents = 0,
    dilation: Extents = 1,
    groups: int = 1,
) -> Tensor:
    """Return the 2-D convolution (cross-correlation) of `input` with `weight`, plus `bias`: [N, out, H', W'].

    - `input`: [N, C, H, W] or, without a batch dimension in input and result, [C, H, W].
    - `weight`: [out, C / groups, kh, kw]; `bias`: [out] or None.
    - `stride`, `dilation`: one integer or one for each of H and W.
    - `padding`: zeros added on both sides, one integer or one for each of H and W; "valid" for none; or "same" for the
      extents of the input (stride 1 only).
    - `groups`: number of channel groups, each convolved separately.

    Raises ShapeError if shapes, dtypes or options do not fit.

    >>> import lazytensor as lt
    >>> lt.nn.functional.conv2d(lt.ones(1, 3, 8, 8), lt.ones(4, 3, 3, 3), padding=1).shape
    lazytensor.Size([1, 4, 8, 8])
    """
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extents = 1,
    padding: str | Extents = 0,
    dilation: Extents = 1,
    groups: int = 1,
) -> Tensor:
    """Return the 3-D convolution (cross-correlation) of `input` with `weight`, plus `bias`: [N, out, D', H', W'].

    - `input`: [N, C, D, H, W] or, without a batch dimension in input and result, [C, D, H, W].
    - `weight`: [out, C / groups, kd, kh, kw]; `bias`: [out] or None.
    - `stride`, `dilation`: one integer or one for each of D, H and W.
    - `padding`: zeros added on both sides, one integer or three; "valid" for none; or "same" for the extents of the
      input (stride 1 only).
    - `groups`: number of channel groups, each convolved separately.

    Raises ShapeError if shapes, dtypes or options do not fit.

    >>> import lazytensor as lt
    >>> lt.nn.functional.conv3d(lt.ones(1, 1, 4, 4, 4), lt.ones(2, 1, 3, 3, 3)).shape
    lazytensor.Size([1, 2, 2, 2, 2])
    """
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extents = 1,
    padding: Extents = 0,
    output_padding: Extents = 0,
    groups: int = 1,
    dilation: Extents = 1,
) -> Tensor:
    """Return the transposed 1-D convolution of `input` (the gradient of `conv1d` by its input), plus `bias`.

    The result is [N, out, L'].

    - `input`: [N, C, L] or, without a batch dimension in input and result, [C, L].
    - `weight`: [C, out / groups, k]; `bias`: [out] or None.
    - `stride`, `padding`, `dilation`, `groups`: those of the `conv1d` that maps [out, L'] to [C, L].
    - `output_padding`: extent added to L', less than `stride` or `dilation`.

    L' = (L - 1) * stride - 2 * padding + dilation * (k - 1) + output_padding + 1. Raises ShapeError if shapes, dtypes
    or options do not fit.

    >>> import lazytensor as lt
    >>> lt.nn.functional.conv_transpose1d(lt.tensor([[1.0, 2.0]]), lt.tensor([[[1.0, 1.0]]]), stride=2)
    tensor([[1., 1., 2., 2.]])
    """
    return _conv_transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extents = 1,
    padding: Extents = 0,
    output_padding: Extents = 0,
    groups: int = 1,
    dilation: Extents = 1,
) -> Tensor:
    """Return the transposed 2-D convolution of `input` (the gradient of `conv2d` by its input), plus `bias`.

    - `input`: [N, C, H, W]; the result is [N, out, H', W']. The batch dimension may be missing in both.
    - `weight`: [C, out / groups, kh, kw]; `bias`: [out] or None.
    - `stride`, `padding`, `dilation`, `groups`: those of the `conv2d` that maps [out, H', W'] to [C, H, W].
    - `output_padding`: extent added to H' and W', less than `stride` or `dilation`.

    H' = (H - 1) * stride - 2 * padding + dilation * (kh - 1) + output_padding + 1, and W' likewise. Raises ShapeError
    if shapes, dtypes or options do not fit.

    >>> import lazytensor as lt
    >>> lt.nn.functional.conv_transpose2d(lt.ones(1, 4, 8, 8), lt.ones(4, 3, 2, 2), stride=2).shape
    lazytensor.Size([1, 3, 16, 16])
    """
    return _conv_transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extents = 1,
    padding: Extents = 0,
    output_padding: Extents = 0,
    groups: int = 1,
    dilation: Extents = 1,
) -> Tensor:
    """Return the transposed 3-D convolution of `input` (the gradient of `conv3d` by its input), plus `bias`.

    - `input`: [N, C, D, H, W]; the result is [N, out, D', H', W']. The batch dimension may be missing in both.
    - `weight`: [C, out / groups, kd, kh, kw]; `bias`: [out] or None.
    - `stride`, `padding`, `dilation`, `groups`: those of the `conv3d` that maps the result's shape to the input's.
    - `output_padding`: extent added to D', H' and W', less than `stride` or `dilation`.

    D' = (D - 1) * stride - 2 * padding + dilation * (kd - 1) + output_padding + 1; H' and W' likewise. Raises
    ShapeError if shapes, dtypes or options do not fit.

    >>> import lazytensor as lt
    >>> lt.conv_transpose3d(lt.ones(1, 2, 2, 2, 2), lt.ones(2, 1, 2, 2, 2)).shape
    lazytensor.Size([1, 1, 3, 3, 3])
    """
    return _conv_transpose(3, input, weight, bias, stride, padding, output_padding, groups, dilation)
