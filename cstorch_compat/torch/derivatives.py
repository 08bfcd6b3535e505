"""`torch.autograd.functional`: products with derivatives, and derivatives as whole tensors, by the graph."""

from collections.abc import Callable, Sequence
from typing import Any

from lazytensor import gradients
from lazytensor.functions.creation import ones_like, zeros_like
from lazytensor.functions.shapes import stack
from lazytensor.tensor import Tensor

Tensors = Tensor | tuple[Tensor, ...]


def _listed(given: Any) -> tuple[Tensor, ...]:
    return tuple(given) if isinstance(given, tuple | list) else (given,)


def _alike(values: list[Any], given: Any) -> Any:
    return tuple(values) if isinstance(given, tuple | list) else values[0]


def _variables(inputs: Any, create_graph: bool) -> tuple[Tensor, ...]:
    # Copies: what the function does to its inputs must not add to the gradients of the caller's.
    given = _listed(inputs)
    if create_graph:
        return tuple(t.view_as(t) if t.requires_grad else t.detach().clone().requires_grad_() for t in given)
    return tuple(t.detach().clone().requires_grad_() for t in given)


def _finished(t: Tensor | None, like: Tensor, create_graph: bool, strict: bool) -> Tensor:
    if t is None:
        if strict:
            raise RuntimeError("The output of the user-provided function is independent of one of the inputs.")
        return zeros_like(like)
    return t if create_graph else t.detach()


def gradients_of(
    outputs: Any, inputs: Sequence[Tensor], seeds: Any = None, create_graph: bool = False
) -> tuple[Tensor | None, ...]:
    """The gradients of outputs, weighted by `seeds`, by each input; None where nothing leads to it."""
    tracked = [(o, None if seeds is None else s) for o, s in zip(_listed(outputs), _listed(seeds), strict=False)]
    # An output that no input reaches has no gradient to ask for.
    tracked = [(o, s) for o, s in tracked if o.requires_grad]
    if not tracked:
        return (None,) * len(inputs)
    roots, given = [o for o, _ in tracked], None if seeds is None else [s for _, s in tracked]
    return gradients.grad(roots, inputs, given, retain_graph=True, create_graph=create_graph, allow_unused=True)


def vjp(
    func: Callable[..., Any], inputs: Tensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The outputs, and v times the Jacobian; v may be left out for a single number."""
    variables = _variables(inputs, create_graph)
    outputs = func(*variables)
    if v is None and any(o.numel() != 1 for o in _listed(outputs)):
        raise RuntimeError(
            "The vector v can only be None if the user-provided function returns a single Tensor with a single element."
        )
    seeds = v if v is not None else tuple(ones_like(o) for o in _listed(outputs))
    rows = gradients_of(outputs, variables, seeds, create_graph)
    products = [_finished(g, x, create_graph, strict) for g, x in zip(rows, variables, strict=True)]
    return _outputs(outputs, create_graph), _alike(products, inputs)


def _outputs(outputs: Any, create_graph: bool) -> Any:
    return outputs if create_graph else _alike([o.detach() for o in _listed(outputs)], outputs)


def jvp(
    func: Callable[..., Any], inputs: Tensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The outputs, and the Jacobian times v, by two passes backward."""
    variables = _variables(inputs, create_graph)
    directions = _listed(v) if v is not None else tuple(ones_like(x) for x in variables)
    outputs = func(*variables)
    columns = changes_along(_listed(outputs), variables, directions, create_graph)
    products = [_finished(c, o, create_graph, strict) for c, o in zip(columns, _listed(outputs), strict=True)]
    return _outputs(outputs, create_graph), _alike(products, outputs)


def changes_along(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], directions: Sequence[Tensor], create_graph: bool
) -> tuple[Tensor | None, ...]:
    """How each output changes where the inputs move along `directions`; None where it does not."""
    # The product u J is linear in u, so its own gradient along v is J v, whatever u is.
    dummies = tuple(zeros_like(o).detach().requires_grad_() for o in outputs)
    rows = gradients_of(outputs, inputs, dummies, create_graph=True)
    used = [(r, d) for r, d in zip(rows, directions, strict=True) if r is not None and r.requires_grad]
    if not used:
        return (None,) * len(dummies)
    return gradients_of([r for r, _ in used], dummies, [d for _, d in used], create_graph)


def jacobian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The derivative of each output by each input: [*output, *input]; tuples of them where there are several."""
    variables = _variables(inputs, create_graph)
    outputs = func(*variables)
    table = [_alike(table_of(o, variables, create_graph, strict), inputs) for o in _listed(outputs)]
    return _alike(table, outputs)


def table_of(output: Tensor, inputs: Sequence[Tensor], create_graph: bool, strict: bool = False) -> list[Tensor]:
    """The derivative of an output by each input: [*output, *input]."""
    # One pass for each element: a row of the Jacobian is the gradient of one output.
    rows = [gradients_of(element, inputs, create_graph=create_graph) for element in output.reshape(-1).unbind()]
    shape = tuple(output.shape)
    if not rows:
        return [output.new_zeros(*shape, *x.shape) for x in inputs]
    return [
        stack([_finished(g, x, create_graph, strict) for g in column]).reshape(*shape, *x.shape)
        for column, x in zip(zip(*rows, strict=True), inputs, strict=True)
    ]


def hessian(
    func: Callable[..., Any],
    inputs: Tensors,
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
        row = gradients_of(outputs, variables, create_graph=True)
        return _alike([_finished(g, x, True, strict) for g, x in zip(row, variables, strict=True)], inputs)

    return jacobian(gradient, inputs, create_graph, strict)


def vhp(
    func: Callable[..., Any], inputs: Tensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The output, and v times the Hessian."""
    variables = _variables(inputs, create_graph)
    directions = _listed(v) if v is not None else tuple(ones_like(x) for x in variables)
    outputs = func(*variables)
    first = gradients_of(outputs, variables, create_graph=True)
    used = [(g, d) for g, d in zip(first, directions, strict=True) if g is not None and g.requires_grad]
    second = (
        gradients_of([g for g, _ in used], variables, [d for _, d in used], create_graph)
        if used
        else [None] * len(variables)
    )
    products = [_finished(g, x, create_graph, strict) for g, x in zip(second, variables, strict=True)]
    return _outputs(outputs, create_graph), _alike(products, inputs)


hvp = vhp
