"""`torch.autograd.functional`: products with derivatives, and derivatives as whole tensors, by the graph."""

from collections.abc import Callable, Sequence
from typing import Any

from lazytensor.autograd import function
from lazytensor.core.tensor import Tensor
from lazytensor.functional.creation import ones_like, zeros_like
from lazytensor.functional.joining_and_splitting import stack

OneOrMoreTensors = Tensor | tuple[Tensor, ...]


def _as_tuple(given: Any) -> tuple[Tensor, ...]:
    return tuple(given) if isinstance(given, tuple | list) else (given,)


def _restore_structure(values: list[Any], given: Any) -> Any:
    return tuple(values) if isinstance(given, tuple | list) else values[0]


def _make_variables(inputs: Any, create_graph: bool) -> tuple[Tensor, ...]:
    # Copies: what the function does to its inputs must not add to the gradients of the caller's.
    given = _as_tuple(inputs)
    if create_graph:
        return tuple(t.view_as(t) if t.requires_grad else t.detach().clone().requires_grad_() for t in given)
    return tuple(t.detach().clone().requires_grad_() for t in given)


def _finish_gradient(t: Tensor | None, like: Tensor, create_graph: bool, strict: bool) -> Tensor:
    if t is None:
        if strict:
            raise RuntimeError("The output of the user-provided function is independent of one of the inputs.")
        return zeros_like(like)
    return t if create_graph else t.detach()


def compute_gradients(
    outputs: Any, inputs: Sequence[Tensor], seeds: Any = None, create_graph: bool = False
) -> tuple[Tensor | None, ...]:
    """The gradients of outputs, weighted by `seeds`, by each input; None where nothing leads to it."""
    tracked = [(o, None if seeds is None else s) for o, s in zip(_as_tuple(outputs), _as_tuple(seeds), strict=False)]
    # An output that no input reaches has no gradient to ask for.
    tracked = [(o, s) for o, s in tracked if o.requires_grad]
    if not tracked:
        return (None,) * len(inputs)
    roots, given = [o for o, _ in tracked], None if seeds is None else [s for _, s in tracked]
    return function.grad(roots, inputs, given, retain_graph=True, create_graph=create_graph, allow_unused=True)


def vjp(
    func: Callable[..., Any], inputs: OneOrMoreTensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The outputs, and v times the Jacobian; v may be left out for a single number."""
    variables = _make_variables(inputs, create_graph)
    outputs = func(*variables)
    if v is None and any(o.numel() != 1 for o in _as_tuple(outputs)):
        raise RuntimeError(
            "The vector v can only be None if the user-provided function returns a single Tensor with a single element."
        )
    seeds = v if v is not None else tuple(ones_like(o) for o in _as_tuple(outputs))
    rows = compute_gradients(outputs, variables, seeds, create_graph)
    products = [_finish_gradient(g, x, create_graph, strict) for g, x in zip(rows, variables, strict=True)]
    return _detach_outputs(outputs, create_graph), _restore_structure(products, inputs)


def _detach_outputs(outputs: Any, create_graph: bool) -> Any:
    return outputs if create_graph else _restore_structure([o.detach() for o in _as_tuple(outputs)], outputs)


def jvp(
    func: Callable[..., Any], inputs: OneOrMoreTensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The outputs, and the Jacobian times v, by two passes backward."""
    variables = _make_variables(inputs, create_graph)
    directions = _as_tuple(v) if v is not None else tuple(ones_like(x) for x in variables)
    outputs = func(*variables)
    columns = compute_directional_derivatives(_as_tuple(outputs), variables, directions, create_graph)
    products = [_finish_gradient(c, o, create_graph, strict) for c, o in zip(columns, _as_tuple(outputs), strict=True)]
    return _detach_outputs(outputs, create_graph), _restore_structure(products, outputs)


def compute_directional_derivatives(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], directions: Sequence[Tensor], create_graph: bool
) -> tuple[Tensor | None, ...]:
    """How each output changes where the inputs move along `directions`; None where it does not."""
    # The product u J is linear in u, so its own gradient along v is J v, whatever u is.
    dummies = tuple(zeros_like(o).detach().requires_grad_() for o in outputs)
    rows = compute_gradients(outputs, inputs, dummies, create_graph=True)
    used = [(r, d) for r, d in zip(rows, directions, strict=True) if r is not None and r.requires_grad]
    if not used:
        return (None,) * len(dummies)
    return compute_gradients([r for r, _ in used], dummies, [d for _, d in used], create_graph)


def jacobian(
    func: Callable[..., Any],
    inputs: OneOrMoreTensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The derivative of each output by each input: [*output, *input]; tuples of them where there are several."""
    variables = _make_variables(inputs, create_graph)
    outputs = func(*variables)
    table = [
        _restore_structure(compute_jacobian(o, variables, create_graph, strict), inputs) for o in _as_tuple(outputs)
    ]
    return _restore_structure(table, outputs)


def compute_jacobian(
    output: Tensor, inputs: Sequence[Tensor], create_graph: bool, strict: bool = False
) -> list[Tensor]:
    """The derivative of an output by each input: [*output, *input]."""
    # One pass for each element: a row of the Jacobian is the gradient of one output.
    rows = [compute_gradients(element, inputs, create_graph=create_graph) for element in output.reshape(-1).unbind()]
    shape = tuple(output.shape)
    if not rows:
        return [output.new_zeros(*shape, *x.shape) for x in inputs]
    return [
        stack([_finish_gradient(g, x, create_graph, strict) for g in column]).reshape(*shape, *x.shape)
        for column, x in zip(zip(*rows, strict=True), inputs, strict=True)
    ]


def hessian(
    func: Callable[..., Any],
    inputs: OneOrMoreTensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a number: [*input, *input]; tuples of tuples where there are several inputs."""

    def gradient(*variables: Tensor) -> Any:
        outputs = func(*variables)
        if outputs.numel() != 1:
            raise RuntimeError("The Tensor returned by the function given to hessian should contain a single element")
        row = compute_gradients(outputs, variables, create_graph=True)
        return _restore_structure(
            [_finish_gradient(g, x, True, strict) for g, x in zip(row, variables, strict=True)], inputs
        )

    return jacobian(gradient, inputs, create_graph, strict)


def vhp(
    func: Callable[..., Any], inputs: OneOrMoreTensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The output, and v times the Hessian."""
    variables = _make_variables(inputs, create_graph)
    directions = _as_tuple(v) if v is not None else tuple(ones_like(x) for x in variables)
    outputs = func(*variables)
    first = compute_gradients(outputs, variables, create_graph=True)
    used = [(g, d) for g, d in zip(first, directions, strict=True) if g is not None and g.requires_grad]
    second = (
        compute_gradients([g for g, _ in used], variables, [d for _, d in used], create_graph)
        if used
        else [None] * len(variables)
    )
    products = [_finish_gradient(g, x, create_graph, strict) for g, x in zip(second, variables, strict=True)]
    return _detach_outputs(outputs, create_graph), _restore_structure(products, inputs)


hvp = vhp
