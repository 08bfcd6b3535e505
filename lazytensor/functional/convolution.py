"""Convolutions of one to three dimensions and their transposes, cast to the half type where automatic casts are on."""

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
    """One number for each of `rank` dimensions. Raises ShapeError for another count."""
    if isinstance(value, int):
        return (value,) * rank
    given = tuple(int(v) for v in value)
    # torch takes (3,) for 3, as configurations write it.
    if len(given) == 1:
        return given * rank
    if len(given) != rank:
        raise ShapeError(
            f"expected {what} to be a single integer value or a list of {rank} values, got {list(given)}",
            where=source.where(),
        )
    return given


def _padding(padding: str | Extents, kernel: tuple[int, ...], dilation: tuple[int, ...], stride: Any) -> Pairs:
    """Places before and after each spatial dimension. Raises ShapeError for negative ones, and "same" with a stride."""
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding == "same":
        # With a stride no padding gives the extent of the input, which is what the word promises.
        if any(s != 1 for s in stride):
            raise ShapeError("padding='same' is not supported for strided convolutions", where=source.where())
        # What a kernel with its holes reaches beyond the place it is at.
        total = (d * (k - 1) for k, d in zip(kernel, dilation, strict=True))
        # The odd place of an even kernel goes behind, as in PyTorch.
        return tuple((t // 2, t - t // 2) for t in total)
    if isinstance(padding, str):
        raise ShapeError(f"Invalid padding string {padding!r}, should be one of 'valid', 'same'", where=source.where())
    pairs = tuple((p, p) for p in to_ntuple(padding, len(kernel), "padding"))
    if any(p < 0 for p, _ in pairs):
        raise ShapeError("negative padding is not supported", where=source.where(), hint="Slice the input.")
    return pairs


def _operands(name: str, rank: int, input: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Node, ...]:
    """Input (with a batch dimension), weight and bias as nodes of one dtype."""
    if input.ndim not in (rank + 1, rank + 2):
        raise ShapeError(
            f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {name}, but got input of size: "
            f"{list(input.shape)}",
            where=source.where(),
        )
    # Together, so that all three take the half type or none does.
    given = cast_layer_operands(*(operand_node(t) for t in (input, weight, bias) if t is not None))
    x, w, *b = given
    if any(n.type.dtype is not w.type.dtype for n in given):
        raise ShapeError(
            f"Input type ({x.type.dtype.name}) and weight or bias type ({w.type.dtype.name}) should be the same",
            where=source.where(),
            hint="Convert the input or the module with .to(dtype).",
        )
    # The operation has a batch dimension always; `_add_bias_and_unbatch` takes it away again.
    return reshape(x, x.type.shape if input.ndim == rank + 2 else (1, *x.type.shape)), w, *b


def _add_bias_and_unbatch(y: Node, bias: list[Node], input: Tensor, weight: Tensor, rank: int) -> Tensor:
    """The result with its bias and without the batch dimension where the input had none."""
    if bias:
        # Asked of the result, whose second extent is the number of outputs for both kinds of convolution.
        if bias[0].type.shape != y.type.shape[1:2]:
            raise ShapeError(
                f"expected bias to be 1-dimensional with {y.type.shape[1]} elements, but got bias of size "
                f"{list(bias[0].type.shape)}",
                where=source.where(),
            )
        # CIRH knows the bias as an operation of its own, and its gradient too.
        y = call("bias_add", y, bias[0], dim=1)
    return tensor_of(y if input.ndim == rank + 2 else reshape(y, y.type.shape[1:]), input, weight)


def _conv(rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, *options: Any) -> Tensor:
    x, w, *b = _operands(f"conv{rank}d", rank, input, weight, bias)
    names = ("stride", "padding", "dilation")
    stride, dilation = (to_ntuple(options[i], rank, names[i]) for i in (0, 2))
    if min((*stride, *dilation)) < 1:
        raise ShapeError("non-positive stride or dilation is not supported", where=source.where())
    # Only now: what "same" means depends on the kernel, the dilation and the stride.
    padding = _padding(options[1], w.type.shape[2:], dilation, stride)
    y = call("conv", x, w, stride=stride, padding=padding, dilation=dilation, groups=options[3])
    return _add_bias_and_unbatch(y, b, input, weight, rank)


def _conv_transpose(rank: int, input: Tensor, weight: Tensor, bias: Tensor | None, *options: Any) -> Tensor:
    x, w, *b = _operands(f"conv_transpose{rank}d", rank, input, weight, bias)
    names = ("stride", "padding", "output_padding", "dilation")
    given = [to_ntuple(v, rank, n) for v, n in zip((*options[:3], options[4]), names, strict=True)]
    stride, padding, more, dilation = given
    # Beyond that, places would get nothing but the bias: no convolution leads back to them.
    if any(m >= max(s, d) for m, s, d in zip(more, stride, dilation, strict=True)):
        raise ShapeError(
            f"output padding must be smaller than either stride or dilation, but got output_padding: {list(more)}, "
            f"stride: {list(stride)}, dilation: {list(dilation)}",
            where=source.where(),
        )
    sizes = zip(x.type.shape[2:], w.type.shape[2:], stride, padding, more, dilation, strict=True)
    # The extents that a convolution with these options would shrink to e; `more` says which of the s that do.
    extents = tuple((e - 1) * s - 2 * p + d * (k - 1) + m + 1 for e, k, s, p, m, d in sizes)
    if min(extents) < 0:
        raise ShapeError(f"the output would have the extents {list(extents)}", where=source.where())
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
    """[N, C, L] with weight [out, C / groups, k] and bias [out] -> [N, out, L'].

    The batch dimension may be missing. Raises ShapeError if shapes, types or options do not fit.

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
    """[N, C, H, W] with weight [out, C / groups, kh, kw] and bias [out] -> [N, out, H', W'].

    The batch dimension may be missing. Raises ShapeError if shapes, types or options do not fit.

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
    """[N, C, D, H, W] with weight [out, C / groups, kd, kh, kw] and bias [out] -> [N, out, D', H', W'].

    The batch dimension may be missing. Raises ShapeError if shapes, types or options do not fit.

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
    """The adjoint of conv1d: [N, C, L] with weight [C, out / groups, k] and bias [out] -> [N, out, L'].

    The batch dimension may be missing. Raises ShapeError if shapes, types or options do not fit.

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
    """The adjoint of conv2d: [N, C, H, W] with weight [C, out / groups, kh, kw] and bias [out] -> [N, out, H', W'].

    The batch dimension may be missing. Raises ShapeError if shapes, types or options do not fit.

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
    """The adjoint of conv3d: [N, C, D, H, W] with weight [C, out / groups, kd, kh, kw] and bias [out] -> [N, out, ...].

    The batch dimension may be missing. Raises ShapeError if shapes, types or options do not fit.

    >>> import lazytensor as lt
    >>> lt.conv_transpose3d(lt.ones(1, 2, 2, 2, 2), lt.ones(2, 1, 2, 2, 2)).shape
    lazytensor.Size([1, 1, 3, 3, 3])
    """
    return _conv_transpose(3, input, weight, bias, stride, padding, output_padding, groups, dilation)
