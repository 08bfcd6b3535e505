"""Jacobians, Hessians and their products: `torch.autograd.functional`.

Inputs and outputs are tensors or tuples of tensors. With `create_graph` the results are differentiable. With `strict`,
a result that does not depend on an input raises RuntimeError; otherwise it is zero.
"""

from collections.abc import Callable, Sequence
from typing import Any

from lazytensor.autograd import function
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import ShapeError
from lazytensor.functional.creation import ones_like, zeros_like
from lazytensor.functional.joining_and_splitting import stack

OneOrMoreTensors = Tensor | tuple[Tensor, ...]


def _as_tuple(given: Any) -> tuple[Tensor, ...]:
    return tuple(given) if isinstance(given, tuple | list) else (given,)


def _restore_structure(values: list[Any], given: Any) -> Any:
    return tuple(values) if isinstance(given, tuple | list) else values[0]


def _make_variables(inputs: Any, create_graph: bool) -> tuple[Tensor, ...]:
    # Use copies, so that the function does not affect the gradients of the caller's tensors.
    given = _as_tuple(inputs)
    if create_graph:
        return tuple(t.view_as(t) if t.requires_grad else t.detach().clone().requires_grad_() for t in given)
    return tuple(t.detach().clone().requires_grad_() for t in given)


def _finish_gradient(t: Tensor | None, like: Tensor, create_graph: bool, strict: bool) -> Tensor:
    if t is None:
        if strict:
            raise ShapeError(
                "The output of the user-provided function is independent of one of the inputs.",
                where=source.where(),
                hint="Use the input in the function, or pass strict=False.",
            )
        return zeros_like(like)
    return t if create_graph else t.detach()


def compute_gradients(
    outputs: Any, inputs: Sequence[Tensor], seeds: Any = None, create_graph: bool = False
) -> tuple[Tensor | None, ...]:
    """Return the gradients of `outputs`, weighted by `seeds`, with respect to each input; None for unused inputs.

    Outputs that do not require a gradient are ignored. `seeds` may be None for scalar outputs. The graph is retained.
    `create_graph` makes the result differentiable.
    """
    tracked = [(o, None if seeds is None else s) for o, s in zip(_as_tuple(outputs), _as_tuple(seeds), strict=False)]
    tracked = [(o, s) for o, s in tracked if o.requires_grad]
    if not tracked:
        return (None,) * len(inputs)
    roots, given = [o for o, _ in tracked], None if seeds is None else [s for _, s in tracked]
    return function.grad(roots, inputs, given, retain_graph=True, create_graph=create_graph, allow_unused=True)


def vjp(
    func: Callable[..., Any], inputs: OneOrMoreTensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the outputs of `func(*inputs)`, and the product of `v` and the Jacobian for each input.

    `v` may be None if each output has a single element; otherwise this raises RuntimeError. Inputs without influence
    get zeros, or raise RuntimeError with `strict`. `create_graph` makes the results differentiable; else they are
    detached.
    """
    variables = _make_variables(inputs, create_graph)
    outputs = func(*variables)
    if v is None and any(o.numel() != 1 for o in _as_tuple(outputs)):
        raise ShapeError(
            "The vector v can only be None if the user-provided function returns a single Tensor with a single "
            "element.",
            where=source.where(),
            hint="Pass v in the shape of the result.",
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
    """Return the outputs of `func(*inputs)`, and the product of the Jacobian and `v` for each output.

    The products are computed by two backward passes. `v` has the shapes of the inputs and is all ones if None. `strict`
    and `create_graph` are those of `vjp`.
    """
    variables = _make_variables(inputs, create_graph)
    directions = _as_tuple(v) if v is not None else tuple(ones_like(x) for x in variables)
    outputs = func(*variables)
    columns = compute_directional_derivatives(_as_tuple(outputs), variables, directions, create_graph)
    products = [_finish_gradient(c, o, create_graph, strict) for c, o in zip(columns, _as_tuple(outputs), strict=True)]
    return _detach_outputs(outputs, create_graph), _restore_structure(products, outputs)


def compute_directional_derivatives(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], directions: Sequence[Tensor], create_graph: bool
) -> tuple[Tensor | None, ...]:
    """Return the derivative of each output along `directions` of the inputs, by two backward passes.

    If no output depends on the inputs, the result is None for each output. `create_graph` makes the result
    differentiable.
    """
    # The product u J is linear in u, so its gradient along v is J v for any u.
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
    """Return the derivative of each output with respect to each input, of shape [*output.shape, *input.shape].

    Several outputs or inputs give tuples, first by output and then by input. `strict` and `create_graph` are those of
    `vjp`. `vectorize` and `strategy` have no effect.
    """
    variables = _make_variables(inputs, create_graph)
    outputs = func(*variables)
    table = [
        _restore_structure(compute_jacobian(o, variables, create_graph, strict), inputs) for o in _as_tuple(outputs)
    ]
    return _restore_structure(table, outputs)


def compute_jacobian(
    output: Tensor, inputs: Sequence[Tensor], create_graph: bool, strict: bool = False
) -> list[Tensor]:
    """Return the derivative of `output` with respect to each input, of shape [*output.shape, *input.shape].

    It runs one backward pass for each element of `output`. Inputs without influence get zeros, or raise RuntimeError
    with `strict`.
    """
    # One backward pass for each output element gives a row of the Jacobian.
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
    """Return the second derivatives of a function with a single-element result, of shape [*input.shape, *input.shape].

    Several inputs give a tuple of tuples. Raises RuntimeError if the result has more elements. `strict` and
    `create_graph` are those of `vjp`; the other options have no effect.
    """

    def gradient(*variables: Tensor) -> Any:
        outputs = func(*variables)
        if outputs.numel() != 1:
            raise ShapeError(
                "The Tensor returned by the function given to hessian should contain a single element"
                f", but has the shape {list(outputs.shape)}",
                where=source.where(),
                hint="Reduce the result in the function, for example with .sum().",
            )
        row = compute_gradients(outputs, variables, create_graph=True)
        return _restore_structure(
            [_finish_gradient(g, x, True, strict) for g, x in zip(row, variables, strict=True)], inputs
        )

    return jacobian(gradient, inputs, create_graph, strict)


def vhp(
    func: Callable[..., Any], inputs: OneOrMoreTensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return the output of `func(*inputs)`, and the product of `v` and the Hessian for each input.

    `v` has the shapes of the inputs and is all ones if None. `strict` and `create_graph` are those of `vjp`.
    """
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
