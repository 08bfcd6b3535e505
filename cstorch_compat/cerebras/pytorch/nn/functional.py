"""Named operations of the wafer that PyTorch does not have, such as bias_add, one_hot and scope boundaries.

They compute the same values on the CPU backend. Scope names appear only in printed graphs.
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

# The names in the vendor's printed graphs. The gradient of a begin boundary is an end boundary, and vice versa.
BEGIN_FORWARD, END_FORWARD = "BEGIN_FORWARD", "END_FORWARD"
BEGIN_BACKWARD, END_BACKWARD = "BEGIN_BACKWARD", "END_BACKWARD"
BOUNDARIES = (BEGIN_FORWARD, END_FORWARD, BEGIN_BACKWARD, END_BACKWARD)


def _require(holds: bool, what: str, hint: str) -> None:
    if not holds:
        raise OperandInvalid(what, where=source.where(), hint=hint)


def bias_add(input_value: Tensor, bias: Tensor, dim: int) -> Tensor:
    """Return `input_value` plus the vector `bias`, broadcast along dimension `dim`.

    `bias` has the length of that dimension and is cast to the dtype of `input_value`. Raises AssertionError for another
    length, and if `dim` is negative or too large.
    """
    _require(
        0 <= dim < input_value.ndim,
        f"`dim` must in [0, len(input_value.shape) - 1]. Instead got: 0 <= dim={dim} <= {input_value.ndim}",
        "Use a dimension from 0 to the number of dimensions - 1.",
    )
    _require(
        bias.ndim == 1 and bias.shape[0] == input_value.shape[dim],
        f"Expect bias.shape[0] == input_value.shape[{dim=}]. Instead got bias.shape = {bias.shape} and "
        f"input_value.shape = {input_value.shape}",
        "Give a bias with one element for each position of the dimension.",
    )
    return tensor_of(
        call("bias_add", operand_node(input_value), cast(operand_node(bias), input_value.dtype), dim=dim),
        input_value,
        bias,
    )


def one_hot(array: Tensor, num_classes: int) -> Tensor:
    """Return one-hot vectors of `num_classes` elements in a new last dimension, as int32.

    `array` holds class indices. Raises AssertionError if `num_classes` is negative.
    """
    _require(
        num_classes >= 0, "num_class argument to one_hot cannot be -1", "Pass the number of classes as num_classes."
    )
    # PyTorch's one_hot returns int64.
    zeros = lt.zeros(*array.shape, num_classes, dtype=lt.int32, device=array.device)
    return zeros.scatter(-1, lt.unsqueeze(array, -1), 1)


def nth_order_statistic(input: Tensor, k: int, dimension: int) -> Tensor:
    """Return a mask of the elements that are at least the `k`-th largest of their row along `dimension`.

    The result has the shape of `input` and dtype int16, with 1 for these elements and 0 elsewhere. Raises
    AssertionError unless 1 <= k <= the length of the dimension.
    """
    dim = dimension % max(input.ndim, 1)
    _require(
        0 < k <= input.shape[dim],
        f"k is {k}, but dimension {dimension} has {input.shape[dim]} elements",
        "Use k from 1 to the size of the dimension.",
    )
    # The result is a mask, although the name suggests an element.
    return tensor_of(call("reaches_nth", operand_node(input), k=int(k), dim=dim), input)


def matmul(weight: Tensor, input_value: Tensor, weight_transposed: Tensor | None = None) -> Tensor:
    """Return `weight` @ `input_value`, where `weight` is [out, in] and `input_value` is [in, ...].

    `weight_transposed` has no effect. In the original it is a second copy of the weight for the backward pass. Raises
    AssertionError for other shapes.
    """
    _require(
        weight.ndim == 2 and input_value.ndim >= 2 and weight.shape[1] == input_value.shape[0],
        f"Expect weight.shape(1) == input_value.shape[0]. Instead got weight.shape = {weight.shape} and "
        f"input_value.shape = {input_value.shape}",
        "Give a weight with as many columns as the input has rows.",
    )
    return lt.matmul(weight, input_value)


def ranged_matmul(
    weight: Tensor, input_value: Tensor, num_cols: Tensor, weight_transposed: Tensor | None = None
) -> Tensor:
    """Return `input_value` [batch, sequence, in] @ `weight`.T, where `weight` is [out, in].

    `num_cols` has no effect. In the original it limits how much of each sample is computed. `weight_transposed` has no
    effect either. Raises AssertionError for other shapes.
    """
    _require(
        input_value.ndim == 3,
        f"Expected 3D input_value. Instead got input_value.shape = {input_value.shape}",
        "Give input_value [batch, sequence, in].",
    )
    _require(
        weight.shape[1] == input_value.shape[2],
        f"Expect weight.shape(1) == input_value.shape[2]. Instead got weight.shape = {weight.shape} and "
        f"input_value.shape = {input_value.shape}",
        "Give a weight with as many columns as the last dimension of the input.",
    )
    return lt.matmul(input_value, weight.transpose(0, 1))


def sparse_matmul(input_values: Tensor, input_indices: Tensor, weight: Tensor) -> Tensor:
    """Multiply each vector by the weight of the expert that its index selects.

    - `input_values`: [..., k, in].
    - `input_indices`: [..., k], indices of experts.
    - `weight`: [out, experts, in].

    The result is [..., k, out]. If two of the k vectors select the same expert, both get the product of the later one,
    as in the original. Raises AssertionError for other shapes.
    """
    _require(
        weight.ndim == 3 and input_values.shape[:-1] == input_indices.shape,
        f"Expect weight[out, experts, in] and one index for each vector. Instead got weight.shape = {weight.shape}, "
        f"input_values.shape = {input_values.shape} and input_indices.shape = {input_indices.shape}",
        "Give input_values [batch, sequence, k, in] and input_indices [batch, sequence, k].",
    )
    # As in the original: scatter the vectors to their experts, multiply all experts, and gather. If two vectors have
    # the same index, the later one replaces the earlier one.
    experts, size = weight.shape[1:]
    dense = lt.zeros(*input_values.shape[:-2], experts, size, dtype=input_values.dtype, device=input_values.device)
    index = lt.unsqueeze(input_indices, -1)
    placed = dense.scatter(-2, index.expand(*input_values.shape), input_values)
    products = lt.einsum("...ei,oei->...eo", placed, weight)
    return products.gather(-2, index.expand(*input_indices.shape, weight.shape[0]))


def sparse_act_matmul(
    input_value: Tensor, input_mask: Tensor, weight: Tensor, dense_capacity: int | None = None
) -> Tensor:
    """Return `input_value` @ `weight`.T for the vectors whose mask is not 0, and zeros for the others.

    `input_value` is [batch, sequence, in], `input_mask` is [batch, sequence] and `weight` is [out, in]. The mask
    multiplies the vectors, so it should hold 0 and 1. `dense_capacity` has no effect: in the original it limits the
    number of vectors. Raises AssertionError for other shapes.
    """
    _require(
        weight.ndim == 2 and input_value.shape[:-1] == input_mask.shape,
        f"Expect weight[out, in] and one mask for each vector. Instead got weight.shape = {weight.shape}, "
        f"input_value.shape = {input_value.shape} and input_mask.shape = {input_mask.shape}",
        "Give input_value [batch, sequence, in] and input_mask [batch, sequence].",
    )
    kept = lt.unsqueeze(input_mask, -1).to(input_value.dtype)
    return lt.matmul(input_value * kept, weight.transpose(0, 1))


def conditional_arange(mask: Tensor, start: Tensor, step: Tensor, dtype: DType | None = None) -> Tensor:
    """Return start, start + step, ... at the elements where the 1-D `mask` is nonzero, in order, and -1 elsewhere.

    `dtype` is the dtype of the result; that of `start` if None.
    """
    kind = dtype or start.dtype
    holds = tensor_of(cast(operand_node(mask), bool_), mask)
    rank = lt.cumsum(holds, 0) - 1
    # Cast both operands, because a selection between two dtypes would promote the result.
    ranked, other = (tensor_of(cast(operand_node(t), kind), t) for t in (start + rank * step, lt.full_like(rank, -1)))
    out: Tensor = lt.where(holds, ranked, other)
    return out


def scope_boundary(input: Tensor, boundary_type: str, scope_name: str) -> Tensor:
    """Return `input` unchanged, and record a scope boundary in the printed graph.

    `boundary_type` is one of `BOUNDARIES`; others raise AssertionError.
    """
    _require(
        boundary_type in BOUNDARIES,
        f"boundary type {boundary_type!r} is unknown",
        f"Use one of {', '.join(BOUNDARIES)}.",
    )
    return tensor_of(call("scope_boundary", operand_node(input), boundary=boundary_type, scope=str(scope_name)), input)


def enter_scope(input: Tensor, scope_name: str) -> Tensor:
    """Return `input` unchanged, and record the begin of a scope. The backward pass records the end of a scope there."""
    return scope_boundary(input, BEGIN_FORWARD, scope_name)


def exit_scope(input: Tensor, scope_name: str) -> Tensor:
    """Return `input` unchanged, and record the end of a scope. The backward pass records the begin of a scope there."""
    return scope_boundary(input, END_FORWARD, scope_name)


def copy_as_constant(value: Tensor, device: Device) -> Tensor:
    """Return a tensor on `device` that holds the values of `value` as a constant of the traced step.

    If `value` is on `device` already, return it unchanged. Raises CompileError if its values depend on the batch or on
    state, because they are then unknown during tracing.
    """
    if value.device == device:
        return value
    node = operand_node(value)
    # Evaluate on the client during tracing, so that the values become a constant of the step.
    array = node.value if node.value is not None else evaluate([node], {})[0]
    out = tensor_from_storage(Storage(const(np.array(array), value.spec)))
    out.device = device
    return out


def unbind(tensor: Tensor) -> tuple[Tensor, ...]:
    """Return the slices along the first dimension, as `torch.unbind`."""
    return lt.unbind(tensor)
