"""Check that the values of the forward pass that backward needs are unmodified and not freed.

Nodes are immutable, so gradients could always be computed. PyTorch raises an error if a saved tensor was modified in
place or if the graph was freed by an earlier backward, and so does this module.
"""

import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence

from lazytensor.autograd import gradient_graph
from lazytensor.core import source, storage_versions
from lazytensor.core.dtype import DType
from lazytensor.core.storage import FREED_COUNT_KEY, Storage, read, thread_state
from lazytensor.core.storage_versions import Overwrite, StorageRecord, return_none
from lazytensor.errors import AutogradError
from lazytensor.ir.buffer_slices import materialize_slice
from lazytensor.ir.graph import Node, node, node_from_template, node_template, topological, unintern
from lazytensor.ir.operation import gradient_name, saves_values
from lazytensor.ops import OPS

TENSOR_TYPE_NAMES = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16"}
_KEPT_VALUES_KEY = "kept"
"""Key in `Node.memo` of a node of a gradient: indices of its result (0) and operands (1, ...) that were overwritten
before the node was created, and that backward accepts nevertheless.
"""
SAVES_TENSORS_KEY = "saves"
"""Key in `Node.memo` of a node with a custom rule: the rule uses tensors from `save_for_backward`."""
_ENCLOSING_WRITE_KEY = "within"
"""Key in `Node.memo`: a weak reference to the result of the in-place operation that the node is a part of."""
_CONVERSION_OPS = frozenset({"cast", "convert", "detach"})
_OPERAND_ADAPTING_OPS = frozenset({"broadcast_in_dim", "cast", "written_past"})
"""Operations that adapt an operand's shape, type or history for another operation; PyTorch saves the operand itself."""


def _backward_nodes(root: Node, wanted: Collection[Node] | None) -> Iterator[Node]:
    """Yield the nodes whose gradient rules a backward pass from `root` calls, operands first.

    These are all nodes with gradient history, or only those from which a path leads to another node of `wanted`.
    """
    reaching: set[Node] = set()
    for n in gradient_graph.tracked_nodes([root]):
        if wanted is not None and n not in wanted and reaching.isdisjoint(n.inputs):
            continue
        reaching.add(n)
        # A wanted node is visited only if a path leads from it to another wanted node.
        if wanted is None or not reaching.isdisjoint(n.inputs):
            yield n


def check_saved_values(
    root: Node, cell_of: Callable[[int], Storage | None], wanted: Collection[Node] | None = None
) -> None:
    """Raise AutogradError, with PyTorch's message, if backward from `root` needs values that were overwritten or freed.

    `cell_of` returns the storage of a leaf by its number. With `wanted`, backward ends at these nodes.
    """
    for n in _backward_nodes(root, wanted):
        # Equal computations share one node, which is freed after one backward pass for each tensor that has it. A node
        # with a custom rule is never shared, but its backward may create tensors with it.
        if n.memo is not None and n.memo.get(FREED_COUNT_KEY, 0) >= (
            1 if SAVES_TENSORS_KEY in n.memo else max(n.cells, 1)
        ):
            raise graph_freed_error()
        if saves_values(n):
            for at, lost in _overwritten_values(n, cell_of):
                raise _modified_in_place_error(n, at, lost)


class _SavedValueQuery(threading.local):
    """Whether this thread calls a gradient rule only to find out which saved values the rule reads."""

    is_open = False


_saved_value_query = _SavedValueQuery()


def refuse_inference(n: Node) -> None:
    """Raise AutogradError if the gradient of a node needs a tensor that was created in inference mode.

    Inside a step, and for nodes whose gradient rule reads no saved value, nothing is checked.
    """
    if thread_state.current is not None or _saved_value_query.is_open or not OPS[n.op].saves:
        return
    made = [i for i in n.inputs if _is_inference(i)]
    if not made:
        return
    # The gradient rule creates nodes, which would call this function again.
    _saved_value_query.is_open = True
    try:
        is_needed = not _needed_by_gradient(n).isdisjoint(made)
    finally:
        _saved_value_query.is_open = False
    if is_needed:
        raise inference_tensor_saved_error()


def inference_tensor_saved_error() -> AutogradError:
    """Return PyTorch's error for saving an inference tensor for backward."""
    return AutogradError(
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
        "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and "
        "use it in autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`.",
        where=source.where(),
    )


def _is_inference(n: Node) -> bool:
    """Return whether the value of a node, or of the operand that it is a view of, is that of an inference tensor.

    An expanded operand counts as a view. A tensor that was freed or written since does not count.
    """
    # Of a broadcast operand or a view, PyTorch saves the operand.
    while n.inputs and not n.cells and (OPS[n.op].put is not None or n.op == "broadcast_in_dim"):
        n = n.inputs[0]
    cell = n.storage.inference() if n.storage is not None else None
    return cell is not None and cell.node is n


def graph_freed_error() -> AutogradError:
    """Return PyTorch's error for backward through a freed graph."""
    return AutogradError(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
        "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
        "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
        "saved tensors after calling backward.",
        where=source.where(),
    )


def free_graph(root: Node, wanted: Collection[Node] | None = None) -> None:
    """Mark the saved values of all operations between `root` and the `wanted` nodes (all if None) as freed.

    Each call counts once per node: equal tensors share a node, and each may run backward once. Inner nodes of a
    formula, which no tensor has, are not marked.
    """
    for n in _backward_nodes(root, wanted):
        # Only nodes that a tensor has: inner nodes of a formula may be reused by another formula later.
        if n.cells and (saves_values(n) or (n.memo is not None and SAVES_TENSORS_KEY in n.memo)):
            if n.memo is None:
                n.memo = {}
            n.memo[FREED_COUNT_KEY] = n.memo.get(FREED_COUNT_KEY, 0) + 1


def unpack_saved_node(n: Node, cell_of: Callable[[int], Storage | None]) -> Node:
    """Return the value of a tensor that a custom function saved; the current one after writes that are not counted.

    `cell_of` returns the storage of a leaf by its number, or None. Raises AutogradError if the tensor was modified in
    place.
    """
    lost = _find_overwrite(n, cell_of)
    if lost is not None:
        raise _modified_in_place_error(n, n, lost)
    return current_value(n, cell_of) if storage_versions.has_uncounted_writes else n


def mark_as_one_operation(result: Node, operands: Collection[Node | None]) -> None:
    """Mark the nodes between `operands` and `result` as parts of one in-place operation, which wrote `result`.

    PyTorch has a single kernel for it that keeps the overwritten value, so backward of these nodes may use that value.
    Do nothing if all operands of `result` are in `operands`.
    """
    if all(i in operands for i in result.inputs):
        return
    by = weakref.ref(result)
    for n in topological([result], lambda n: not n.tracks or n in operands):
        if n.tracks and n is not result and n not in operands:
            n.memo = n.memo or {}
            n.memo[_ENCLOSING_WRITE_KEY] = by


def mark_kept_values(
    roots: Sequence[Node], gradients: Sequence[Node], cell_of: Callable[[int], Storage | None]
) -> None:
    """Mark overwritten values that the nodes of `gradients` use, so that backward through these nodes accepts them.

    A backward pass from `roots` made the gradients. It was allowed, so in-place operations had kept these values. Only
    nodes that are not part of the graph of `roots` are marked. Later calls do not share these nodes, so that freeing
    the graph of such a call does not free that of the gradients.
    """
    walked = set(gradient_graph.tracked_nodes(roots))
    for n in topological(gradients, lambda n: not n.tracks or n in walked):
        if n.tracks and n not in walked:
            unintern(n)
            lost = {k for k, i in enumerate((n, *n.inputs)) if _find_overwrite(i, cell_of) is not None}
            if lost:
                n.memo = n.memo or {}
                n.memo[_KEPT_VALUES_KEY] = lost | n.memo.get(_KEPT_VALUES_KEY, set())


def _overwritten_values(n: Node, cell_of: Callable[[int], Storage | None]) -> Iterator[tuple[Node, Overwrite]]:
    """Yield (value, overwrite) for each value that the gradient of a node needs and that was overwritten.

    A value does not count if PyTorch does not save it (`Op.keeps`), if it was marked by `mark_kept_values`, or if the
    node or an operation that it is part of overwrote it.
    """
    kept = n.memo.get(_KEPT_VALUES_KEY, ()) if n.memo is not None else ()
    ends = [i for k, i in enumerate((n, *n.inputs)) if k not in kept]
    candidates = [(i, lost) for i in ends if (lost := _find_overwrite(i, cell_of)) is not None]
    if not candidates:
        return
    needed, keeps = _needed_by_gradient(n), OPS[n.op].keeps
    for at, lost in candidates:
        if keeps == "neither" or keeps == ("operands" if at is n else "result"):
            continue
        # An in-place operation keeps a copy of the value that it overwrites.
        by = lost.by()
        if at in needed and n is not by and not (by is not None and _is_part_of_write(n, by)):
            yield at, lost


def _is_part_of_write(n: Node, by: Node) -> bool:
    """Return whether a node is part of the in-place operation with the result `by`.

    It was marked by `mark_as_one_operation`, or `by` is a cast or detached copy of the node.
    """
    within = n.memo.get(_ENCLOSING_WRITE_KEY) if n.memo is not None else None
    return (within is not None and within() is by) or (by.op in _CONVERSION_OPS and n in by.inputs)


def _find_overwrite(n: Node, cell_of: Callable[[int], Storage | None]) -> Overwrite | None:
    """Return the counted overwrite of the storage of a node, or of the base of a chain of views.

    A counted write to shared memory since the node's snapshot is returned as an `Overwrite` without storage. Return
    None if there is none.
    """
    notes, lost = _find_storage_record(n, cell_of)
    if lost is not None:
        return lost if lost.is_counted else None
    snapshot = notes.snapshot if notes is not None else None
    if snapshot is None or not snapshot.is_overwritten:
        return None
    return Overwrite(return_none, snapshot.version, return_none, None)


def _find_storage_record(
    n: Node, cell_of: Callable[[int], Storage | None]
) -> tuple[StorageRecord | None, Overwrite | None]:
    """Return the storage record of a node, or of the base of a chain of views, and its overwrite.

    Return None for missing ones. The overwrite of a leaf is that of its own storage. For other nodes it is None if
    there is a storage with this value that was not overwritten.
    """
    uid = None
    # A node that a storage has as its value does not count as a view.
    while n.inputs and not n.cells and _is_view_of_operand(n):
        uid = n.attrs["uid"] if n.op == "variable" else None
        n = n.inputs[0]
    notes: StorageRecord | None = n.storage
    if notes is None or not notes.losses:
        return notes, None
    if uid is not None:
        # Several leaves may have started with equal values; find the record of this leaf's storage.
        cell = cell_of(uid)
        lost = notes.losses.get(id(cell))
        # The id may be that of a freed storage.
        return notes, lost if lost is not None and lost.cell() is cell else None
    # If a storage with this value was not overwritten, backward may mean that one. Constants are not tensors.
    if n.op == "const" or len(notes.losses) < n.cells - notes.clones:
        return notes, None
    return notes, next(iter(notes.losses.values()))


def current_value(n: Node, cell_of: Callable[[int], Storage | None]) -> Node:
    """Return the current value of the storage of a node if it was changed by writes that are not counted, else `n`.

    A view gives the same view of the current value of its base. `cell_of` returns the storage of a leaf by its number,
    or None.
    """
    if n.inputs and (n.op == "variable" or not n.cells) and _is_view_of_operand(n):
        inner = n.inputs[0]
        if n.op == "variable":
            cell = cell_of(n.attrs["uid"])
            _, lost = _find_storage_record(n, cell_of)
            moved = (
                read(cell) if cell is not None and lost is not None and not lost.is_counted else _reread_snapshot(inner)
            )
        else:
            moved = current_value(inner, cell_of)
        return n if moved is inner else node_from_template(node_template(n), (moved, *n.inputs[1:]))
    _, lost = _find_storage_record(n, cell_of)
    if lost is not None and lost.holder is not None and not lost.is_counted:
        return read(lost.holder)
    return _reread_snapshot(n)


def _is_view_of_operand(n: Node) -> bool:
    """Return whether a node has the elements of its operand: a view, or an adaptation for another operation."""
    return OPS[n.op].put is not None or n.op in _OPERAND_ADAPTING_OPS


def _reread_snapshot(n: Node) -> Node:
    """Return a node with the current elements of the shared memory that `n` was copied from; `n` if there is none."""
    notes: StorageRecord | None = n.storage
    return n if notes is None or notes.snapshot is None else notes.snapshot.current_value(n)


def find_uncounted_changes(roots: Sequence[Node], cell_of: Callable[[int], Storage | None]) -> dict[Node, Node]:
    """Return {saved value: current value} for values that were changed by writes which are not counted.

    These are writes through `.data` and through NumPy arrays. Only values that backward from `roots` may use are
    included.
    """
    if not storage_versions.has_uncounted_writes:
        return {}
    walked = dict.fromkeys(i for n in gradient_graph.tracked_nodes(roots) for i in (n, *n.inputs))
    return {n: m for n in walked if (m := current_value(n, cell_of)) is not n}


def substitute_current_values(
    roots: Sequence[Node], gradients: Sequence[Node | None], fresh: dict[Node, Node]
) -> Sequence[Node | None]:
    """Return gradients in which saved values are replaced by current ones; None stays None.

    A backward pass from `roots` made the gradients; `fresh` is the result of `find_uncounted_changes`. PyTorch reads
    saved tensors in backward, so a write through `.data` or a NumPy array changes the gradient.
    """
    walked = {i for n in gradient_graph.tracked_nodes(roots) for i in (n, *n.inputs)}
    # A current value may have been computed from the saved one.
    ends = walked | set(fresh.values())
    mapping: dict[Node, Node] = {}
    for n in topological([g for g in gradients if g is not None], ends.__contains__):
        inputs = () if n in ends else tuple(mapping[i] for i in n.inputs)
        mapping[n] = (
            fresh.get(n, n) if n in ends else n if inputs == n.inputs else node_from_template(node_template(n), inputs)
        )
    return [None if g is None else mapping[g] for g in gradients]


def _needed_by_gradient(n: Node) -> set[Node]:
    """Return the operands of a node, and the node itself, if its gradient is computed from them or PyTorch saves them.

    The set is empty if the node has no gradient rule, saves no values or has several results.
    """
    rule = OPS[n.op].vjp
    # Do not call a rule that saves nothing: it may be a function of the user.
    if rule is None or not saves_values(n) or isinstance(n.type, tuple):
        return set()
    seed = node("batch", (), {"index": -1, "name": "seed", "type": n.type}, n.type)
    ends = {n, *n.inputs}
    parts = zip(n.inputs, rule(seed, n, *n.inputs, **n.attrs), strict=True)
    gradients = [materialize_slice(d) for i, d in parts if d is not None and i.tracks]
    return (ends & set(topological(gradients, ends.__contains__))) | _kept_without_need(n)


def _kept_without_need(n: Node) -> set[Node]:
    """Return the operands or result of a node that PyTorch saves although the gradient does not need them.

    An operand is saved only if it is the only one or another one requires a gradient. The set is empty for most
    operations (`Op.also_keeps`).
    """
    kept = OPS[n.op].also_keeps
    if kept == "result":
        return {n}
    if kept == "last operand":
        return {n.inputs[-1]}
    others = [(i, [*n.inputs[:k], *n.inputs[k + 1 :]]) for k, i in enumerate(n.inputs)]
    return {i for i, rest in others if not rest or any(r.tracks for r in rest)} if kept == "operands" else set()


def _modified_in_place_error(n: Node, at: Node, lost: Overwrite) -> AutogradError:
    """Return PyTorch's error for node `n`, which saved the value `at` that was overwritten."""
    cell = lost.cell()
    version = cell.version if cell is not None else lost.version + 1
    # As in PyTorch, a result is named by its operation, and an operand by the operation that wrote it last.
    maker = n if at is n else cell.node if cell is not None else None
    name = (
        f", which is output 0 of {gradient_name(maker).removesuffix('Backward0').replace('Backward', '')},"
        if maker and maker.tracks
        else ""
    )
    return AutogradError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[torch.{_tensor_type_name(at.type.dtype)}Tensor {list(at.type.shape)}]{name} is at version "
        f"{version}; expected "
        f"version {lost.version} instead. Hint: enable anomaly detection to find the operation that failed to compute "
        "its gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False).",
        where=source.where(),
    )


def _tensor_type_name(dtype: DType) -> str:
    return TENSOR_TYPE_NAMES.get(dtype.name, "")
