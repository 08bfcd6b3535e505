"""Matrix products of tensors and of layers (`linear`).

Products of layers use the half type while automatic casts are on.
"""

import math

from lazytensor.core import source
from lazytensor.core.autocast import cast_layer_operands, cast_to_float32, half_type, host_autocast, host_half_type
from lazytensor.core.dtype import float32
from lazytensor.core.tensor import Tensor, operand_node
from lazytensor.core.tensor_members import method
from lazytensor.errors import IndexInvalid, ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction, views
from lazytensor.functional.half_precision import round_once, uses_host_kernels
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.type_promotion import Operand, broadcast_shape, mixed_dtypes_error, require_elements
from lazytensor.ir.graph import Node
from lazytensor.ops import call
from lazytensor.ops.elementwise import cast
from lazytensor.ops.products import matmul as product
from lazytensor.ops.reduce import reduce
from lazytensor.ops.shape import broadcast_to, reshape


def _matmul_operands(a: Tensor, b: Tensor) -> tuple[Node, Node]:
    """Return the nodes of both operands in one dtype, with automatic casts.

    Raises ShapeError if their dtypes differ.
    """
    x, y = operand_node(a), operand_node(b)
    if host_half_type() is not None:
        x, y = cast_layer_operands(x, y)
    if x.type.dtype is not y.type.dtype:  # calls of a script were cast before; others use float32
        x, y = cast_to_float32(x, y)
    if x.type.dtype is not y.type.dtype:
        types = f"{x.type.dtype.name} != {y.type.dtype.name}"
        text = f"expected m1 and m2 to have the same dtype, but got: {types}"
        raise mixed_dtypes_error(x.type.dtype, y.type.dtype, text)
    return x, y


@method
def mm(a: Tensor, b: Tensor) -> Tensor:
    """Return the matrix product of `a` [m, k] and `b` [k, n]: [m, n].

    Raises ShapeError unless both are matrices with matching extents and one dtype.

    >>> import lazytensor as lt
    >>> lt.mm(lt.tensor([[1, 2]]), lt.tensor([[3], [4]]))
    tensor([[11]])
    """
    if a.ndim != 2 or b.ndim != 2:
        raise ShapeError(
            f"mm expects two matrices, but got {list(a.shape)} and {list(b.shape)}",
            where=source.where(),
            hint="Use torch.matmul, or reshape the operands to matrices.",
        )
    return tensor_of(product(*_matmul_operands(a, b)), a, b)


@method
def bmm(a: Tensor, b: Tensor) -> Tensor:
    """Return the matrix products of two batches, [b, m, k] and [b, k, n]: [b, m, n].

    Raises ShapeError unless both have three dimensions, matching extents and one dtype.

    >>> import lazytensor as lt
    >>> lt.bmm(lt.ones(2, 1, 3), lt.ones(2, 3, 4)).shape
    lazytensor.Size([2, 1, 4])
    """
    if a.ndim != 3 or b.ndim != 3:
        raise ShapeError(
            f"bmm expects two 3-d tensors, but got {list(a.shape)} and {list(b.shape)}",
            where=source.where(),
            hint="Use torch.matmul, or add the batch dimension with unsqueeze(0).",
        )
    return tensor_of(product(*_matmul_operands(a, b)), a, b)


@method(operator="matmul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return the matrix product of `a` [..., m, k] and `b` [..., k, n]: [..., m, n]. Batch dimensions broadcast.

    A vector `a` counts as a row and a vector `b` as a column; the dimension that this adds is removed from the result.
    Raises ShapeError for a 0-d operand, extents that do not match, and different dtypes.

    >>> import lazytensor as lt
    >>> lt.matmul(lt.ones(2, 3), lt.ones(3, 4)).shape
    lazytensor.Size([2, 4])
    """
    if not a.ndim or not b.ndim:
        raise ShapeError(
            f"both arguments to matmul need to be at least 1D, but they are {a.ndim}D and {b.ndim}D",
            where=source.where(),
            hint="Multiply by a 0-d tensor with *.",
        )
    if a.ndim == 1 or b.ndim == 1:
        left = views.unsqueeze(a, 0) if a.ndim == 1 else a
        right = views.unsqueeze(b, 1) if b.ndim == 1 else b
        out = matmul(left, right)
        # Remove the extent of 1 that was added for a vector.
        gone = [d for d, one in ((-2, a.ndim == 1), (-1, b.ndim == 1)) if one]
        return views.view(out, tuple(e for d, e in enumerate(out.shape) if d - out.ndim not in gone))
    x, y = _matmul_operands(a, b)
    if y.type.shape[:-2] == () and len(x.type.shape) > 2:
        # One large product of all rows is faster than many small ones.
        rows = reshape(x, (math.prod(x.type.shape[:-1]), x.type.shape[-1]))
        return tensor_of(reshape(product(rows, y), (*x.type.shape[:-1], y.type.shape[-1])), a, b)
    # The operation needs equal batch extents.
    lead = broadcast_shape(x.type.shape[:-2], y.type.shape[:-2])
    x = broadcast_to(x, (*lead, *x.type.shape[-2:]))
    y = broadcast_to(y, (*lead, *y.type.shape[-2:]))
    return tensor_of(product(x, y), a, b)


@method
def dot(a: Tensor, b: Tensor) -> Tensor:
    """Return the inner product of two vectors [n], as a 0-d tensor.

    Raises ShapeError unless both are vectors of one length, and TypeUnsupported for bool.

    >>> import lazytensor as lt
    >>> lt.dot(lt.tensor([1, 2]), lt.tensor([3, 4]))
    tensor(11)
    """
    if a.ndim != 1 or b.ndim != 1 or a.shape != b.shape:
        raise ShapeError(
            f"dot expects two vectors of the same length, but got {list(a.shape)} and {list(b.shape)}",
            where=source.where(),
            hint="Use torch.matmul for matrices, or make the lengths equal.",
        )
    require_elements(a, "fi", "dot")
    if a.dtype is float32 and b.dtype is float32 and uses_host_kernels(a, b):
        # A loop with an elementwise gradient, where a product of matrices has outer products as gradients.
        return tensor_of(reduce(operand_node(a) * operand_node(b), "add", (0,)), a, b)
    with host_autocast(None):
        return matmul(a, b)


@method
def mv(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of a matrix [m, k] and a vector [k]: [m].

    Raises IndexInvalid if `a` is 0-d, and ShapeError for other ranks or extents that do not match.

    >>> import lazytensor as lt
    >>> lt.mv(lt.tensor([[1, 2], [3, 4]]), lt.tensor([1, 1]))
    tensor([3, 7])
    """
    if not a.ndim:
        raise IndexInvalid(
            f"mv expects a matrix and a vector, but got {a.spec} and {b.spec}",
            where=source.where(),
            hint="Use torch.matmul, or reshape the operands.",
        )
    if a.ndim != 2 or b.ndim != 1:
        raise ShapeError(
            f"mv expects a matrix and a vector, but got {a.spec} and {b.spec}",
            where=source.where(),
            hint="Make the vector as long as the rows of the matrix.",
        )
    # `mv` and `dot` are the only products that PyTorch's autocast on a CPU does not convert.
    with host_autocast(None):
        return matmul(a, b)


@method
def outer(a: Tensor, b: Tensor) -> Tensor:
    """Return the outer product of two vectors: a [m] and b [n] give [m, n] with a[i] * b[j].

    Raises ShapeError otherwise.

    >>> import lazytensor as lt
    >>> lt.outer(lt.tensor([1, 2]), lt.tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(
            f"outer expects two vectors, but got {a.spec} and {b.spec}",
            where=source.where(),
            hint="Flatten the operands with reshape(-1).",
        )
    # The row broadcasts without a new dimension, and the vendor's front end prints none.
    return views.unsqueeze(a, 1) * b


def add_scaled_product(x: Tensor, product: Tensor, beta: Operand, alpha: Operand) -> Tensor:
    """Return beta * x + alpha * product, broadcast. If `beta` is 0, `x` is ignored, even if it contains NaN.

    If both tensors are bool, they are combined by a logical or, and `beta` and `alpha` count as bools.
    """
    # Bools are added with `or`, as in PyTorch's kernels.
    if x.dtype.kind == "b" and product.dtype.kind == "b":
        return pw.logical_or(pw.logical_and(x, bool(beta)), pw.logical_and(product, bool(alpha)))
    product = product if pw.is_number(alpha, 1) else _scale(product, alpha)
    if pw.is_number(beta, 0):
        return views.expand(product, broadcast_shape(x.spec.shape, product.spec.shape))
    return (x if pw.is_number(beta, 1) else _scale(x, beta)) + product


def _scale(x: Tensor, factor: Operand) -> Tensor:
    """Return `x` times `factor`, which is truncated to an integer if `x` is an integer tensor."""
    return x * (int(factor) if x.dtype.kind == "i" and isinstance(factor, float) else factor)


def cast_addend(x: Tensor) -> Tensor:
    """Return `x`, converted to the type of the product inside PyTorch's autocast on a CPU."""
    return x if host_half_type() is None else tensor_of(cast_layer_operands(operand_node(x))[0], x)


def _require_one_dtype(x: Tensor, product: Tensor) -> tuple[Tensor, Tensor]:
    """Return both tensors. Raises ShapeError if the dtypes differ while no automatic casts are on."""
    if x.dtype is not product.dtype and half_type() is None and host_half_type() is None:
        text = f"self and mat2 must have the same dtype, got {x.spec} and {product.spec}"
        raise mixed_dtypes_error(x.dtype, product.dtype, text)
    return x, product


@method(in_place=True)
@round_once
def addmm(x: Tensor, a: Tensor, b: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
    """Return beta * x + alpha * (a @ b) for matrices [m, k] and [k, n]; `x` broadcasts to [m, n].

    If `beta` is 0, `x` is ignored. Raises ShapeError as `mm` does, and if the dtypes differ.

    >>> import lazytensor as lt
    >>> lt.addmm(lt.ones(1, 1), lt.ones(1, 2), lt.ones(2, 1))
    tensor([[3.]])
    """
    return add_scaled_product(*_require_one_dtype(cast_addend(x), mm(a, b)), beta, alpha)


@method(in_place=True)
@round_once
def baddbmm(x: Tensor, a: Tensor, b: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
    """Return beta * x + alpha * (a @ b) for batches [b, m, k] and [b, k, n]; `x` broadcasts to [b, m, n].

    If `beta` is 0, `x` is ignored. Raises IndexInvalid if `a` or `b` has too few dimensions, and ShapeError as `bmm`
    does.

    >>> import lazytensor as lt
    >>> lt.baddbmm(lt.ones(1, 1, 1), lt.ones(1, 1, 2), lt.ones(1, 2, 1))
    tensor([[[3.]]])
    """
    # PyTorch reads these extents first, to broadcast x.
    views.normalize_dim(1, a.ndim)
    views.normalize_dim(2, b.ndim)
    return add_scaled_product(*_require_one_dtype(cast_addend(x), bmm(a, b)), beta, alpha)


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return input @ weight.T + bias for `input` [..., in], `weight` [out, in] and `bias` [out]: [..., out].

    A `bias` of another shape is broadcast to the result. While automatic casts are on, the operands are converted to
    the half type. Raises ShapeError if shapes or dtypes do not fit.

    >>> import lazytensor as lt
    >>> lt.nn.functional.linear(lt.tensor([[1.0, 2.0]]), lt.tensor([[3.0, 4.0]]), lt.tensor([0.5]))
    tensor([[11.5000]])
    """
    pair = operand_node(input), operand_node(weight)
    operands = cast_layer_operands(*pair) if bias is None else cast_layer_operands(*pair, operand_node(bias))
    # Raises the error that names both types.
    if operands[0].type.dtype is not operands[1].type.dtype:
        _matmul_operands(input, weight)
    kind = operands[0].type.dtype
    if bias is not None and operands[2].type.shape != operands[1].type.shape[:1]:
        out = linear(input, weight)
        return out + views.expand(bias, out.spec.shape)
    if bias is not None and kind.is_half and half_type() is None:
        # On a CPU the sum with the bias is rounded once, as in PyTorch's kernel. The wafer adds to the rounded product.
        wide = call("linear", *(cast(n, float32) for n in operands))
        return tensor_of(cast(wide, kind), input, weight)
    return tensor_of(call("linear", *operands), input, weight)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x1^T W_k x2 + b_k for each output k: inputs [..., in1] and [..., in2] give [..., out].

    `weight` is [out, in1, in2] and `bias` [out]. Raises ShapeError if the inputs do not fit the weight.

    >>> import lazytensor as lt
    >>> lt.nn.functional.bilinear(lt.ones(1, 2), lt.ones(1, 3), lt.ones(1, 2, 3))
    tensor([[6.]])
    """
    outputs, first, second = weight.spec.shape
    if (input1.spec.shape[-1], input2.spec.shape[-1]) != (first, second):
        raise ShapeError(
            f"bilinear(): the inputs {list(input1.shape)} and {list(input2.shape)} do not match the weight "
            f"{list(weight.shape)}",
            where=source.where(),
            hint="Pass inputs whose last extents are in1_features and in2_features.",
        )
    # One product with all matrices stacked as [out * in2, in1]; the sum over in2 is elementwise.
    rows = linear(input1, views.reshape(views.transpose(weight, 1, 2), (outputs * second, first)))
    rows = views.reshape(rows, (*input1.spec.shape[:-1], outputs, second))
    out = reduction.sum(rows * views.unsqueeze(input2, -2), -1)
    return out if bias is None else out + bias
