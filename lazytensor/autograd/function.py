"""Gradients asked for by name, and functions that bring their own backward.

Values are immutable, so what a gradient needs cannot be overwritten. That a tensor was changed in place which backward
needs is refused as in PyTorch all the same, by `saved_tensors`.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from lazytensor.autograd import gradient_graph
from lazytensor.autograd.hooks import (
    new_rule_id,
    prepare_double_backward,
    run_backward,
    run_leaf_hooks,
    update_retained_tensors,
)
from lazytensor.autograd.saved_tensors import (
    SAVES_TENSORS_KEY,
    find_uncounted_changes,
    grad_fn_name,
    inference_tensor_saved_error,
    substitute_current_values,
    unpack_saved_node,
)
from lazytensor.core import source, storage
from lazytensor.core.device import CPU
from lazytensor.core.tensor import Tensor, detach_node, grad_mode, is_grad_enabled, set_grad, storage_of_leaf, wrap
from lazytensor.core.tensor_members import method, tensor_property
from lazytensor.errors import ArgumentInvalid, AutogradError
from lazytensor.ir.graph import Node
from lazytensor.ops import call
from lazytensor.ops.elementwise import cast
from lazytensor.ops.identity import VJP_KEY
from lazytensor.ops.shape import sum_to

Tensors: TypeAlias = Tensor | Sequence[Tensor]


def _as_list(given: Any) -> list[Any]:
    return [] if given is None else [given] if isinstance(given, Tensor) else list(given)


def _seeds(outputs: list[Tensor], given: Any) -> list[Node]:
    seeds = _as_list(given) if given is not None else [None] * len(outputs)
    if len(seeds) != len(outputs):
        raise AutogradError(f"got {len(outputs)} tensors and {len(seeds)} gradients", where=source.where())
    return [o._seed(s) for o, s in zip(outputs, seeds, strict=True)]


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of the (weighted) outputs with respect to the inputs, one for each; `.grad` stays as it is.

    Raises AutogradError if an input requires no gradient, or is not used and `allow_unused` does not say so.
    """
    roots, wanted = _as_list(outputs), _as_list(inputs)
    if is_grads_batched:
        raise AutogradError("is_grads_batched is not there", where=source.where(), hint="Call grad once for each row.")
    if not all(t.requires_grad for t in wanted):
        raise AutogradError("One of the differentiated Tensors does not require grad", where=source.where())
    nodes = [o.node for o in roots]
    # One walk of the graph for all: each input asks at every node where it stands, and gets the sum.
    uses = _nodes_of_tensors(nodes, wanted)
    ends = {n for places in uses for n in places}
    for i, o in enumerate(roots):
        # What several outputs share is used up with the last of them.
        o.free_graph(retain_graph or (retain_graph is None and create_graph) or i + 1 < len(roots), ends)
    update_retained_tensors()
    with grad_mode(create_graph):
        gradients = iter(
            gradient_graph.grad(nodes, _seeds(roots, grad_outputs), [n for places in uses for n in places])
        )
        results = [_sum_gradients([next(gradients) for _ in places]) for places in uses]
        if storage.thread_state.current is None and (fresh := find_uncounted_changes(nodes, storage_of_leaf)):
            results = [*substitute_current_values(nodes, results, fresh)]
        if create_graph:
            prepare_double_backward(nodes, results)
    if not (allow_unused or materialize_grads) and any(g is None for g in results):
        hint = "Set allow_unused=True if this is the desired behavior."
        if storage.is_abstract:
            hint += " A plan begins where the model is called: what leads to its input has to be computed in it."
        raise AutogradError(
            "One of the differentiated Tensors appears to not have been used in the graph.",
            where=source.where(),
            hint=hint,
        )
    with grad_mode(create_graph):
        answers = [_wrap_gradient(t, g, create_graph) for t, g in zip(wanted, results, strict=True)]
    if materialize_grads:
        answers = [
            wrap(call("full", value=0.0, type=t.spec), t.device) if g is None else g
            for t, g in zip(wanted, answers, strict=True)
        ]
    return tuple(answers)


def _nodes_of_tensors(roots: list[Node], wanted: list[Tensor]) -> list[list[Node]]:
    """Where each tensor stands in the graph: a leaf may have had several values."""
    # Tensors are mutable and nodes are not: a leaf that was changed between two uses is two `variable` nodes, with one
    # number.
    by_uid: dict[int, list[Node]] = {}
    if any(t.leaf_id for t in wanted) and all(r.tracks for r in roots):
        for n in gradient_graph.leaf_variables(roots):
            by_uid.setdefault(n.attrs["uid"], []).append(n)
    return [by_uid.get(t.leaf_id, []) if t.leaf_id else [t.node] for t in wanted]


def _sum_gradients(parts: list[Node | None]) -> Node | None:
    total: Node | None = None
    for g in parts:
        if g is not None:
            total = g if total is None else total + g
    return total


def _wrap_gradient(t: Tensor, g: Node | None, create_graph: bool) -> Tensor | None:
    if g is None:
        return None
    g = run_leaf_hooks(t, g) if t.leaf_id else g
    return wrap(g if create_graph else detach_node(g), t.device)


def backward(
    tensors: Tensors,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of several tensors to `.grad` of the leaves."""
    roots, given = _as_list(tensors), _as_list(grad_tensors)
    if len(roots) == 1 and len(given) <= 1:
        # Through the method, which those who watch a script's losses replace.
        roots[0].backward(given[0] if given else None, retain_graph, create_graph, inputs)
        return
    seeds = _seeds(roots, grad_tensors)
    for i, t in enumerate(roots):
        # What several roots share is used up with the last of them.
        t.free_graph(i + 1 < len(roots) or (create_graph if retain_graph is None else retain_graph))
    run_backward([t.node for t in roots], seeds, create_graph, inputs)


@method(names="backward")
def backward_of(
    t: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Add the gradient of this tensor to `.grad` of every leaf it was computed from, or of those in `inputs`.

    Raises AutogradError if it is no scalar and no `gradient` is given, if nothing requires a gradient, or the
    second time on the same tensor unless `retain_graph` was asked for.
    """
    root, seed = t.node, t._seed(gradient)
    if not root.tracks:
        gradient_graph.grad([root], [seed], [])
    with gradient_graph.cached_node_order([root]):
        t.free_graph(create_graph if retain_graph is None else retain_graph)
        run_backward([root], [seed], create_graph, inputs)


def _assign_grad(t: Tensor, value: Any) -> None:
    """Set `.grad`. Raises AutogradError for a gradient of another shape or type, TypeError for anything else."""
    if value is not None and (value is t or not isinstance(value, Tensor) or value.spec != t.spec):
        _refuse_grad(t, value)
    set_grad(t, value)


def _refuse_grad(t: Tensor, value: Any) -> None:
    if value is t:
        raise AutogradError("can't assign Variable as its own grad", where=source.where())
    if not isinstance(value, Tensor):
        raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}")
    if t.device is not CPU or value.device is not CPU:
        return
    if value.spec.shape != t.spec.shape:
        raise AutogradError(
            f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size '{list(t.shape)}'. "
            "Please ensure that the gradient and the tensor are the same size",
            where=source.where(),
        )
    raise AutogradError(
        f"attempting to assign a gradient with dtype '{value.dtype.name}' to a tensor with dtype '{t.dtype.name}'. "
        "The gradient must match the tensor's dtype",
        where=source.where(),
        hint=f"Convert it with .to({t.dtype}).",
    )


# The getter is that of the slot, so that reading costs nothing more.
Tensor.grad = property(vars(Tensor)["grad"].__get__, _assign_grad)  # type: ignore[assignment]


class Context:
    """What `forward` leaves for `backward`: saved tensors, and whatever is set as an attribute."""

    def __init__(self, needs: tuple[bool, ...]):
        self.needs_input_grad = needs
        self.materialize: bool = True
        self._kept: tuple[Any, ...] = ()
        self._saved: list[tuple[Node, Tensor] | None] = []
        self._fixed: list[Tensor] = []
        self._dirty: list[Tensor] = []

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for backward, which is refused if they are changed in place until then; None is kept as None.

        Raises ArgumentInvalid for any other object.
        """
        for k, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                text = f"save_for_backward can only save variables, but argument {k} is of type {type(t).__name__}"
                raise ArgumentInvalid(text, where=source.where(), hint="Set it as an attribute of ctx.")
        self._kept = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say of outputs that no gradient flows through them."""
        self._fixed += tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say of inputs that forward has changed them in place and returns them."""
        self._dirty += tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether a gradient that nobody asked for comes as zeros (the default) or as None."""
        self.materialize = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors given to `save_for_backward`."""
        return tuple(None if s is None else _unpack_saved_tensor(*s) for s in self._saved)

    def freeze(self, outputs: dict[int, Node]) -> None:
        """Remember the values of the kept tensors; `outputs` gives the tracked nodes of those that are results."""
        # What was saved is what backward sees, whatever is written to the tensors in between.
        self._saved = [None if t is None else (outputs.get(id(t), t.node), t) for t in self._kept]
        self._kept = ()


def _unpack_saved_tensor(n: Node, kept: Tensor) -> Tensor:
    """Return a saved tensor: the tensor that was saved, as long as it has the value, so that they share memory."""
    if storage.thread_state.current is None:
        if kept.node is n:
            return kept
        n = unpack_saved_node(n, storage_of_leaf)
        # A write through `.data` does not make it another tensor.
        if kept.node is n:
            return kept
    tensor = wrap(n, kept.device)
    # Another handle on a saved value: the storage that had it is still the only one.
    n.cells -= 1
    return tensor


class Function:
    """A function with a gradient of its own: static methods `forward(ctx, ...)` and `backward(ctx, *gradients)`.

    With several differentiable outputs `backward` runs once for each, with zeros for the others; since it is linear
    in the gradients, the sum is the same.
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """To be defined by the subclass, with or without `ctx` as the first argument."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """One gradient, or None, for each argument of forward."""
        raise NotImplementedError("You must implement either the backward or vjp method for your custom Function.")

    vjp: Any = None
    setup_context: Any = None

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward without recording, and attach backward to what it returns."""
        ctx = Context(tuple(isinstance(a, Tensor) and a.requires_grad for a in args))
        inputs = [a.node for a in args if isinstance(a, Tensor)]
        # Two styles of PyTorch's: forward with ctx as its first argument, or without it and `setup_context` after it.
        with grad_mode(False):
            if cls.setup_context is None:
                out = cls.forward(ctx, *args, **kwargs)
            else:
                out = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, out)
        results = list(out) if isinstance(out, tuple) else [out]
        tracked: dict[int, Node] = {}
        if is_grad_enabled() and any(ctx.needs_input_grad):
            _check_dirty(ctx, results)
            _check_saved(ctx)
            results = _attach_backward(cls, ctx, args, inputs, results, tracked)
        ctx.freeze(tracked)
        if any(s is not None for s in ctx._saved):
            for n in tracked.values():
                n.memo = {**(n.memo or {}), SAVES_TENSORS_KEY: True}
        return type(out)(results) if isinstance(out, tuple) else results[0]


def custom_vjp(x: Node, inputs: Sequence[Node], rule: Callable[[Node], tuple[Node | None, ...]]) -> Node:
    """x as a node whose gradient goes through `rule`, which gives one for x, or None, and one for each input."""
    # The rule is no attribute: attributes are part of what makes nodes equal, and a closure is equal to nothing.
    node = call("custom_vjp", x, *inputs, uid=new_rule_id())
    node.memo = {**(node.memo or {}), VJP_KEY: rule}
    return node


def observe_gradient(n: Node, report: Callable[[Node], Node]) -> Node:
    """The same value as a node whose gradient passes through `report`."""
    return custom_vjp(n, (), lambda g: (report(g),))


def _attach_backward(
    cls: Any, ctx: Context, args: tuple[Any, ...], inputs: list[Node], results: list[Any], tracked: dict[int, Node]
) -> list[Any]:
    fixed = {id(t) for t in ctx._fixed}
    # Not the tensors themselves: the rule would keep them.
    types = [r.spec if isinstance(r, Tensor) else None for r in results]
    devices = [r.device if isinstance(r, Tensor) else CPU for r in results]
    attached = []
    for i, r in enumerate(results):
        if not isinstance(r, Tensor) or r.dtype.kind != "f" or id(r) in fixed:
            attached.append(r)
            continue

        # `i` as a default: the rule runs when the loop is long over.

        def rule(g: Node, i: int = i) -> tuple[Node | None, ...]:
            zeros = [None if t is None or not ctx.materialize else call("full", value=0.0, type=t) for t in types]
            nodes = [g if k == i else z for k, z in enumerate(zeros)]
            given = [None if n is None else wrap(n, device) for n, device in zip(nodes, devices, strict=True)]
            return (None, *_call_backward(cls, ctx, given, args))

        n = tracked[id(r)] = custom_vjp(detach_node(r.node), inputs, rule)
        if any(t is not None for t in ctx._kept):
            n.memo = {**(n.memo or {}), SAVES_TENSORS_KEY: True}
        attached.append(_result_tensor(r, n, any(r is d for d in ctx._dirty)))
    return attached


def _check_dirty(ctx: Context, results: Sequence[Any]) -> None:
    """Raise AutogradError for a tensor that `mark_dirty` was given, if it is a leaf or if it is not returned."""
    for t in ctx._dirty:
        if not any(r is t for r in results):
            raise AutogradError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that "
                "are modified inplace must all be outputs of the Function.",
                where=source.where(),
            )
        if t.leaf_id:
            text = "a leaf Variable that requires grad has been used in an in-place operation."
        elif t.view_ops and t.view_ops[0][0] == "variable":
            text = "a view of a leaf Variable that requires grad is being used in an in-place operation."
        else:
            continue
        raise AutogradError(text, where=source.where(), hint="Change a copy: x = x.clone().")


def _check_saved(ctx: Context) -> None:
    """Raise AutogradError for a tensor of inference mode among the saved ones."""
    if storage.thread_state.current is None and any(t is not None and t.cell.is_inference for t in ctx._kept):
        raise inference_tensor_saved_error()


def _result_tensor(r: Tensor, n: Node, is_dirty: bool) -> Tensor:
    if is_dirty:
        with grad_mode(True):
            r.write(n)
        return r
    return wrap(n, r.device)


def _call_backward(cls: Any, ctx: Context, given: list[Any], args: tuple[Any, ...]) -> list[Node | None]:
    """The gradients of the tensor arguments. Raises AutogradError if there are too few, too many or misshapen ones."""
    answer = (cls.vjp or cls.backward)(ctx, *given)
    answers = list(answer) if isinstance(answer, tuple | list) else [answer]
    _check_gradient_types(cls, answers, args)
    if len(answers) < len(args) or any(a is not None for a in answers[len(args) :]):
        raise AutogradError(
            f"function {cls.__name__}Backward returned an incorrect number of gradients (expected {len(args)}, "
            f"got {len(answers)})",
            where=source.where(),
        )
    # More answers than arguments are fine as long as they are None, as PyTorch has it.
    pairs = zip(answers, args, strict=False)
    return [_fit_gradient(cls, i, g, a) for i, (g, a) in enumerate(pairs) if isinstance(a, Tensor)]


def _check_gradient_types(cls: Any, answers: Sequence[Any], args: Sequence[Any]) -> None:
    for k, (g, a) in enumerate(zip(answers, args, strict=False)):
        if g is None:
            continue
        if not isinstance(g, Tensor):
            raise AutogradError(f"expected Variable or None (got {type(g).__name__})", where=source.where())
        if not isinstance(a, Tensor):
            raise AutogradError(
                f"function {cls.__name__}Backward returned a gradient different than None at position {k + 1}, but the "
                "corresponding forward input was not a Variable",
                where=source.where(),
            )


def _fit_gradient(cls: Any, i: int, g: Tensor | None, a: Tensor) -> Node | None:
    if g is None:
        return None
    n, shape = g.node, a.spec.shape
    lead = len(n.type.shape) - len(shape)
    if lead < 0 or any(e not in (1, f) for e, f in zip(shape, n.type.shape[lead:], strict=True)):
        raise AutogradError(
            f"Function {cls.__name__}Backward returned an invalid gradient at index {i} - got {list(n.type.shape)} but "
            f"expected shape compatible with {list(shape)}",
            where=source.where(),
        )
    # A gradient in the broadcast shape of its argument is summed back.
    if n.type.shape != shape:
        n = sum_to(n, shape, tuple(range(lead, len(n.type.shape))))
    return cast(n, a.dtype)


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Backward without a record of its own: its result has no second derivative."""

    def silent(ctx: Context, *gradients: Any) -> Any:
        with grad_mode(False):
            return function(ctx, *gradients)

    return silent


class GradientFunction:
    """What a tensor was computed by: a name to look at, and the functions before it."""

    def __init__(self, n: Node):
        self._node = n

    def name(self) -> str:
        """As in "MulBackward0"."""
        return grad_fn_name(self._node)

    @property
    def next_functions(self) -> tuple[tuple["GradientFunction | None", int], ...]:
        """One for each input; None where no gradient flows."""
        return tuple((GradientFunction(i) if i.tracks else None, 0) for i in self._node.inputs)

    def __repr__(self) -> str:
        return f"<{self.name()} object>"


@tensor_property()
def grad_fn(t: Tensor) -> GradientFunction | None:
    """The function that computed t; None for a leaf."""
    n = t.node
    return GradientFunction(n) if n.tracks and not t.leaf_id else None
