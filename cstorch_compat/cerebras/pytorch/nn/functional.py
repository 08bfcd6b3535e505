"""Operations that the wafer has by name: biases along a dimension, one-hot vectors, ranks, marked stretches of a graph.

On the CPU backend they compute the same. The names of the stretches appear in the printed graph alone.
"""

import numpy as np

import lazytensor as lt
from lazytensor.core import source
from lazytensor.core.dtype import DType, bool_
from lazytensor.core.storage import Storage
from lazytensor.core.tensor import Device, Tensor, operand_node, tensor_from_storage
from lazytensor.errors import OperandInvalid
from lazytensor.functional.pointwise import tensor_of
from lazytensor.ops import call, const
from lazytensor.ops.elementwise import cast
from lazytensor.runtime.reference import evaluate

# The names that the vendor's graphs print. Differentiation turns the ends round, so the backward pass has its own.
BEGIN_FORWARD, END_FORWARD = "BEGIN_FORWARD", "END_FORWARD"
BEGIN_BACKWARD, END_BACKWARD = "BEGIN_BACKWARD", "END_BACKWARD"
BOUNDARIES = (BEGIN_FORWARD, END_FORWARD, BEGIN_BACKWARD, END_BACKWARD)


def _require(holds: bool, what: str, hint: str) -> None:
    if not holds:
        raise OperandInvalid(what, where=source.where(), hint=hint)


def bias_add(input_value: Tensor, bias: Tensor, dim: int) -> Tensor:
    """`input_value` with bias[i] added at place i of dimension `dim`. Raises AssertionError for another length."""
    _require(
        0 <= dim < input_value.ndim,
        f"`dim` must in [0, len(input_value.shape) - 1]. Instead got: 0 <= dim={dim} <= {input_value.ndim}",
        "Count dimensions from the first.",
    )
    _require(
        bias.ndim == 1 and bias.shape[0] == input_value.shape[dim],
        f"Expect bias.shape[0] == input_value.shape[{dim=}]. Instead got bias.shape = {bias.shape} and "
        f"input_value.shape = {input_value.shape}",
        "Give one number for each place of the dimension.",
    )
    return tensor_of(
        call("bias_add", operand_node(input_value), cast(operand_node(bias), input_value.dtype), dim=dim),
        input_value,
        bias,
    )


def one_hot(array: Tensor, num_classes: int) -> Tensor:
    """A 1 at the place of each number in a new last dimension, zeros elsewhere; int32."""
    _require(num_classes >= 0, "num_class argument to one_hot cannot be -1", "Say how many classes there are.")
    # int32, where PyTorch's one_hot gives int64.
    zeros = lt.zeros(*array.shape, num_classes, dtype=lt.int32, device=array.device)
    return zeros.scatter(-1, lt.unsqueeze(array, -1), 1)


def nth_order_statistic(input: Tensor, k: int, dimension: int) -> Tensor:
    """1 where an element is not below the k-th largest of its row along `dimension`, else 0; int16."""
    dim = dimension % max(input.ndim, 1)
    _require(
        0 < k <= input.shape[dim],
        f"there is no {k}-th largest of {input.shape[dim]} elements",
        "Take k from 1 to the extent of the dimension.",
    )
    # A mask, although the name promises the element.
    return tensor_of(call("reaches_nth", operand_node(input), k=int(k), dim=dim), input)


def matmul(weight: Tensor, input_value: Tensor, weight_transposed: Tensor | None = None) -> Tensor:
    """weight @ input_value; `weight_transposed` is the same weight, held a second time for the backward pass."""
    _require(
        weight.ndim == 2 and input_value.ndim >= 2 and weight.shape[1] == input_value.shape[0],
        f"Expect weight.shape(1) == input_value.shape[0]. Instead got weight.shape = {weight.shape} and "
        f"input_value.shape = {input_value.shape}",
        "The columns of the weight are the rows of the input.",
    )
    return lt.matmul(weight, input_value)


def ranged_matmul(
    weight: Tensor, input_value: Tensor, num_cols: Tensor, weight_transposed: Tensor | None = None
) -> Tensor:
    """input_value @ weight.T; `num_cols` is how much of each sample the wafer computes, here all of it."""
    _require(
        input_value.ndim == 3,
        f"Expected 3D input_value. Instead got input_value.shape = {input_value.shape}",
        "Give [batch, sequence, in].",
    )
    _require(
        weight.shape[1] == input_value.shape[2],
        f"Expect weight.shape(1) == input_value.shape[2]. Instead got weight.shape = {weight.shape} and "
        f"input_value.shape = {input_value.shape}",
        "The columns of the weight are the columns of the input.",
    )
    return lt.matmul(input_value, weight.transpose(0, 1))


def sparse_matmul(input_values: Tensor, input_indices: Tensor, weight: Tensor) -> Tensor:
    """The product of each vector with the expert that its index names: [..., in] and [...] with [out, experts, in]."""
    _require(
        weight.ndim == 3 and input_values.shape[:-1] == input_indices.shape,
        f"Expect weight[out, experts, in] and one index for each vector. Instead got weight.shape = {weight.shape}, "
        f"input_values.shape = {input_values.shape} and input_indices.shape = {input_indices.shape}",
        "Give [batch, sequence, k, in] and [batch, sequence, k].",
    )
    # As the original: every vector at the place of its expert, all experts' products, and back. Of two vectors with one
    # index the later one stands for both.
    experts, size = weight.shape[1:]
    dense = lt.zeros(*input_values.shape[:-2], experts, size, dtype=input_values.dtype, device=input_values.device)
    index = lt.unsqueeze(input_indices, -1)
    placed = dense.scatter(-2, index.expand(*input_values.shape), input_values)
    products = lt.einsum("...ei,oei->...eo", placed, weight)
    return products.gather(-2, index.expand(*input_indices.shape, weight.shape[0]))


def sparse_act_matmul(
    input_value: Tensor, input_mask: Tensor, weight: Tensor, dense_capacity: int | None = None
) -> Tensor:
    """input_value @ weight.T where the mask is not 0, zeros elsewhere: [batch, sequence, in] with [out, in].

    `dense_capacity` is how many vectors the wafer makes room for; here there is room for all.
    """
    _require(
        weight.ndim == 2 and input_value.shape[:-1] == input_mask.shape,
        f"Expect weight[out, in] and one mask for each vector. Instead got weight.shape = {weight.shape}, "
        f"input_value.shape = {input_value.shape} and input_mask.shape = {input_mask.shape}",
        "Give [batch, sequence, in] and [batch, sequence].",
    )
    kept = lt.unsqueeze(input_mask, -1).to(input_value.dtype)
    return lt.matmul(input_value * kept, weight.transpose(0, 1))


def conditional_arange(mask: Tensor, start: Tensor, step: Tensor, dtype: DType | None = None) -> Tensor:
    """start, start + step, ... at the places where the mask holds, and -1 elsewhere."""
    kind = dtype or start.dtype
    holds = tensor_of(cast(operand_node(mask), bool_), mask)
    rank = lt.cumsum(holds, 0) - 1
    # Both in the type that was asked for: a selection between two types would widen.
    ranked, other = (tensor_of(cast(operand_node(t), kind), t) for t in (start + rank * step, lt.full_like(rank, -1)))
    out: Tensor = lt.where(holds, ranked, other)
    return out


def scope_boundary(input: Tensor, boundary_type: str, scope_name: str) -> Tensor:
    """`input` itself; the printed graph shows a boundary of the named stretch there."""
    _require(
        boundary_type in BOUNDARIES, f"unknown boundary type {boundary_type!r}", f"Give one of {', '.join(BOUNDARIES)}."
    )
    return tensor_of(call("scope_boundary", operand_node(input), boundary=boundary_type, scope=str(scope_name)), input)


def enter_scope(input: Tensor, scope_name: str) -> Tensor:
    """The start of a named stretch of the forward pass; its gradient is the end of one of the backward pass."""
    return scope_boundary(input, BEGIN_FORWARD, scope_name)


def exit_scope(input: Tensor, scope_name: str) -> Tensor:
    """The end of a named stretch of the forward pass; its gradient is the start of one of the backward pass."""
    return scope_boundary(input, END_FORWARD, scope_name)


def copy_as_constant(value: Tensor, device: Device) -> Tensor:
    """A tensor with the values that `value` has on the client; on the client's own device the tensor itself.

    Raises CompileError if it has none, since it depends on the batch or on state.
    """
    if value.device == device:
        return value
    node = operand_node(value)
    # Evaluated on the client while tracing, so it becomes a constant of the step.
    array = node.value if node.value is not None else evaluate([node], {})[0]
    out = tensor_from_storage(Storage(const(np.array(array), value.spec)))
    out.device = device
    return out


def unbind(tensor: Tensor) -> tuple[Tensor, ...]:
    """The places of the first dimension, as `torch.unbind`."""
    return lt.unbind(tensor)
