"""Functions that write into a tensor: the result of an operation, the values of another tensor, or one number."""

from lazytensor.autograd import saved_tensors
from lazytensor.core import source, storage
from lazytensor.core.autocast import half_type
from lazytensor.core.device import check_reading
from lazytensor.core.overlapping_views import refuse_overlap
from lazytensor.core.storage_versions import mark_operand_aliased
from lazytensor.core.tensor import SILENT_WRITES_ATTRIBUTE, Tensor, is_grad_enabled
from lazytensor.core.tensor_members import method
from lazytensor.errors import ShapeError, TraceError, refuse
from lazytensor.functional import overlapping_writes
from lazytensor.functional.type_promotion import Operand, prepare_operand, prepare_stored
from lazytensor.ir.graph import Node
from lazytensor.ops import call, full
from lazytensor.ops.elementwise import cast


def assign(x: Tensor, value: Tensor, *operands: Tensor) -> Tensor:
    """Write `value`, the result of an in-place operation, into `x`, and return `x`.

    `value` was computed from `x` and `operands`, so the autograd history of `x` becomes that of `value`. It is
    converted to the dtype of `x`. Raises ShapeError if the shapes differ, or if the dtype cannot be cast:
    floating-point to integer, or a number to bool.
    """
    n = value.node
    # Saved tensors are tracked only outside of steps.
    is_asked = n.tracks and storage.thread_state.current is None
    before = {x.storage_node(), x.node, *(o.node for o in operands)} if is_asked else set()
    if n.type != x.spec:
        if n.type.shape != x.spec.shape:
            raise ShapeError(
                f"output with shape {list(x.shape)} doesn't match the broadcast shape {list(value.shape)}",
                where=source.where(),
                hint="Write `x = x + y` for a result of another shape.",
            )
        # PyTorch's rule: floating-point tensors accept every dtype, integers accept integers and bool, bool accepts
        # bool.
        if x.dtype.kind != "f" and value.dtype.kind not in (x.dtype.kind, "b"):
            raise ShapeError(
                f"result type {value.dtype.name} can't be cast to the desired output type {x.dtype.name}",
                where=source.where(),
                hint="Convert the tensor first, for example with .float().",
            )
        n = cast(n, x.dtype)
    elif value is not x:
        # The result's tensor is dropped, and only x keeps its value.
        n.cells -= 1
    old = x.cell.node
    x.write(n)
    if old is not None and any(o.cell is x.cell for o in operands):
        mark_operand_aliased(x.cell, old)
    if before and (written := x.last_written_node()) is not None:
        saved_tensors.mark_as_one_operation(written, before)
    return x


def overwrite(x: Tensor, n: Node) -> Tensor:
    """Write the value of node `n`, which does not depend on `x`, into `x`, and return `x`.

    If `x` is part of an autograd graph, it stays so, and its former value gets no gradient.
    """
    # A value that is stored between steps has no gradient, and is not fetched only to be overwritten.
    is_asked = (x.cell.node is not None or storage.is_pinned(x.cell)) and is_grad_enabled()
    is_told = half_type() is not None  # a graph for the wafer also names the overwritten value
    if is_asked and not n.tracks and not x.leaf_id and (x.node.tracks or is_told):
        n = call("overwritten", n, x.node)
    x.write(n)
    return x


@method
def copy_(x: Tensor, value: Operand, non_blocking: bool = False) -> Tensor:
    """Write the values of `value`, converted to the dtype of `x` and broadcast, into `x`, and return `x`.

    `non_blocking` is ignored. Outside a step, raises TraceError if both tensors are on the wafer and `value` is the
    result of an operation, unless the script has changed `x` in place since the loop.
    """
    if x.device.type == "lazy" and storage.thread_state.current is None and isinstance(value, Tensor):
        _refuse_pending(x, value)
    if isinstance(value, Tensor) and value.device.type == "meta" and x.device.type != "meta":
        check_reading(value, "copy_()")
    return write_values(x, value)


def write_values(x: Tensor, value: Operand) -> Tensor:
    """Write `value`, converted and broadcast, into `x`, and return `x`, without the TraceError of `copy_`.

    The package uses it for state that it changes itself. Raises ShapeError if the memory of both tensors overlaps
    partly.
    """
    if isinstance(value, Tensor):
        refuse_overlap(x, value, is_copy=True)
    # A copy converts between all dtypes, unlike the result of an in-place operation.
    return overwrite(x, prepare_operand(value, x.dtype, x.spec.shape))


def _refuse_pending(x: Tensor, value: Tensor) -> None:
    """Raise TraceError for a copy into `x`, outside a step, of a value that the loop has recorded and not yet computed.

    Nothing is raised if `x` is such a value too, is a view, or was changed in place before. If `lazywafer check` is
    collecting refusals, the error is only reported.
    """
    # The vendor's package accepts a write through a view or `.data`, an in-place operation, and any write to a tensor
    # that the script has changed in place before.
    is_computed = value.device.type == "lazy" and _is_pending(value.node)
    if is_computed and not _is_pending(x.node) and not x.view_ops and not x.__dict__.get(SILENT_WRITES_ATTRIBUTE):
        error = TraceError(
            'New output detected outside of "@cstorch.trace" decorator: copy_() of a tensor that the loop computed',
            where=source.where(),
            hint="Change the tensor in place, for example with mul_(), or copy a CPU tensor into it.",
        )
        refuse("outside trace", error)


def _is_pending(n: Node) -> bool:
    """Return whether `n` is the result of an operation, other than a copy, and has no value yet."""
    stored_node = n
    while stored_node.op in ("variable", "clone", "detach"):
        stored_node = stored_node.inputs[0]
    return n.value is None and stored_node.value is None and bool(stored_node.inputs)


@method
def fill_(input: Tensor, value: Operand) -> Tensor:
    """Write the number `value` to every element of `input`, and return `input`.

    Raises ShapeError if `value` is a tensor with dimensions, and NumberTooLarge if the dtype cannot hold the number.
    """
    if isinstance(value, Tensor) and value.ndim:
        text = f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions."
        raise ShapeError(text, where=source.where(), hint="Use x.copy_(value) for a value with dimensions.")
    if not isinstance(value, Tensor) and overlapping_writes.has_repeated_elements(input):
        return overlapping_writes.fill(input, value)
    return overwrite(input, prepare_stored(value, input.dtype, input.spec.shape))


@method
def zero_(input: Tensor) -> Tensor:
    """Write 0 to every element of `input`, and return `input`."""
    if overlapping_writes.has_repeated_elements(input):
        return overlapping_writes.fill(input, 0)
    return overwrite(input, full(0, input.spec))


def shows_no_values(x: Tensor) -> bool:
    """Return whether `x` has no values, because it is on the device "meta" or an abstract parameter.

    In-place random functions draw nothing for such a tensor.
    """
    stored = x.cell.node
    return x.device.type == "meta" or (storage.is_abstract and stored is not None and storage.is_abstract_leaf(stored))
