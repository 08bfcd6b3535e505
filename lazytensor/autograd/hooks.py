"""Gradients that arrive: in `.grad`, and at the hooks of tensors.

Hooks stand at the node that a tensor shows when they are registered, as PyTorch's stand at its `grad_fn`: what was
computed from it before is seen too, and a later write in place leaves them where they are. Equal computations are one
node, so the node is set apart from those to come; where an equal tensor has it already and nothing was computed from
either, a node of its own is put between the tensor and its uses. Only for one of two equal tensors that may both have
been used it is too late, and refused.
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
from lazytensor.ir.graph import Node, detach_at_location, is_used, unintern, unique_id
from lazytensor.ops.buffer_slices import GradientSlice, JoinedGradient, materialize_slice

Hook = Callable[..., Any]
TensorsById = weakref.WeakValueDictionary[int, Tensor]
"""Tensors by their identity: `==` of tensors compares elements."""


class _RetainedTensors(threading.local):
    """Tensors that keep their gradient, of each thread: one that walks back does not look at what others compute."""

    def __init__(self) -> None:
        self.tensors = TensorsById()


_retained = _RetainedTensors()


class RemovableHandle:
    """Removes a hook again. Made without a hook, as libraries make it, it has the number under which to put one."""

    id: int

    def __init__(self, table: dict[int, Hook], hook: Hook | None = None, *, extra_dict: Any = None):
        self._table, self.id = table, unique_id()
        # What is kept beside the hooks under the same numbers goes with them.
        self._beside = extra_dict if isinstance(extra_dict, list) else [extra_dict] if extra_dict is not None else []
        if hook is not None:
            table[self.id] = hook

    def remove(self) -> None:
        """Take the hook away."""
        for table in (self._table, *self._beside):
            table.pop(self.id, None)

    def __enter__(self) -> "RemovableHandle":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def new_rule_id() -> Any:
    """A number for a node with a rule; inside a step counted from its start, so that the next trace finds the same."""
    # A number from a counter that never goes back would make each trace of a step another graph, compiled anew.
    step = storage.thread_state.current
    if step is None:
        return unique_id()
    step.rules += 1
    return ("step", step.rules)


class _GradientHooks:
    """What waits for the gradient of one node: hooks, and tensors that keep it."""

    def __init__(self, device: Any):
        self.table: dict[int, Hook] = {}
        self.keepers = TensorsById()
        self.device = device
        # Nodes of a step are found again by its next trace, which registers its own hooks.
        self._epoch = None if storage.thread_state.current is None else weakref.ref(storage.thread_state.current)

    def is_due(self) -> bool:
        """Whether it was registered in the step that is being traced, or outside like this walk."""
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
            # A tensor that was written to since keeps the gradient of what it is now.
            if hooks_at(t.node) is self:
                t.accumulate(g if is_grad_enabled() else detach_node(g))
        return g


def hooks_at(n: Node) -> _GradientHooks | None:
    """What waits at a node in this step, or outside of steps."""
    arrival = n.memo.get(gradient_graph.NODE_HOOK_KEY) if n.memo is not None else None
    return arrival if isinstance(arrival, _GradientHooks) and arrival.is_due() else None


def _get_or_add_hooks(t: Tensor) -> _GradientHooks:
    """What waits for the gradient of what a tensor is now; registered where nothing waits yet."""
    n = _unshared_node(t)
    arrival = hooks_at(n)
    if arrival is None:
        gradient_graph.register_node_hook(n, arrival := _GradientHooks(t.device))
    return arrival


def _unshared_node(t: Tensor) -> Node:
    """The node of a tensor, as one that no equal tensor has if that can be had."""
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
        "this tensor has been used, and so may another one that was computed just like it or is its clone: their "
        "gradients cannot be told apart any more",
        where=source.where(),
        hint="Call register_hook() or retain_grad() before the tensor is used.",
    )


def run_hooks(table: dict[int, Hook], g: Node, device: Any) -> Node:
    """The gradient after all hooks. Raises TypeError or AutogradError for an answer that cannot take its place."""
    for hook in list(table.values()):
        given = wrap(g if is_grad_enabled() else detach_node(g), device)
        answer = hook(given)
        # A hook may as well write to what it was given.
        g = _check_hook_result(hook, given if answer is None else answer, g)
    return g


def _check_hook_result(hook: Hook, answer: Any, g: Node) -> Node:
    if not isinstance(answer, Tensor):
        text = f"expected Variable, but hook returned '{type(answer).__name__}'"
        raise ArgumentInvalid(text, where=source.where(), hint="Return a tensor or None from the hook.")
    name = getattr(hook, "__name__", type(hook).__name__)
    if answer.spec.shape != g.type.shape:
        raise AutogradError(f"hook '{name}' has changed the size of value", where=source.where())
    if answer.dtype is not g.type.dtype:
        was, is_now = (f"torch.{TENSOR_TYPE_NAMES.get(d.name, d.name)}Tensor" for d in (g.type.dtype, answer.dtype))
        raise AutogradError(
            f"hook '{name}' has changed the type of value (was {was} got {is_now})", where=source.where()
        )
    return answer.node


def run_leaf_hooks(t: Tensor, g: Node) -> Node:
    """The gradient of a leaf after the hooks that were registered on it."""
    table = t.__dict__.get("_hooks")
    return run_hooks(table, g, t.device) if table else g


def update_retained_tensors() -> None:
    """Let tensors that keep their gradient wait for it where they are now: they may have been written to."""
    if not _retained.tensors:
        return
    for t in list(_retained.tensors.values()):
        # A tensor from another step is no part of what is walked, and looking at it would draw it in.
        if t.cell.node is not None and t.cell.epoch is storage.thread_state.current and t.node.tracks:
            arrival = hooks_at(t.node)
            if arrival is None or id(t) not in arrival.keepers:
                _get_or_add_hooks(t).keepers[id(t)] = t


def run_backward(
    roots: Sequence[Node], seeds: Sequence[Node], create_graph: bool, inputs: Tensor | Sequence[Tensor] | None
) -> None:
    """Add the gradients of sum(seed * root) to `.grad` of every leaf, or of those in `inputs`."""
    update_retained_tensors()
    is_recurring = storage.thread_state.current is None and not storage.is_abstract
    # A leaf that nobody holds any more has no `.grad` to be added to.
    wanted = [
        (n, t) for n in gradient_graph.leaf_variables(roots) if (t := leaf_tensors.get(n.attrs["uid"])) is not None
    ]
    if inputs is not None:
        chosen = [inputs] if isinstance(inputs, Tensor) else list(inputs)
        wanted = [(n, t) for n, t in wanted if any(t is c for c in chosen)]
        # What is asked for and is no leaf gets its gradient at its present value.
        wanted += [(c.node, c) for c in chosen if not c.leaf_id]
    with grad_mode(create_graph):
        gradients = gradient_graph.gradients_of(roots, seeds, [n for n, _ in wanted], inputs is None, is_recurring)
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
    """Prepare gradients for a walk back through them: what they were computed from may have been written over."""
    # In a step nothing is checked.
    if storage.thread_state.current is None:
        saved_tensors.mark_kept_values(roots, [g for g in gradients if g is not None], storage_of_leaf)


def _accumulate_gradients(
    tensors: Sequence[Tensor], gradients: Sequence[Node | GradientSlice | None], create_graph: bool
) -> None:
    """Add each gradient to its tensor; pieces of one that is computed late stay together until somebody reads one."""
    wholes: dict[JoinedGradient, Whole] = {}
    is_late = storage.thread_state.current is None and not (create_graph or storage.is_abstract)
    # Of new nodes; a step mostly finds those of the step before.
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
            # Hooks live in the instance's dictionary, which most tensors leave empty.
            if t.__dict__:
                _accumulate_gradient(t, n, create_graph)
            else:
                t.accumulate(n if create_graph else detach_node(n) if place is None else detach_at_location(n, place))


def _has_leaf_hooks(t: Tensor) -> bool:
    d = t.__dict__
    return bool(d) and ("_hooks" in d or "_after_hooks" in d)


def _accumulate_gradient(t: Tensor, g: Node, create_graph: bool) -> None:
    if t.leaf_id:
        g = run_leaf_hooks(t, g)
    t.accumulate(g if create_graph else detach_node(g))
    for after in list(t.__dict__.get("_after_hooks", {}).values()):
        if after(t) is not None:
            text = "Tensor post accumulate grad hooks should return None."
            raise AutogradError(text, where=source.where(), hint="End the hook without a return value.")


@method
def register_hook(t: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call hook(gradient) when the gradient of t is known; what it returns replaces it.

    Raises AutogradError for a tensor that requires no gradient.
    """
    if not t.requires_grad:
        raise AutogradError("cannot register a hook on a tensor that doesn't require gradient", where=source.where())
    # A leaf's hooks run when its gradient is complete: it may have had several values, and is several nodes then.
    return RemovableHandle(t.__dict__.setdefault("_hooks", {}) if t.leaf_id else _get_or_add_hooks(t).table, hook)


@method
def register_post_accumulate_grad_hook(t: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call hook(t) whenever backward has added to t.grad. Raises AutogradError for what is no leaf."""
    if not t.leaf_id:
        raise AutogradError("post accumulate grad hooks cannot be registered on non-leaf tensors", where=source.where())
    return RemovableHandle(t.__dict__.setdefault("_after_hooks", {}), hook)


@method
def retain_grad(t: Tensor) -> None:
    """Fill `.grad` of a tensor that is no leaf as well. Raises AutogradError if it requires no gradient."""
    if not t.requires_grad:
        raise AutogradError("can't retain_grad on Tensor that has requires_grad=False", where=source.where())
    if t.leaf_id or t.__dict__.get("_retains_grad"):
        return
    t.__dict__["_retains_grad"] = True
    _get_or_add_hooks(t).keepers[id(t)] = t
    _retained.tensors[id(t)] = t


@tensor_property()
def retains_grad(t: Tensor) -> bool:
    """Whether `retain_grad` was called on a tensor that is no leaf."""
    return bool(t.__dict__.get("_retains_grad"))
