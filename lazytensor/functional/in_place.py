"""Writing into a tensor: the result of an operation, other values, one number."""

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
    """Write the result of an operation into x, which it was computed from, and from other operands.

    Raises ShapeError if x would have to grow, or to lose its kind.
    """
    n = value.node
    # What a gradient needs of them is asked outside of steps alone.
    is_asked = n.tracks and storage.thread_state.current is None
    before = {x.storage_node(), x.node, *(o.node for o in operands)} if is_asked else set()
    if n.type != x.spec:
        if n.type.shape != x.spec.shape:
            raise ShapeError(
                f"output with shape {list(x.shape)} doesn't match the broadcast shape {list(value.shape)}",
                where=source.where(),
                hint="Write `x = x + y` for a result of another shape.",
            )
        # PyTorch's rule for results: floats take all, integers take integers, and everybody takes booleans.
        if x.dtype.kind != "f" and value.dtype.kind not in (x.dtype.kind, "b"):
            raise ShapeError(
                f"result type {value.dtype.name} can't be cast to the desired output type {x.dtype.name}",
                where=source.where(),
                hint="Convert the tensor first, for example with .float().",
            )
        n = cast(n, x.dtype)
    elif value is not x:
        # The tensor of the result goes, and x alone shows its value.
        n.cells -= 1
    old = x.cell.node
    x.write(n)
    if old is not None and any(o.cell is x.cell for o in operands):
        mark_operand_aliased(x.cell, old)
    if before and (written := x.last_written_node()) is not None:
        saved_tensors.mark_as_one_operation(written, before)
    return x


def overwrite(x: Tensor, n: Node) -> Tensor:
    """Write a value that x was not computed from. Where x is tracked it stays so, and what it was has no gradient."""
    # What lies in a store between steps is not tracked, and not fetched to be written over.
    is_asked = (x.cell.node is not None or storage.is_pinned(x.cell)) and is_grad_enabled()
    is_told = half_type() is not None  # in a step for the wafer the text has what is written over
    if is_asked and not n.tracks and not x.leaf_id and (x.node.tracks or is_told):
        n = call("overwritten", n, x.node)
    x.write(n)
    return x


@method
def copy_(x: Tensor, value: Operand, non_blocking: bool = False) -> Tensor:
    """Write the values of another tensor, converted and broadcast.

    Raises TraceError outside a step if both are on the wafer and the other tensor is the result of an operation,
    unless the script has changed this tensor in place since the loop.
    """
    if x.device.type == "lazy" and storage.thread_state.current is None and isinstance(value, Tensor):
        _refuse_pending(x, value)
    if isinstance(value, Tensor) and value.device.type == "meta" and x.device.type != "meta":
        check_reading(value, "copy_()")
    return write_values(x, value)


def write_values(x: Tensor, value: Operand) -> Tensor:
    """Write values into x as `copy_` does, whatever computed them: for state that the package changes itself."""
    if isinstance(value, Tensor):
        refuse_overlap(x, value, is_copy=True)
    # Any type goes into any other here, unlike results: a copy says that it converts.
    return overwrite(x, prepare_operand(value, x.dtype, x.spec.shape))


def _refuse_pending(x: Tensor, value: Tensor) -> None:
    # As the original does it: a write through a view or through `.data` passes, an operation in place, and any write
    # to a tensor that the script has changed in place before.
    is_computed = value.device.type == "lazy" and _is_pending(value.node)
    if is_computed and not _is_pending(x.node) and not x.view_ops and not x.__dict__.get(SILENT_WRITES_ATTRIBUTE):
        error = TraceError(
            'New output detected outside of "@cstorch.trace" decorator: copy_() of a tensor that the loop computed',
            where=source.where(),
            hint="Change the tensor in place, for example with mul_(), or copy a tensor of the CPU into it.",
        )
        refuse("outside trace", error)


def _is_pending(n: Node) -> bool:
    """Whether a node is the result of an operation, other than a copy, and has no value yet."""
    stored_node = n
    while stored_node.op in ("variable", "clone", "detach"):
        stored_node = stored_node.inputs[0]
    return n.value is None and stored_node.value is None and bool(stored_node.inputs)


@method
def fill_(x: Tensor, value: Operand) -> Tensor:
    """Write one value everywhere. Raises ShapeError for a tensor of more than one."""
    if isinstance(value, Tensor) and value.ndim:
        text = f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions."
        raise ShapeError(text, where=source.where(), hint="Write x.copy_(value) for values of its own shape.")
    if not isinstance(value, Tensor) and overlapping_writes.has_repeated_elements(x):
        return overlapping_writes.fill(x, value)
    return overwrite(x, prepare_stored(value, x.dtype, x.spec.shape))


@method
def zero_(x: Tensor) -> Tensor:
    """Write zeros everywhere."""
    if overlapping_writes.has_repeated_elements(x):
        return overlapping_writes.fill(x, 0)
    return overwrite(x, full(0, x.spec))


def shows_no_values(x: Tensor) -> bool:
    """Whether a tensor shows no values, and so uses up no random numbers."""
    stored = x.cell.node
    return x.device.type == "meta" or (storage.is_abstract and stored is not None and storage.is_abstract_leaf(stored))
