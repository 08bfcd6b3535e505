"""Matrix products, linear layers and their bias."""

import numpy as np

from lazytensor.cirh.spelling import PRODUCT, integer_attribute, typed_operation
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type, Work
from lazytensor.ops.formula import composite
from lazytensor.ops.op import call, op
from lazytensor.ops.reduce import reduce
from lazytensor.ops.shape import broadcast_to, reshape, sum_to


def _shape_as_read(t: Type, flag: bool) -> tuple[int, int]:
    rows, columns = t.shape[-2:]
    return (columns, rows) if flag else (rows, columns)


def _matmul_type(a: Type, b: Type, *, transpose_a: bool, transpose_b: bool) -> Type:
    if len(a.shape) < 2 or len(a.shape) != len(b.shape) or a.shape[:-2] != b.shape[:-2] or a.dtype is not b.dtype:
        raise ShapeError(
            f"{a} and {b} cannot be multiplied", hint="Use operands with the same leading extents and dtype."
        )
    (m, k), (k2, n) = _shape_as_read(a, transpose_a), _shape_as_read(b, transpose_b)
    if k != k2:
        raise ShapeError(
            f"mat1 and mat2 shapes cannot be multiplied ({m}x{k} and {k2}x{n})",
            hint=("Reshape or transpose an operand, so that the columns of the first equal the rows of the second."),
        )
    return Type((*a.shape[:-2], m, n), a.dtype)


def _swap_if(x: np.ndarray, flag: bool) -> np.ndarray:
    return np.swapaxes(x, -1, -2) if flag else x


def _matmul_vjp(g: Node, y: Node, a: Node, b: Node, *, transpose_a: bool, transpose_b: bool) -> tuple[Node, Node]:
    # Every case is a product with other flags: no gradient transposes a matrix in memory.
    da = matmul(b, g, transpose_b, True) if transpose_a else matmul(g, b, False, not transpose_b)
    db = matmul(g, a, True, transpose_a) if transpose_b else matmul(a, g, not transpose_a, False)
    return da, db


def _matmul_work(out: Type, a: Type, b: Type, *, transpose_a: bool, transpose_b: bool) -> Work:
    k = _shape_as_read(a, transpose_a)[1]
    return Work(2 * out.size * k, a.nbytes + b.nbytes, out.nbytes)


def matmul(a: Node, b: Node, transpose_a: bool = False, transpose_b: bool = False) -> Node:
    """Return the product of two matrices, or of two stacks of matrices with equal leading dimensions.

    An operand is transposed in its last two dimensions before the product if `transpose_a` or `transpose_b` is set.
    Leading dimensions do not broadcast. Raise ShapeError if shapes or dtypes do not fit.
    """
    return call("matmul", a, b, transpose_a=transpose_a, transpose_b=transpose_b)


op(
    "matmul",
    _matmul_type,
    lambda a, b, *, transpose_a, transpose_b: np.matmul(_swap_if(a, transpose_a), _swap_if(b, transpose_b)),
    vjp=_matmul_vjp,
    work=_matmul_work,
    cirh=PRODUCT,
    autocast="half",
    gradient_name=lambda n: "Mm" if len(n.type.shape) == 2 else "Bmm",
)


def _linear(x: Type, w: Type, *b: Type) -> Type:
    if len(w.shape) != 2 or not x.shape or x.shape[-1] != w.shape[1]:
        raise ShapeError(
            f"mat1 and mat2 shapes cannot be multiplied ({_row_count(x)}x{x.shape[-1] if x.shape else 1} and "
            f"{w.shape[-1]}x{w.shape[0]}): the input is {list(x.shape)}, and the weight is {list(w.shape)}",
            hint=f"Pass an input whose last extent is in_features = {w.shape[-1]}.",
        )
    if x.dtype is not w.dtype:
        raise ShapeError(f"mat1 and mat2 must have the same dtype, but got {x} and {w}", hint="Convert the input.")
    if b and b[0].dtype is not w.dtype:
        raise ShapeError(
            f"self and mat2 must have the same dtype, but the bias is {b[0]} and the weight {w}",
            hint="Convert the bias to the dtype of the weight.",
        )
    if b and b[0].shape != (w.shape[0],):
        raise ShapeError(
            f"the bias {list(b[0].shape)} does not match the weight {list(w.shape)}",
            hint="Create the bias with out_features elements.",
        )
    return Type((*x.shape[:-1], w.shape[0]), x.dtype)


def _row_count(x: Type) -> int:
    return x.size // x.shape[-1] if x.shape and x.shape[-1] else 1


def _linear_eval(x: np.ndarray, w: np.ndarray, *b: np.ndarray) -> np.ndarray:
    # One product over all rows: a stack would call BLAS for each matrix.
    y = np.matmul(x.reshape(-1, x.shape[-1]), w.T)
    if b:
        y += b[0]
    return np.asarray(y.reshape(*x.shape[:-1], w.shape[0]))


def _decompose_linear(x: Node, w: Node, *b: Node) -> Node:
    y = matmul(reshape(x, (_row_count(x.type), x.type.shape[-1])), w, False, True)
    if b:
        # The bias is the first operand, as in ATen's addmm(bias, x, w), which the front end gets.
        y = broadcast_to(b[0], y.type.shape) + y
    return reshape(y, (*x.type.shape[:-1], w.type.shape[0]))


def _linear_vjp(g: Node, y: Node, x: Node, w: Node, *b: Node) -> tuple[Node, ...]:
    # The weight's gradient sums over batch and positions, so both become rows. PyTorch's layout of w is [out, in].
    rows = reshape(g, (_row_count(g.type), g.type.shape[-1]))
    flat = reshape(x, (_row_count(x.type), x.type.shape[-1]))
    dx = reshape(matmul(rows, w), x.type.shape)
    dw = matmul(rows, flat, True, False)
    return (dx, dw, sum_to(rows, rows.type.shape[1:], (1,))) if b else (dx, dw)


def _linear_work(out: Type, x: Type, w: Type, *b: Type) -> Work:
    return Work(2 * out.size * w.shape[1] + (out.size if b else 0), x.nbytes + w.nbytes, out.nbytes)


def _linear_gradient_name(n: Node) -> str:
    """Return PyTorch's name of a linear layer's gradient, which depends on its rank and on whether it has a bias."""
    has_bias = len(n.inputs) == 3
    if len(n.type.shape) == 2:
        return "Addmm" if has_bias else "Mm"
    return "View" if has_bias or len(n.type.shape) == 1 else "UnsafeView"


op(
    "linear",
    _linear,
    _linear_eval,
    vjp=_linear_vjp,
    work=_linear_work,
    composite=_decompose_linear,
    gradient_name=_linear_gradient_name,
)


def _add_bias(x: Node, bias: Node, *, dim: int) -> Node:
    return x + call("broadcast_in_dim", bias, shape=x.type.shape, dims=(dim,))


def _add_bias_type(x: Type, bias: Type, *, dim: int) -> Type:
    if bias.shape != (x.shape[dim],) or bias.dtype is not x.dtype:
        raise ShapeError(
            f"a bias of {bias} cannot be added along dimension {dim} of {x}",
            hint=(f"Pass a bias with one {x.dtype.name} for each of the {x.shape[dim]} elements of that dimension."),
        )
    return x


def _bias_grad(g: Node, *, dim: int) -> Node:
    return reduce(g, "add", tuple(d for d in range(len(g.type.shape)) if d != dim))


composite(
    "bias_add",
    _add_bias,
    _add_bias_type,
    vjp=lambda g, y, x, b, *, dim: (g, call("bias_add_grad", g, dim=dim)),
    cirh=typed_operation("BiasAdd", integer_attribute("dim")),
    gradient_name="Convolution",
)
composite(
    # CIRH has both as operations, for `cstorch.nn.functional.bias_add`, although they are a broadcast and a sum.
    "bias_add_grad",
    _bias_grad,
    lambda g, *, dim: Type((g.shape[dim],), g.dtype),
    cirh=typed_operation("BiasAddGrad", integer_attribute("dim")),
)
