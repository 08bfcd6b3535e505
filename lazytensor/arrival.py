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

from lazytensor import autograd, cells, saved, source
from lazytensor.errors import ArgumentInvalid, AutogradError
from lazytensor.ir.graph import Node, detached, is_used, set_apart, unique
from lazytensor.members import fact, method
from lazytensor.ops.pieces import Joint, Piece, whole
from lazytensor.saved import KIND_NAMES
from lazytensor.tensor import Tensor, cell_of, grad_mode, handle, is_grad_enabled, leaves, untracked, wrap
from lazytensor.together import Part, Whole

Hook = Callable[..., Any]
Keepers = weakref.WeakValueDictionary[int, Tensor]
"""Tensors by their identity: `==` of tensors compares elements."""


class _Retaining(threading.local):
    """Tensors that keep their gradient, of each thread: one that walks back does not look at what others compute."""

    def __init__(self) -> None:
        self.tensors = Keepers()


_retaining = _Retaining()


class Handle:
    """Removes a hook again. Made without a hook, as libraries make it, it has the number under which to put one."""

    def __init__(self, table: dict[int, Hook], hook: Hook | None = None, *, extra_dict: Any = None):
        self._table, self.id = table, unique()
        # What is kept beside the hooks under the same numbers goes with them.
        self._beside = extra_dict if isinstance(extra_dict, list) else [extra_dict] if extra_dict is not None else []
        if hook is not None:
            table[self.id] = hook

    def remove(self) -> None:
        """Take the hook away."""
        for table in (self._table, *self._beside):
            table.pop(self.id, None)

    def __enter__(self) -> "Handle":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def rule_number() -> Any:
    """A number for a node with a rule; inside a step counted from its start, so that the next trace finds the same."""
    # A number from a counter that never goes back would make each trace of a step another graph, compiled anew.
    step = cells.here.current
    if step is None:
        return unique()
    step.rules += 1
    return ("step", step.rules)


class _Arrival:
    """What waits for the gradient of one node: hooks, and tensors that keep it."""

    def __init__(self, device: Any):
        self.table: dict[int, Hook] = {}
        self.keepers = Keepers()
        self.device = device
        # Nodes of a step are found again by its next trace, which registers its own hooks.
        self._epoch = None if cells.here.current is None else weakref.ref(cells.here.current)

    def is_due(self) -> bool:
        """Whether it was registered in the step that is being traced, or outside like this walk."""
        return cells.here.current is None if self._epoch is None else self._epoch() is cells.here.current is not None

    def __call__(self, g: Node) -> Node:
        if not self.is_due():
            return g
        g = run_hooks(self.table, g, self.device)
        for t in list(self.keepers.values()):
            # A tensor that was written to since keeps the gradient of what it is now.
            if arrival_at(t.node) is self:
                t.accumulate(g if is_grad_enabled() else untracked(g))
        return g


def arrival_at(n: Node) -> _Arrival | None:
    """What waits at a node in this step, or outside of steps."""
    arrival = n.memo.get(autograd.ARRIVAL) if n.memo is not None else None
    return arrival if isinstance(arrival, _Arrival) and arrival.is_due() else None


def _arrival_of(t: Tensor) -> _Arrival:
    """What waits for the gradient of what a tensor is now; registered where nothing waits yet."""
    n = _place_of(t)
    arrival = arrival_at(n)
    if arrival is None:
        autograd.watch(n, arrival := _Arrival(t.device))
    return arrival


def _place_of(t: Tensor) -> Node:
    """The node of a tensor, as one that no equal tensor has if that can be had."""
    n, step = t.node, cells.here.current
    if arrival_at(n) is not None:
        return n
    if n.cells <= 1 and step is None:
        set_apart(n)
        return n
    if step.uses(n) if step is not None else is_used(n):
        if step.shows(n, t.cell) if step is not None else n.storage is not None and n.storage.clones:
            raise _unclear()
        if step is None:
            set_apart(n)
        return n
    t.lens = (*t.lens, ("custom_vjp", (("uid", rule_number()),)))
    t._seen = None
    return t.node


def _unclear() -> AutogradError:
    return AutogradError(
        "this tensor has been used, and so may another one that was computed just like it or is its clone: their "
        "gradients cannot be told apart any more",
        where=source.where(),
        hint="Call register_hook() or retain_grad() before the tensor is used.",
    )


def run_hooks(table: dict[int, Hook], g: Node, device: Any) -> Node:
    """The gradient after all hooks. Raises TypeError or AutogradError for an answer that cannot take its place."""
    for hook in list(table.values()):
        given = wrap(g if is_grad_enabled() else untracked(g), device)
        answer = hook(given)
        # A hook may as well write to what it was given.
        g = _fitting(hook, given if answer is None else answer, g)
    return g


def _fitting(hook: Hook, answer: Any, g: Node) -> Node:
    if not isinstance(answer, Tensor):
        text = f"expected Variable, but hook returned '{type(answer).__name__}'"
        raise ArgumentInvalid(text, where=source.where(), hint="Return a tensor or None from the hook.")
    name = getattr(hook, "__name__", type(hook).__name__)
    if answer.spec.shape != g.type.shape:
        raise AutogradError(f"hook '{name}' has changed the size of value", where=source.where())
    if answer.dtype is not g.type.dtype:
        was, is_now = (f"torch.{KIND_NAMES.get(d.name, d.name)}Tensor" for d in (g.type.dtype, answer.dtype))
        raise AutogradError(
            f"hook '{name}' has changed the type of value (was {was} got {is_now})", where=source.where()
        )
    return answer.node


def hooked(t: Tensor, g: Node) -> Node:
    """The gradient of a leaf after the hooks that were registered on it."""
    table = t.__dict__.get("_hooks")
    return run_hooks(table, g, t.device) if table else g


def follow() -> None:
    """Let tensors that keep their gradient wait for it where they are now: they may have been written to."""
    if not _retaining.tensors:
        return
    for t in list(_retaining.tensors.values()):
        # A tensor from another step is no part of what is walked, and looking at it would draw it in.
        if t.cell.node is not None and t.cell.epoch is cells.here.current and t.node.tracks:
            arrival = arrival_at(t.node)
            if arrival is None or id(t) not in arrival.keepers:
                _arrival_of(t).keepers[id(t)] = t


def walk_back(
    roots: Sequence[Node], seeds: Sequence[Node], create_graph: bool, inputs: Tensor | Sequence[Tensor] | None
) -> None:
    """Add the gradients of sum(seed * root) to `.grad` of every leaf, or of those in `inputs`."""
    follow()
    is_recurring = cells.here.current is None and not cells.is_abstract
    # A leaf that nobody holds any more has no `.grad` to be added to.
    wanted = [(n, t) for n in autograd.leaves(roots) if (t := leaves.get(n.attrs["uid"])) is not None]
    if inputs is not None:
        chosen = [inputs] if isinstance(inputs, Tensor) else list(inputs)
        wanted = [(n, t) for n, t in wanted if any(t is c for c in chosen)]
        # What is asked for and is no leaf gets its gradient at its present value.
        wanted += [(c.node, c) for c in chosen if not c.leaf_id]
    with grad_mode(create_graph):
        gradients = autograd.gradients_of(roots, seeds, [n for n, _ in wanted], inputs is None, is_recurring)
        if cells.here.current is None and (fresh := saved.changed(roots, cell_of)):
            gradients = [*saved.refreshed(roots, [whole(g) for g in gradients], fresh)]
        if create_graph:
            keep(roots, [whole(g) for g in gradients])
        _hand_out([t for _, t in wanted], gradients, create_graph)


def keep(roots: Sequence[Node], gradients: Sequence[Node | None]) -> None:
    """Prepare gradients for a walk back through them: what they were computed from may have been written over."""
    # In a step nothing is checked.
    if cells.here.current is None:
        saved.keep(roots, [g for g in gradients if g is not None], cell_of)


def _hand_out(tensors: Sequence[Tensor], gradients: Sequence[Node | Piece | None], create_graph: bool) -> None:
    """Add each gradient to its tensor; pieces of one that is computed late stay together until somebody reads one."""
    wholes: dict[Joint, Whole] = {}
    is_late = cells.here.current is None and not (create_graph or cells.is_abstract)
    # Of new nodes; a step mostly finds those of the step before.
    place = None if cells.here.current is not None else source.where()
    for t, g in zip(tensors, gradients, strict=True):
        if isinstance(g, Piece) and is_late and t.grad is None and g.of.is_in_order and not _is_watched(t):
            longer = wholes.get(g.of)
            if longer is None:
                longer = wholes[g.of] = Whole(untracked(g.of.node))
            t.grad = handle(cells.Cell.at_home(Part(longer, g.start * g.of.row, g.type), g.type))
            t.grad.device = t.device
        elif g is not None:
            n = g.slice() if isinstance(g, Piece) else g
            # Hooks live in the instance's dictionary, which most tensors leave empty.
            if t.__dict__:
                _add(t, n, create_graph)
            else:
                t.accumulate(n if create_graph else untracked(n) if place is None else detached(n, place))


def _is_watched(t: Tensor) -> bool:
    d = t.__dict__
    return bool(d) and ("_hooks" in d or "_after_hooks" in d)


def _add(t: Tensor, g: Node, create_graph: bool) -> None:
    if t.leaf_id:
        g = hooked(t, g)
    t.accumulate(g if create_graph else untracked(g))
    for after in list(t.__dict__.get("_after_hooks", {}).values()):
        if after(t) is not None:
            text = "Tensor post accumulate grad hooks should return None."
            raise AutogradError(text, where=source.where(), hint="End the hook without a return value.")


@method
def register_hook(t: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Handle:
    """Call hook(gradient) when the gradient of t is known; what it returns replaces it.

    Raises AutogradError for a tensor that requires no gradient.
    """
    if not t.requires_grad:
        raise AutogradError("cannot register a hook on a tensor that doesn't require gradient", where=source.where())
    # A leaf's hooks run when its gradient is complete: it may have had several values, and is several nodes then.
    return Handle(t.__dict__.setdefault("_hooks", {}) if t.leaf_id else _arrival_of(t).table, hook)


@method
def register_post_accumulate_grad_hook(t: Tensor, hook: Callable[[Tensor], None]) -> Handle:
    """Call hook(t) whenever backward has added to t.grad. Raises AutogradError for what is no leaf."""
    if not t.leaf_id:
        raise AutogradError("post accumulate grad hooks cannot be registered on non-leaf tensors", where=source.where())
    return Handle(t.__dict__.setdefault("_after_hooks", {}), hook)


@method
def retain_grad(t: Tensor) -> None:
    """Fill `.grad` of a tensor that is no leaf as well. Raises AutogradError if it requires no gradient."""
    if not t.requires_grad:
        raise AutogradError("can't retain_grad on Tensor that has requires_grad=False", where=source.where())
    if t.leaf_id or t.__dict__.get("_retains_grad"):
        return
    t.__dict__["_retains_grad"] = True
    _arrival_of(t).keepers[id(t)] = t
    _retaining.tensors[id(t)] = t


@fact()
def retains_grad(t: Tensor) -> bool:
    """Whether `retain_grad` was called on a tensor that is no leaf."""
    return bool(t.__dict__.get("_retains_grad"))
