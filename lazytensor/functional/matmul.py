"""Matrix products of tensors; those of layers (`linear`) run in the half type where automatic casts are on."""

import math

from lazytensor.core import source
from lazytensor.core.autocast import cast_layer_operands, cast_to_float32, half_type, host_autocast, host_half_type
from lazytensor.core.dtype import float32
from lazytensor.core.tensor import Tensor, operand_node
from lazytensor.core.tensor_members import method
from lazytensor.errors import IndexInvalid, ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction, views
from lazytensor.functional.half_precision import round_once
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.type_promotion import Operand, broadcast_shape, mixed_dtypes_error, require_elements
from lazytensor.ir.graph import Node
from lazytensor.ops import call
from lazytensor.ops.elementwise import cast
from lazytensor.ops.products import matmul as product
from lazytensor.ops.shape import broadcast_to, reshape


def _matmul_operands(a: Tensor, b: Tensor) -> tuple[Node, Node]:
    x, y = operand_node(a), operand_node(b)
    if host_half_type() is not None:
        x, y = cast_layer_operands(x, y)
    if x.type.dtype is not y.type.dtype:  # a script's calls of matmul were lowered before; others meet in float32
        x, y = cast_to_float32(x, y)
    if x.type.dtype is not y.type.dtype:
        types = f"{x.type.dtype.name} != {y.type.dtype.name}"
        text = f"expected m1 and m2 to have the same dtype, but got: {types}"
        raise mixed_dtypes_error(x.type.dtype, y.type.dtype, text)
    return x, y


@method
def mm(a: Tensor, b: Tensor) -> Tensor:
    """The product of two matrices: [m, k] @ [k, n] -> [m, n].

    Raises ShapeError for other ranks, extents that differ, and different types.

    >>> import lazytensor as lt
    >>> lt.mm(lt.tensor([[1, 2]]), lt.tensor([[3], [4]]))
    tensor([[11]])
    """
    if a.ndim != 2 or b.ndim != 2:
        raise ShapeError(f"mm needs two matrices, got {list(a.shape)} and {list(b.shape)}", where=source.where())
    return tensor_of(product(*_matmul_operands(a, b)), a, b)


@method
def bmm(a: Tensor, b: Tensor) -> Tensor:
    """The products of two stacks: [b, m, k] @ [b, k, n] -> [b, m, n]. Raises ShapeError as `mm` does.

    >>> import lazytensor as lt
    >>> lt.bmm(lt.ones(2, 1, 3), lt.ones(2, 3, 4)).shape
    lazytensor.Size([2, 1, 4])
    """
    if a.ndim != 3 or b.ndim != 3:
        raise ShapeError(f"bmm needs two 3-d tensors, got {list(a.shape)} and {list(b.shape)}", where=source.where())
    return tensor_of(product(*_matmul_operands(a, b)), a, b)


@method(operator="matmul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """The product of vectors, matrices or stacks: [..., m, k] @ [..., k, n] -> [..., m, n], leading extents broadcast.

    A vector counts as a row on the left, a column on the right. Raises ShapeError for numbers, and as `mm` does.

    >>> import lazytensor as lt
    >>> lt.matmul(lt.ones(2, 3), lt.ones(3, 4)).shape
    lazytensor.Size([2, 4])
    """
    if not a.ndim or not b.ndim:
        raise ShapeError("both arguments to matmul need to be at least 1D", where=source.where())
    if a.ndim == 1 or b.ndim == 1:
        left = views.unsqueeze(a, 0) if a.ndim == 1 else a
        right = views.unsqueeze(b, 1) if b.ndim == 1 else b
        out = matmul(left, right)
        # The vector's own extent of 1 disappears again.
        gone = [d for d, one in ((-2, a.ndim == 1), (-1, b.ndim == 1)) if one]
        return views.view(out, tuple(e for d, e in enumerate(out.shape) if d - out.ndim not in gone))
    x, y = _matmul_operands(a, b)
    if y.type.shape[:-2] == () and len(x.type.shape) > 2:
        # Rows of all matrices at once: one large product instead of many small ones.
        rows = reshape(x, (math.prod(x.type.shape[:-1]), x.type.shape[-1]))
        return tensor_of(reshape(product(rows, y), (*x.type.shape[:-1], y.type.shape[-1])), a, b)
    # The operation multiplies stacks of equal extents only.
    lead = broadcast_shape(x.type.shape[:-2], y.type.shape[:-2])
    x = broadcast_to(x, (*lead, *x.type.shape[-2:]))
    y = broadcast_to(y, (*lead, *y.type.shape[-2:]))
    return tensor_of(product(x, y), a, b)


@method
def dot(a: Tensor, b: Tensor) -> Tensor:
    """The inner product of two vectors [n]: a number. Raises ShapeError for other ranks or lengths.

    >>> import lazytensor as lt
    >>> lt.dot(lt.tensor([1, 2]), lt.tensor([3, 4]))
    tensor(11)
    """
    if a.ndim != 1 or b.ndim != 1 or a.shape != b.shape:
        raise ShapeError(f"dot needs two vectors of one length, got {list(a.shape)} and {list(b.shape)}")
    require_elements(a, "fi", "dot")
    with host_autocast(None):
        return matmul(a, b)


@method
def mv(a: Tensor, b: Tensor) -> Tensor:
    """A matrix times a vector: [m, k] @ [k] -> [m]. Raises IndexInvalid for a number, ShapeError as `mm` does.

    >>> import lazytensor as lt
    >>> lt.mv(lt.tensor([[1, 2], [3, 4]]), lt.tensor([1, 1]))
    tensor([3, 7])
    """
    if not a.ndim:
        raise IndexInvalid(f"mv expects a matrix and a vector, got {a.spec} and {b.spec}", where=source.where())
    if a.ndim != 2 or b.ndim != 1:
        raise ShapeError(f"mv expects a matrix and a vector, got {a.spec} and {b.spec}", where=source.where())
    # Of all products these two are those that PyTorch's casts on a CPU leave alone.
    with host_autocast(None):
        return matmul(a, b)


@method
def outer(a: Tensor, b: Tensor) -> Tensor:
    """All products of an element of a [m] with one of b [n]: [m, n].

    >>> import lazytensor as lt
    >>> lt.outer(lt.tensor([1, 2]), lt.tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"outer: expected two vectors, got {a.spec} and {b.spec}", where=source.where())
    # The row needs no dimension of its own to broadcast, and the front end prints none.
    return views.unsqueeze(a, 1) * b


def add_scaled_product(x: Tensor, product: Tensor, beta: Operand, alpha: Operand) -> Tensor:
    """beta * x + alpha * product, broadcast; with beta = 0 nothing of x is used, not even NaN."""
    # Truth values add up with `or`, as PyTorch's kernels do.
    if x.dtype.kind == "b" and product.dtype.kind == "b":
        return pw.logical_or(pw.logical_and(x, bool(beta)), pw.logical_and(product, bool(alpha)))
    product = product if pw.is_number(alpha, 1) else _scale(product, alpha)
    if pw.is_number(beta, 0):
        return views.expand(product, broadcast_shape(x.spec.shape, product.spec.shape))
    return (x if pw.is_number(beta, 1) else _scale(x, beta)) + product


def _scale(x: Tensor, factor: Operand) -> Tensor:
    """x times a factor that takes the dtype of x: integers stay integers."""
    return x * (int(factor) if x.dtype.kind == "i" and isinstance(factor, float) else factor)


def cast_addend(x: Tensor) -> Tensor:
    """What is added to a product: in its type where PyTorch's casts on a CPU are on."""
    return x if host_half_type() is None else tensor_of(cast_layer_operands(operand_node(x))[0], x)


def _require_one_dtype(x: Tensor, product: Tensor) -> tuple[Tensor, Tensor]:
    """Both, as PyTorch takes them where no casts are on. Raises ShapeError for unlike types."""
    if x.dtype is not product.dtype and half_type() is None and host_half_type() is None:
        text = f"self and mat2 must have the same dtype, got {x.spec} and {product.spec}"
        raise mixed_dtypes_error(x.dtype, product.dtype, text)
    return x, product


@method(in_place=True)
@round_once
def addmm(x: Tensor, a: Tensor, b: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
    """beta * x + alpha * (a @ b): x broadcasts to [m, n], [m, k] @ [k, n]. Raises ShapeError as `mm` does.

    >>> import lazytensor as lt
    >>> lt.addmm(lt.ones(1, 1), lt.ones(1, 2), lt.ones(2, 1))
    tensor([[3.]])
    """
    return add_scaled_product(*_require_one_dtype(cast_addend(x), mm(a, b)), beta, alpha)


@method(in_place=True)
@round_once
def baddbmm(x: Tensor, a: Tensor, b: Tensor, *, beta: Operand = 1, alpha: Operand = 1) -> Tensor:
    """beta * x + alpha * (a @ b) for stacks: x broadcasts to [b, m, n].

    Raises IndexInvalid where a or b has too few dimensions, ShapeError as `bmm` does.

    >>> import lazytensor as lt
    >>> lt.baddbmm(lt.ones(1, 1, 1), lt.ones(1, 1, 2), lt.ones(1, 2, 1))
    tensor([[[3.]]])
    """
    # PyTorch broadcasts x first, and reads two extents of a and the last one of b.
    views.normalize_dim(1, a.ndim)
    views.normalize_dim(2, b.ndim)
    return add_scaled_product(*_require_one_dtype(cast_addend(x), bmm(a, b)), beta, alpha)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias; x is [..., in], weight [out, in], bias [out]; result [..., out].

    Raises ShapeError if they do not fit.

    >>> import lazytensor as lt
    >>> lt.nn.functional.linear(lt.tensor([[1.0, 2.0]]), lt.tensor([[3.0, 4.0]]), lt.tensor([0.5]))
    tensor([[11.5000]])
    """
    pair = operand_node(x), operand_node(weight)
    operands = cast_layer_operands(*pair) if bias is None else cast_layer_operands(*pair, operand_node(bias))
    # For its error, which names both types.
    if operands[0].type.dtype is not operands[1].type.dtype:
        _matmul_operands(x, weight)
    kind = operands[0].type.dtype
    if bias is not None and operands[2].type.shape != operands[1].type.shape[:1]:
        out = linear(x, weight)
        return out + views.expand(bias, out.spec.shape)
    if bias is not None and kind.is_half and half_type() is None:
        # On a CPU the sum with the bias is rounded once, as PyTorch's kernel rounds; the wafer adds what is rounded.
        wide = call("linear", *(cast(n, float32) for n in operands))
        return tensor_of(cast(wide, kind), x, weight)
    return tensor_of(call("linear", *operands), x, weight)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x1^T W_k x2 + b_k for each k: [..., in1], [..., in2], weight [out, in1, in2], bias [out] -> [..., out].

    Raises ShapeError if the inputs do not fit the weight.

    >>> import lazytensor as lt
    >>> lt.nn.functional.bilinear(lt.ones(1, 2), lt.ones(1, 3), lt.ones(1, 2, 3))
    tensor([[6.]])
    """
    outputs, first, second = weight.spec.shape
    if (input1.spec.shape[-1], input2.spec.shape[-1]) != (first, second):
        raise ShapeError(
            f"bilinear(): the inputs {list(input1.shape)} and {list(input2.shape)} do not fit the weight "
            f"{list(weight.shape)}",
            where=source.where(),
        )
    # One product with all matrices stacked, [out * in2, in1]; the sum over in2 is taken element by element.
    rows = linear(input1, views.reshape(views.transpose(weight, 1, 2), (outputs * second, first)))
    rows = views.reshape(rows, (*input1.spec.shape[:-1], outputs, second))
    out = reduction.sum(rows * views.unsqueeze(input2, -2), -1)
    return out if bias is None else out + bias
