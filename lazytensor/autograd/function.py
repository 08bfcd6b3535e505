"""`autograd.grad`, `backward`, the `.grad` attribute, and custom functions (`Function`).

Nodes are immutable, so the values that a gradient needs are always available. Using a tensor in backward that was
modified in place is still an error, as in PyTorch; `saved_tensors` raises it.
"""

from collections.abc import Callable, Sequence
from functools import partial
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
    inference_tensor_saved_error,
    substitute_current_values,
    unpack_saved_node,
)
from lazytensor.core import source, storage
from lazytensor.core.device import CPU
from lazytensor.core.dtype import float32
from lazytensor.core.tensor import Tensor, detach_node, grad_mode, is_grad_enabled, set_grad, storage_of_leaf, wrap
from lazytensor.core.tensor_members import method, tensor_property
from lazytensor.errors import ArgumentInvalid, AutogradError, OptionMissing
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import gradient_name
from lazytensor.ir.types import Type
from lazytensor.ops import call
from lazytensor.ops.elementwise import cast
from lazytensor.ops.formula import ResultGradients
from lazytensor.ops.identity import VJP_KEY
from lazytensor.ops.shape import sum_to

Tensors: TypeAlias = Tensor | Sequence[Tensor]


def _as_list(given: Any) -> list[Any]:
    return [] if given is None else [given] if isinstance(given, Tensor) else list(given)


def _seeds(outputs: list[Tensor], given: Any) -> list[Node]:
    """Return the gradient that backward starts with at each output, as `Tensor._seed` computes it.

    `given` is None, one tensor, or a sequence in which None means 1 for an output with one element. Raises
    AutogradError for a wrong number of gradients, and as `Tensor._seed` does.
    """
    seeds = _as_list(given) if given is not None else [None] * len(outputs)
    if len(seeds) != len(outputs):
        raise AutogradError(
            f"got {len(outputs)} tensors and {len(seeds)} gradients",
            where=source.where(),
            hint="Pass one gradient for each output, or omit grad_outputs.",
        )
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
    """Return the gradients of `outputs`, weighted by `grad_outputs` and summed, with respect to each of `inputs`.

    `.grad` attributes do not change. Hooks of the tensors are called. The arguments are those of `torch.autograd.grad`:

    - `grad_outputs`: a tensor in the shape of each output; None means 1 for an output with one element.
    - `retain_graph`: whether the graph can be used again; default is `create_graph`.
    - `create_graph`: record gradients of the gradients.
    - `allow_unused`: return None for an input that the outputs do not depend on.
    - `materialize_grads`: return zeros for such an input.
    - `is_grads_batched`: not supported; raises AutogradError.

    Raises AutogradError if an input requires no gradient, if an input is not used and neither `allow_unused` nor
    `materialize_grads` is set, if the graph was freed before, if a saved value was modified in place, or if
    `grad_outputs` do not fit.

    >>> import lazytensor as lt
    >>> from lazytensor.autograd.function import grad
    >>> x = lt.tensor([1.0, 2.0], requires_grad=True)
    >>> grad((x * x).sum(), x)
    (tensor([2., 4.]),)
    """
    roots, wanted = _as_list(outputs), _as_list(inputs)
    if is_grads_batched:
        raise AutogradError(
            "grad() does not support is_grads_batched=True",
            where=source.where(),
            hint="Call grad() once for each row of grad_outputs.",
        )
    if not all(t.requires_grad for t in wanted):
        raise AutogradError(
            f"One of the differentiated Tensors does not require grad: it is one of {len(wanted)} inputs",
            where=source.where(),
            hint="Call requires_grad_() on it before computing the outputs.",
        )
    nodes = [o.node for o in roots]
    with gradient_graph.cached_node_order(nodes):
        # One backward pass for all inputs. An input may have several nodes; its gradient is their sum.
        uses = _nodes_of_tensors(nodes, wanted)
        ends = {n for places in uses for n in places}
        for i, o in enumerate(roots):
            # Parts of the graph that outputs share are freed with the last output.
            o.free_graph(retain_graph or (retain_graph is None and create_graph) or i + 1 < len(roots), ends)
        update_retained_tensors()
        is_eager = storage.thread_state.current is None and not storage.is_abstract
        with grad_mode(create_graph):
            seeds = _seeds(roots, grad_outputs)
            needed = [n for places in uses for n in places]
            gradients = iter(gradient_graph.grad(nodes, seeds, needed, is_eager, create_graph))
            results = [_sum_gradients([next(gradients) for _ in places]) for places in uses]
            if storage.thread_state.current is None and (fresh := find_uncounted_changes(nodes, storage_of_leaf)):
                results = [*substitute_current_values(nodes, results, fresh)]
            if create_graph:
                prepare_double_backward(nodes, results)
    if not (allow_unused or materialize_grads) and any(g is None for g in results):
        hint = "Set allow_unused=True if this is the desired behavior."
        if storage.is_abstract:
            hint += " A plan begins at the call of the model: compute the model's input inside the model."
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
    """Return, for each tensor of `wanted`, its nodes in the graph of `roots`.

    A leaf that was modified between two uses has several nodes. A leaf has none if the graph does not contain it or if
    a root requires no gradient. Any other tensor has its current node, which need not be in the graph.
    """
    # A leaf that was modified between two uses has two `variable` nodes with the same number.
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
    """Return a gradient as a tensor after calling the hooks of the leaf `t`; None for None.

    It is on the device of `t`, and has a gradient history only if `create_graph`.
    """
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
    """Compute the gradients of several tensors, weighted by `grad_tensors`, and add them to `.grad` of the leaves.

    The other arguments are those of `Tensor.backward`. For a single tensor its method `backward` is called. Raises
    AutogradError for a wrong number of gradients, and as `Tensor.backward` does.
    """
    roots, given = _as_list(tensors), _as_list(grad_tensors)
    if len(roots) == 1 and len(given) <= 1:
        # Call the method, which tools may replace in order to observe losses.
        roots[0].backward(given[0] if given else None, retain_graph, create_graph, inputs)
        return
    seeds = _seeds(roots, grad_tensors)
    for i, t in enumerate(roots):
        # Parts of the graph that roots share are freed with the last root.
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
    """Compute the gradient of this tensor and add it to `.grad` of every leaf that the tensor depends on.

    - `gradient`: the gradient of the tensor itself; default is 1 for a tensor with one element.
    - `retain_graph`: whether backward can be called again; default is `create_graph`.
    - `create_graph`: record gradients of the gradients.
    - `inputs`: the tensors that get a gradient, instead of all leaves. They need not be leaves.

    Raises AutogradError if the tensor has several elements and there is no `gradient`, if `gradient` has another shape,
    if the tensor requires no gradient, if the graph was freed by an earlier call, or if a saved value was modified in
    place.
    """
    root, seed = t.node, t._seed(gradient)
    if not root.tracks:
        gradient_graph.grad([root], [seed], [])
    with gradient_graph.cached_node_order([root]):
        t.free_graph(create_graph if retain_graph is None else retain_graph)
        run_backward([root], [seed], create_graph, inputs)


def _assign_grad(t: Tensor, value: Any) -> None:
    """Set `.grad` to `value`, a tensor or None.

    Raises AutogradError if `value` has another shape or type, or is `t` itself, and TypeError if it is no tensor and
    not None. The shape and type may differ if one of the two tensors is not on the CPU.
    """
    if value is not None and (value is t or not isinstance(value, Tensor) or value.spec != t.spec):
        _refuse_grad(t, value)
    set_grad(t, value)


def _refuse_grad(t: Tensor, value: Any) -> None:
    """Raise PyTorch's error for `value`, which the caller has found invalid as `t.grad`.

    The first case that applies decides:

    - `value` is `t`: AutogradError.
    - `value` is not a Tensor: TypeError.
    - `t` or `value` is not on the CPU: return without an error.
    - The shapes differ: AutogradError about the shapes.
    - Otherwise: AutogradError about the dtypes, which are not compared again.
    """
    if value is t:
        raise AutogradError(
            "can't assign Variable as its own grad",
            where=source.where(),
            hint="Assign x.grad.clone() or another tensor.",
        )
    if not isinstance(value, Tensor):
        raise ArgumentInvalid(
            f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}",
            where=source.where(),
            hint="Assign a tensor or None.",
        )
    if t.device is not CPU or value.device is not CPU:
        return
    if value.spec.shape != t.spec.shape:
        raise AutogradError(
            f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size '{list(t.shape)}'. "
            "Please ensure that the gradient and the tensor are the same size",
            where=source.where(),
            hint="Reshape the gradient to the size of the tensor.",
        )
    raise AutogradError(
        f"attempting to assign a gradient with dtype '{value.dtype.name}' to a tensor with dtype '{t.dtype.name}'. "
        "The gradient must match the tensor's dtype",
        where=source.where(),
        hint=f"Convert it with .to({t.dtype}).",
    )


# The getter is that of the slot, so that reading `.grad` is fast.
Tensor.grad = property(vars(Tensor)["grad"].__get__, _assign_grad)  # type: ignore[assignment]


class Context:
    """The `ctx` object of a custom function, with which `forward` passes saved tensors and attributes to `backward`."""

    def __init__(self, needs: tuple[bool, ...]):
        self.needs_input_grad = needs
        self.materialize: bool = True
        self._kept: tuple[Any, ...] = ()
        self._saved: list[tuple[Node, Tensor] | None] = []
        self._fixed: list[Tensor] = []
        self._dirty: list[Tensor] = []

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save tensors for `backward`; None is kept as None. Modifying one in place before backward is an error.

        Raises ArgumentInvalid for any other object.
        """
        for k, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                text = f"save_for_backward can only save variables, but argument {k} is of type {type(t).__name__}"
                raise ArgumentInvalid(text, where=source.where(), hint="Set it as an attribute of ctx.")
        self._kept = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Mark outputs of `forward` as not differentiable."""
        self._fixed += tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Mark inputs that `forward` modifies in place. `forward` must return them."""
        self._dirty += tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether `backward` gets zeros (the default) or None as the gradient of an output that was not used."""
        self.materialize = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors passed to `save_for_backward`, and None where None was passed.

        Empty until `forward` has returned. Raises AutogradError if a tensor was modified in place since, outside of
        steps.
        """
        return tuple(None if s is None else _unpack_saved_tensor(*s) for s in self._saved)

    def freeze(self, outputs: dict[int, Node]) -> None:
        """Save the current nodes of the tensors passed to `save_for_backward`.

        With them, backward detects whether a tensor was modified since. `outputs` gives the nodes of tensors that are
        differentiable outputs, by `id` of the tensor.
        """
        # Save nodes: backward then detects whether a tensor was modified since.
        self._saved = [None if t is None else (outputs.get(id(t), t.node), t) for t in self._kept]
        self._kept = ()


def _unpack_saved_tensor(n: Node, kept: Tensor) -> Tensor:
    """Return a saved tensor for `backward`: `kept` itself if it still has the value `n`, so that they share memory.

    Otherwise return a new tensor with that value, or with the current one after writes through `.data` or a NumPy
    array. Raises AutogradError if the tensor was modified in place; inside a step this is not checked.
    """
    if storage.thread_state.current is None:
        if kept.node is n:
            return kept
        n = unpack_saved_node(n, storage_of_leaf)
        # After a write through `.data`, it is still the same tensor.
        if kept.node is n:
            return kept
    tensor = wrap(n, kept.device)
    # `wrap` counted the new tensor as another storage with this value; undo that, because it only shows a saved value.
    n.cells -= 1
    return tensor


class Function:
    """Base class of custom autograd functions, which define static methods `forward` and `backward`.

    The first argument of both is `ctx`, a `Context`.

    As in PyTorch, `forward` may omit `ctx` if there is a method `setup_context(ctx, inputs, output)`. A backward pass
    calls `backward` once, with the gradients of all outputs. An output that the pass did not reach has zeros as its
    gradient, or None after `ctx.set_materialize_grads(False)`.
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs. The subclass defines this method.

        Its first argument is `ctx`, unless the subclass defines `setup_context`.
        """
        raise OptionMissing(
            "You must implement the forward function for custom autograd.Function.",
            where=source.where(),
            hint="Define forward(ctx, ...) as a static method.",
        )

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Return a gradient, or None, for each argument of `forward`, given the gradients of its outputs."""
        raise OptionMissing(
            "You must implement either the backward or vjp method for your custom Function.",
            where=source.where(),
            hint="Define backward(ctx, *gradients) as a static method.",
        )

    vjp: Any = None
    setup_context: Any = None

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call `forward` with gradients disabled, and attach `backward` to its floating-point outputs.

        Return what `forward` returns, with new tensors for differentiable outputs. A namedtuple or other subclass of
        tuple becomes a plain tuple, as in PyTorch. `backward` is attached only if gradients are enabled and an argument
        requires one. Tensors in containers and keyword arguments do not count as arguments. Raises AutogradError for an
        invalid use of `mark_dirty` and for a saved inference tensor.
        """
        ctx = Context(tuple(isinstance(a, Tensor) and a.requires_grad for a in args))
        inputs = [a.node for a in args if isinstance(a, Tensor)]
        # PyTorch's two styles: `forward(ctx, ...)`, or `forward(...)` followed by `setup_context`.
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
        return tuple(results) if isinstance(out, tuple) else results[0]


def custom_vjp(x: Node, inputs: Sequence[Node], rule: Callable[[Node], tuple[Node | None, ...]]) -> Node:
    """Return a node with the value of `x` and a custom gradient rule. The node is never shared with equal calls.

    `rule(g)` gets the gradient of the node and returns a gradient, or None, for `x` and for each node of `inputs`.
    """
    # The rule is stored in `memo`, because attributes determine which nodes are equal and closures are never equal.
    node = call("custom_vjp", x, *inputs, uid=new_rule_id())
    node.memo = {**(node.memo or {}), VJP_KEY: rule}
    return node


def custom_vjp_of_all(
    values: Sequence[Node],
    inputs: Sequence[Node],
    rule: Callable[[Sequence[Node | None]], Sequence[Node | None]],
) -> list[Node]:
    """Return nodes with the values of `values` and one custom gradient rule for all of them.

    A backward pass calls `rule(gradients)` once, after the gradients of all nodes are complete. `gradients` has one
    gradient for each value, or None for a value that the pass did not reach. `rule` returns a gradient, or None, for
    each node of `inputs`. No gradient reaches `values`.
    """
    if len(values) == 1:
        return [custom_vjp(values[0], inputs, lambda g: (None, *rule([g])))]

    def call_rule(parts: Any) -> tuple[Node | None, ...]:
        return None, *rule([parts.get(k) for k in range(len(values))])

    # All results pass their gradients to one node, which backward visits after the results. Its value has no meaning.
    junction = custom_vjp(call("full", value=0.0, type=Type((), float32)), inputs, call_rule)

    def to_junction(k: int, g: Node) -> tuple[Any, ...]:
        return None, ResultGradients({k: g})

    return [custom_vjp(v, (junction,), partial(to_junction, k)) for k, v in enumerate(values)]


def observe_gradients(
    nodes: Sequence[Node], report: Callable[[Sequence[Node | None]], Sequence[Node | None]]
) -> list[Node]:
    """Return nodes with the values of `nodes`, whose gradients are replaced by those that `report(gradients)` returns.

    Backward calls `report` once with the gradients of all nodes, as `custom_vjp_of_all` describes.
    """
    return custom_vjp_of_all([detach_node(n) for n in nodes], nodes, report)


def observe_gradient(n: Node, report: Callable[[Node], Node]) -> Node:
    """Return a node with the value of `n` whose gradient is replaced by `report(gradient)` in backward."""
    return custom_vjp(n, (), lambda g: (report(g),))


def _attach_backward(
    cls: Any, ctx: Context, args: tuple[Any, ...], inputs: list[Node], results: list[Any], tracked: dict[int, Node]
) -> list[Any]:
    """Return the results of `forward` with the custom backward attached, as new tensors.

    Results that are not floating-point tensors or are marked as not differentiable are unchanged. A result that is
    marked as dirty is written in place instead of replaced. The new nodes are added to `tracked`, by `id` of the
    result.
    """
    fixed = {id(t) for t in ctx._fixed}
    # Keep types and devices only, so that the rule does not keep the tensors alive.
    types = [r.spec if isinstance(r, Tensor) else None for r in results]
    devices = [r.device if isinstance(r, Tensor) else CPU for r in results]
    places = [k for k, r in enumerate(results) if isinstance(r, Tensor) and r.dtype.kind == "f" and id(r) not in fixed]

    def rule(gradients: Sequence[Node | None]) -> Sequence[Node | None]:
        nodes = dict(zip(places, gradients, strict=True))
        given = [_wrap_or_fill(nodes.get(k), t if ctx.materialize else None, devices[k]) for k, t in enumerate(types)]
        return _call_backward(cls, ctx, given, args)

    attached = list(results)
    values = [detach_node(results[k].node) for k in places]
    for k, n in zip(places, custom_vjp_of_all(values, inputs, rule) if places else (), strict=True):
        r = results[k]
        tracked[id(r)] = n
        if any(t is not None for t in ctx._kept):
            n.memo = {**(n.memo or {}), SAVES_TENSORS_KEY: True}
        attached[k] = _result_tensor(r, n, any(r is d for d in ctx._dirty))
    return attached


def _wrap_or_fill(g: Node | None, type: Type | None, device: Any) -> Tensor | None:
    """Return the gradient `g` as a tensor. If it is None, return zeros of `type`, or None if `type` is None too."""
    if g is None and type is not None:
        g = call("full", value=0.0, type=type)
    return None if g is None else wrap(g, device)


def _check_dirty(ctx: Context, results: Sequence[Any]) -> None:
    """Raise AutogradError if a tensor passed to `mark_dirty` is not returned, or is a leaf or a view of one."""
    for t in ctx._dirty:
        if not any(r is t for r in results):
            raise AutogradError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that "
                "are modified inplace must all be outputs of the Function.",
                where=source.where(),
                hint="Return each tensor that forward passes to ctx.mark_dirty().",
            )
        if t.leaf_id:
            text = "a leaf Variable that requires grad has been used in an in-place operation."
        elif t.view_ops and t.view_ops[0][0] == "variable":
            text = "a view of a leaf Variable that requires grad is being used in an in-place operation."
        else:
            continue
        raise AutogradError(text, where=source.where(), hint="Change a copy: x = x.clone().")


def _check_saved(ctx: Context) -> None:
    """Raise AutogradError if a tensor passed to `save_for_backward` was created in inference mode, outside of steps."""
    if storage.thread_state.current is None and any(t is not None and t.cell.is_inference for t in ctx._kept):
        raise inference_tensor_saved_error()


def _result_tensor(r: Tensor, n: Node, is_dirty: bool) -> Tensor:
    """Return a tensor with the node `n`: `r` itself, written in place, if it is marked as dirty, else a new tensor."""
    if is_dirty:
        with grad_mode(True):
            r.write(n)
        return r
    return wrap(n, r.device)


def _call_backward(cls: Any, ctx: Context, given: list[Any], args: tuple[Any, ...]) -> list[Node | None]:
    """Call the custom backward and return the gradients of the tensor arguments as nodes, or None.

    `given` are the gradients of the results, as tensors or None. Raises AutogradError if the number, types or shapes of
    the returned gradients do not fit `args`. More gradients than arguments are allowed if the surplus is None.
    """
    answer = (cls.vjp or cls.backward)(ctx, *given)
    answers = list(answer) if isinstance(answer, tuple | list) else [answer]
    _check_gradient_types(cls, answers, args)
    if len(answers) < len(args) or any(a is not None for a in answers[len(args) :]):
        raise AutogradError(
            f"function {cls.__name__}Backward returned an incorrect number of gradients (expected {len(args)}, "
            f"got {len(answers)})",
            where=source.where(),
            hint="Return one gradient, or None, for each argument of forward.",
        )
    # As in PyTorch, there may be more gradients than arguments if the additional ones are None.
    pairs = zip(answers, args, strict=False)
    return [_fit_gradient(cls, i, g, a) for i, (g, a) in enumerate(pairs) if isinstance(a, Tensor)]


def _check_gradient_types(cls: Any, answers: Sequence[Any], args: Sequence[Any]) -> None:
    """Raise AutogradError if a returned gradient is not a tensor or None.

    A gradient that is not None for an argument that is not a tensor is an error too. The numbers of gradients and
    arguments may differ; only pairs are checked.
    """
    for k, (g, a) in enumerate(zip(answers, args, strict=False)):
        if g is None:
            continue
        if not isinstance(g, Tensor):
            raise AutogradError(
                f"expected Variable or None (got {type(g).__name__})",
                where=source.where(),
                hint="Return tensors or None from backward.",
            )
        if not isinstance(a, Tensor):
            raise AutogradError(
                f"function {cls.__name__}Backward returned a gradient different than None at position {k + 1}, but the "
                "corresponding forward input was not a Variable",
                where=source.where(),
                hint="Return None for arguments that are not tensors.",
            )


def _fit_gradient(cls: Any, i: int, g: Tensor | None, a: Tensor) -> Node | None:
    """Return gradient `i` cast to the type of its argument `a` and summed to its shape; None for None.

    Raises AutogradError if the shape of `a` cannot be broadcast to that of the gradient.
    """
    if g is None:
        return None
    n, shape = g.node, a.spec.shape
    lead = len(n.type.shape) - len(shape)
    if lead < 0 or any(e not in (1, f) for e, f in zip(shape, n.type.shape[lead:], strict=True)):
        raise AutogradError(
            f"Function {cls.__name__}Backward returned an invalid gradient at index {i} - got {list(n.type.shape)} but "
            f"expected shape compatible with {list(shape)}",
            where=source.where(),
            hint="Return a gradient in the shape of its argument.",
        )
    # A gradient that has a broadcast shape of its argument is summed to the shape of the argument.
    if n.type.shape != shape:
        n = sum_to(n, shape, tuple(range(lead, len(n.type.shape))))
    return cast(n, a.dtype)


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a `backward` method so that gradients are disabled in it: its results have no second derivative."""

    def silent(ctx: Context, *gradients: Any) -> Any:
        with grad_mode(False):
            return function(ctx, *gradients)

    return silent


class GradientFunction:
    """The function that computed a tensor, as `grad_fn` returns it: a name and the functions of its operands."""

    def __init__(self, n: Node):
        self._node = n

    def name(self) -> str:
        """Return PyTorch's name of the function, such as "MulBackward0"."""
        return gradient_name(self._node)

    @property
    def next_functions(self) -> tuple[tuple["GradientFunction | None", int], ...]:
        """A pair (function, 0) for each operand; the function is None if the operand requires no gradient."""
        return tuple((GradientFunction(i) if i.tracks else None, 0) for i in self._node.inputs)

    def __repr__(self) -> str:
        return f"<{self.name()} object>"


@tensor_property()
def grad_fn(t: Tensor) -> GradientFunction | None:
    """The function that computed this tensor; None for a leaf and for a tensor that requires no gradient."""
    n = t.node
    return GradientFunction(n) if n.tracks and not t.leaf_id else None
