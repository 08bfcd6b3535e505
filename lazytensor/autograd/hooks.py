"""Run backward: accumulate gradients in `.grad`, and call the hooks of tensors.

A hook is registered on the node that the tensor has at that time, as PyTorch's is on its `grad_fn`. It is called for
uses of the tensor before and after the registration; a later in-place write does not move it. Equal computations share
a node, so the node is first separated from later equal ones. If an equal tensor has the node already and neither was
used, a separate node is inserted between the tensor and its uses. If both may have been used, registration raises
AutogradError.
"""

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from lazytensor.autograd import gradient_graph, saved_tensors
from lazytensor.autograd.saved_tensors import TENSOR_TYPE_NAMES
from lazytensor.core import source, storage
from lazytensor.core.flat_buffers import Part, Whole
from lazytensor.core.tensor import (
    Tensor,
    detach_node,
    grad_mode,
    is_grad_enabled,
    leaf_tensors,
    storage_of_leaf,
    tensor_from_storage,
    wrap,
)
from lazytensor.core.tensor_members import method, tensor_property
from lazytensor.errors import ArgumentInvalid, AutogradError
from lazytensor.ir.buffer_slices import GradientSlice, JoinedGradient, materialize_slice
from lazytensor.ir.graph import Node, detach_at_location, is_used, unintern, unique_id

Hook = Callable[..., Any]
TensorsById = weakref.WeakValueDictionary[int, Tensor]
"""Tensors by `id`, because `==` of tensors compares elements."""


class _RetainedTensors(threading.local):
    """The tensors of each thread for which `retain_grad` was called."""

    def __init__(self) -> None:
        self.tensors = TensorsById()


_retained = _RetainedTensors()


class RemovableHandle:
    """A handle that removes a hook from `table`.

    It is also a context manager that removes the hook at the end of the block.

    Without a hook, only `id` is assigned, under which the caller can add one. `extra_dict` is a dict, or a list of
    dicts, from which `remove` deletes the same id.
    """

    id: int

    def __init__(self, table: dict[int, Hook], hook: Hook | None = None, *, extra_dict: Any = None):
        self._table, self.id = table, unique_id()
        # Other dicts with the same ids as keys, whose entries are removed with the hook.
        self._beside = extra_dict if isinstance(extra_dict, list) else [extra_dict] if extra_dict is not None else []
        if hook is not None:
            table[self.id] = hook

    def remove(self) -> None:
        """Remove the hook, and the entries of the same id in `extra_dict`; do nothing if it was removed before."""
        for table in (self._table, *self._beside):
            table.pop(self.id, None)

    def __enter__(self) -> "RemovableHandle":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def new_rule_id() -> Any:
    """Return an identifier for a node with a custom rule: a unique number outside of steps.

    Inside a step it is ("step", count from the start of the step), so that the next trace of the step gives an equal
    graph.
    """
    # With a global counter, each trace of a step would be a different graph and be compiled again.
    step = storage.thread_state.current
    if step is None:
        return unique_id()
    step.rules += 1
    return ("step", step.rules)


class _GradientHooks:
    """The hooks of one node, and the tensors that retain its gradient. Call it with the gradient to run them.

    It applies only in the step, or outside of steps, where it was created.
    """

    def __init__(self, device: Any):
        self.table: dict[int, Hook] = {}
        self.keepers = TensorsById()
        self.device = device
        # The next trace of a step reuses the nodes but registers new hooks, so remember the step.
        self._epoch = None if storage.thread_state.current is None else weakref.ref(storage.thread_state.current)

    def is_due(self) -> bool:
        """Return whether the hooks were registered in the step that is active now, or both are outside of steps."""
        return (
            storage.thread_state.current is None
            if self._epoch is None
            else self._epoch() is storage.thread_state.current is not None
        )

    def __call__(self, g: Node) -> Node:
        if not self.is_due():
            return g
        g = run_hooks(self.table, g, self.device)
        for t in list(self.keepers.values()):
            # A tensor that was written since retains the gradient of its current value, at another node.
            if hooks_at(t.node) is self:
                t.accumulate(g if is_grad_enabled() else detach_node(g))
        return g


def hooks_at(n: Node) -> _GradientHooks | None:
    """Return the hooks of a node that apply in the active step, or outside of steps; None if there are none.

    Hooks that were registered in another step do not apply.
    """
    arrival = n.memo.get(gradient_graph.NODE_HOOK_KEY) if n.memo is not None else None
    return arrival if isinstance(arrival, _GradientHooks) and arrival.is_due() else None


def _get_or_add_hooks(t: Tensor) -> _GradientHooks:
    """Return the hooks of the node of a tensor; create and register them if there are none.

    The tensor may get a separate node first (see `_unshared_node`).
    """
    n = _unshared_node(t)
    arrival = hooks_at(n)
    if arrival is None:
        gradient_graph.register_node_hook(n, arrival := _GradientHooks(t.device))
    return arrival


def _unshared_node(t: Tensor) -> Node:
    """Return the node of a tensor, after separating it from equal tensors so that it can have hooks.

    A node that no other tensor has, that has hooks already, or that was used is returned as it is. Otherwise the tensor
    gets a copy of its node by one more view operation. Raises AutogradError if the node was used and an equal tensor
    has it too.
    """
    n, step = t.node, storage.thread_state.current
    if hooks_at(n) is not None:
        return n
    if n.cells <= 1 and step is None:
        unintern(n)
        return n
    if step.uses(n) if step is not None else is_used(n):
        if step.shows(n, t.cell) if step is not None else n.storage is not None and n.storage.clones:
            raise _ambiguous_gradient_error()
        if step is None:
            unintern(n)
        return n
    t.view_ops = (*t.view_ops, ("custom_vjp", (("uid", new_rule_id()),)))
    t._seen = None
    return t.node


def _ambiguous_gradient_error() -> AutogradError:
    return AutogradError(
        "this tensor has been used, and a clone of it or another tensor of the same computation may have been "
        "used too: their gradients can no longer be distinguished",
        where=source.where(),
        hint="Call register_hook() or retain_grad() before the tensor is used.",
    )


def run_hooks(table: dict[int, Hook], g: Node, device: Any) -> Node:
    """Return the gradient `g` after calling all hooks of `table` with it, in the order of registration.

    A hook may return a tensor that replaces the gradient, or None, and may modify its argument in place. Raises
    ArgumentInvalid if it returns anything else, and AutogradError for a tensor of another shape or type.
    """
    for hook in list(table.values()):
        given = wrap(g if is_grad_enabled() else detach_node(g), device)
        answer = hook(given)
        # A hook may also modify the given gradient in place.
        g = _check_hook_result(hook, given if answer is None else answer, g)
    return g


def _check_hook_result(hook: Hook, answer: Any, g: Node) -> Node:
    """Return the node of a gradient that a hook returned in place of `g`.

    Raises ArgumentInvalid if it is no tensor, and AutogradError if its shape or type differs.
    """
    if not isinstance(answer, Tensor):
        text = f"expected Variable, but hook returned '{type(answer).__name__}'"
        raise ArgumentInvalid(text, where=source.where(), hint="Return a tensor or None from the hook.")
    name = getattr(hook, "__name__", type(hook).__name__)
    if answer.spec.shape != g.type.shape:
        raise AutogradError(
            f"hook '{name}' has changed the size of value",
            where=source.where(),
            hint="Return a gradient in the shape of the one that the hook receives.",
        )
    if answer.dtype is not g.type.dtype:
        was, is_now = (f"torch.{TENSOR_TYPE_NAMES.get(d.name, d.name)}Tensor" for d in (g.type.dtype, answer.dtype))
        raise AutogradError(
            f"hook '{name}' has changed the type of value (was {was} got {is_now})",
            where=source.where(),
            hint="Return a gradient with the dtype of the one that the hook receives.",
        )
    return answer.node


def run_leaf_hooks(t: Tensor, g: Node) -> Node:
    """Return the gradient `g` of a leaf after calling the leaf's hooks."""
    table = t.__dict__.get("_hooks")
    return run_hooks(table, g, t.device) if table else g


def update_retained_tensors() -> None:
    """Register tensors with `retain_grad` on their current nodes, which in-place writes may have changed.

    Tensors of other steps, and those that require no gradient any more, are skipped.
    """
    if not _retained.tensors:
        return
    for t in list(_retained.tensors.values()):
        # Skip tensors of other steps: reading `node` would make them part of this step.
        if t.cell.node is not None and t.cell.epoch is storage.thread_state.current and t.node.tracks:
            arrival = hooks_at(t.node)
            if arrival is None or id(t) not in arrival.keepers:
                _get_or_add_hooks(t).keepers[id(t)] = t


def run_backward(
    roots: Sequence[Node], seeds: Sequence[Node], create_graph: bool, inputs: Tensor | Sequence[Tensor] | None
) -> None:
    """Compute the gradients of sum(seed * root) and add them to `.grad`.

    All live leaves get a gradient, or only the tensors in `inputs`, also those that are no leaves, if that is not None.
    With `create_graph` the gradients have a gradient history. Raises AutogradError if a root requires no gradient.
    Whether the graph was freed is not checked here.
    """
    update_retained_tensors()
    is_recurring = storage.thread_state.current is None and not storage.is_abstract
    # Skip leaves whose tensors were freed.
    wanted = [
        (n, t) for n in gradient_graph.leaf_variables(roots) if (t := leaf_tensors.get(n.attrs["uid"])) is not None
    ]
    if inputs is not None:
        chosen = [inputs] if isinstance(inputs, Tensor) else list(inputs)
        wanted = [(n, t) for n, t in wanted if any(t is c for c in chosen)]
        # A tensor that is not a leaf gets the gradient at its current node.
        wanted += [(c.node, c) for c in chosen if not c.leaf_id]
    with grad_mode(create_graph):
        needed = [n for n, _ in wanted]
        gradients = gradient_graph.gradients_of(roots, seeds, needed, inputs is None, is_recurring, create_graph)
        if storage.thread_state.current is None and (
            fresh := saved_tensors.find_uncounted_changes(roots, storage_of_leaf)
        ):
            gradients = [
                *saved_tensors.substitute_current_values(roots, [materialize_slice(g) for g in gradients], fresh)
            ]
        if create_graph:
            prepare_double_backward(roots, [materialize_slice(g) for g in gradients])
        _accumulate_gradients([t for _, t in wanted], gradients, create_graph)


def prepare_double_backward(roots: Sequence[Node], gradients: Sequence[Node | None]) -> None:
    """Mark overwritten values that `gradients` were computed from as kept, so that backward through them is allowed.

    Inside a step it does nothing, because saved values are not checked there.
    """
    # Inside a step, saved values are not checked.
    if storage.thread_state.current is None:
        saved_tensors.mark_kept_values(roots, [g for g in gradients if g is not None], storage_of_leaf)


def _accumulate_gradients(
    tensors: Sequence[Tensor], gradients: Sequence[Node | GradientSlice | None], create_graph: bool
) -> None:
    """Add each gradient to `.grad` of its tensor, calling the hooks of leaves; None adds nothing.

    Outside of steps, gradients that are slices of one joined gradient stay in one array until one of them is read, if
    the tensors have no `.grad` and no hooks yet.
    """
    wholes: dict[JoinedGradient, Whole] = {}
    is_late = storage.thread_state.current is None and not (create_graph or storage.is_abstract)
    # The location of new nodes; a step mostly reuses the nodes of its previous trace.
    place = None if storage.thread_state.current is not None else source.where()
    for t, g in zip(tensors, gradients, strict=True):
        if isinstance(g, GradientSlice) and is_late and t.grad is None and g.of.is_in_order and not _has_leaf_hooks(t):
            longer = wholes.get(g.of)
            if longer is None:
                longer = wholes[g.of] = Whole(detach_node(g.of.node))
            t.grad = tensor_from_storage(storage.Storage.from_store(Part(longer, g.start * g.of.row, g.type), g.type))
            t.grad.device = t.device
        elif g is not None:
            n = g.slice() if isinstance(g, GradientSlice) else g
            # Hooks are in the instance's `__dict__`, which is empty for most tensors.
            if t.__dict__:
                _accumulate_gradient(t, n, create_graph)
            else:
                t.accumulate(n if create_graph else detach_node(n) if place is None else detach_at_location(n, place))


def _has_leaf_hooks(t: Tensor) -> bool:
    """Return whether a leaf has hooks on its gradient or after its accumulation."""
    d = t.__dict__
    return bool(d) and ("_hooks" in d or "_after_hooks" in d)


def _accumulate_gradient(t: Tensor, g: Node, create_graph: bool) -> None:
    """Add a gradient to `.grad` of one tensor, calling the hooks of a leaf before and after.

    Raises AutogradError if a hook after the accumulation does not return None.
    """
    if t.leaf_id:
        g = run_leaf_hooks(t, g)
    t.accumulate(g if create_graph else detach_node(g))
    for after in list(t.__dict__.get("_after_hooks", {}).values()):
        if after(t) is not None:
            text = "Tensor post accumulate grad hooks should return None."
            raise AutogradError(text, where=source.where(), hint="Return None from the hook.")


@method
def register_hook(t: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call `hook(gradient)` in backward when the gradient of this tensor is complete.

    A tensor that the hook returns replaces the gradient. Return a handle that removes the hook. Raises AutogradError
    for a tensor that requires no gradient, and if an equal tensor that was used already cannot be told apart.
    """
    if not t.requires_grad:
        raise AutogradError(
            "cannot register a hook on a tensor that doesn't require gradient",
            where=source.where(),
            hint="Call requires_grad_() on the tensor first.",
        )
    # The hooks of a leaf are on the tensor, because a leaf that was modified has several nodes.
    return RemovableHandle(t.__dict__.setdefault("_hooks", {}) if t.leaf_id else _get_or_add_hooks(t).table, hook)


@method
def register_post_accumulate_grad_hook(t: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call `hook(t)` after backward has added to `t.grad`. Return a handle that removes the hook.

    Backward raises AutogradError if the hook does not return None. Raises AutogradError for a tensor that is not a leaf
    that requires a gradient.
    """
    if not t.leaf_id:
        raise AutogradError(
            "post accumulate grad hooks cannot be registered on non-leaf tensors",
            where=source.where(),
            hint="Register the hook on a leaf, or use register_hook().",
        )
    return RemovableHandle(t.__dict__.setdefault("_after_hooks", {}), hook)


@method
def retain_grad(t: Tensor) -> None:
    """Make backward also set `.grad` of this tensor, which is not a leaf. It does nothing for a leaf.

    Raises AutogradError if the tensor requires no gradient.
    """
    if not t.requires_grad:
        raise AutogradError(
            "can't retain_grad on Tensor that has requires_grad=False",
            where=source.where(),
            hint="Call requires_grad_() on the tensor first.",
        )
    if t.leaf_id or t.__dict__.get("_retains_grad"):
        return
    t.__dict__["_retains_grad"] = True
    _get_or_add_hooks(t).keepers[id(t)] = t
    _retained.tensors[id(t)] = t


@tensor_property()
def retains_grad(t: Tensor) -> bool:
    """Whether `retain_grad` was called on this tensor and it is not a leaf."""
    return bool(t.__dict__.get("_retains_grad"))
