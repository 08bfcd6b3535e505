"""`torch.func`: derivatives of functions whose results are no single number, as tables and as products.

A row of a table is the gradient of one element: as many passes back as the results have elements, whatever the name
says of forward mode. The numbers are the same.
"""

from typing import Any

from cstorch_compat.torch.function_transforms import Function, Tracked
from lazytensor import stack
from lazytensor.functions.creation import zeros_like
from lazytensor.gradients import grad as gradients_of
from lazytensor.pytree import tree_flatten, tree_unflatten
from lazytensor.tensor import Tensor


def jacrev(
    func: Function,
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """A function that gives the derivative of each result by some arguments: [*result, *argument], in trees of both."""
    places = (argnums,) if isinstance(argnums, int) else argnums

    def derived(*args: Any, **kwargs: Any) -> Any:
        tracked = Tracked.of(places, args, kwargs)
        result = func(*tracked.arguments, **kwargs)
        value, aux = result if has_aux else (result, None)
        outputs, structure = tree_flatten(value)
        tables = [tracked.alike(_table(o, tracked), isinstance(argnums, int)) for o in outputs]
        answer = tree_unflatten(tables, structure)
        return (answer, tracked.finished(aux)) if has_aux else answer

    return derived


def jacfwd(
    func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Function:
    """As `jacrev`."""
    return jacrev(func, argnums, has_aux)


def hessian(func: Function, argnums: int | tuple[int, ...] = 0) -> Function:
    """A function that gives the second derivatives of `func`: [*result, *argument, *argument], in trees of them."""
    return jacrev(jacrev(func, argnums), argnums)


def _table(output: Tensor, tracked: Tracked) -> list[Tensor]:
    rows = [tracked.gradients([element]) for element in output.reshape(-1).unbind()]
    columns = zip(*rows, strict=True) if rows else ([] for _ in tracked.leaves)
    shape = tuple(output.shape)
    return [
        stack(list(column)).reshape(*shape, *t.shape) if rows else output.new_zeros(*shape, *t.shape)
        for column, t in zip(columns, tracked.leaves, strict=True)
    ]


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The results, and a function from weights of them to the gradients of the weighted sum by each argument."""
    tracked = Tracked.of(range(len(primals)), primals, {})
    result = func(*tracked.arguments)
    value, aux = result if has_aux else (result, None)
    outputs, structure = tree_flatten(value)

    def pulled_back(cotangents: Any) -> tuple[Any, ...]:
        seeds, given = tree_flatten(cotangents)
        if given != structure:
            raise RuntimeError(
                f"Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {given}, primal output: {structure}"
            )
        return tuple(tracked.alike(tracked.gradients(outputs, seeds), False))

    finished = tracked.finished(value)
    return (finished, pulled_back, tracked.finished(aux)) if has_aux else (finished, pulled_back)


def jvp(func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> tuple[Any, ...]:
    """The results, and how they change along `tangents`, by two passes back."""
    tracked = Tracked.of(range(len(primals)), primals, {})
    result = func(*tracked.arguments)
    value, aux = result if has_aux else (result, None)
    outputs, structure = tree_flatten(value)
    directions = tree_flatten(list(tangents))[0]
    moving = [o for o in outputs if o.requires_grad]
    # The product u J is linear in u, so its own gradient along the tangents is J times them, whatever u is.
    weights = [zeros_like(o).detach().requires_grad_() for o in moving]
    rows = gradients_of(moving, tracked.leaves, weights, True, True, allow_unused=True) if moving else ()
    used = [(r, d) for r, d in zip(rows, directions, strict=False) if r is not None and r.requires_grad]
    columns = _along(used, weights, tracked.is_inner) if used else [None] * len(moving)
    by_output = {id(o): c for o, c in zip(moving, columns, strict=True)}
    changes = [zeros_like(o) if (c := by_output.get(id(o))) is None else c for o in outputs]
    answers = tracked.finished(value), tracked.finished(tree_unflatten(changes, structure))
    return (*answers, tracked.finished(aux)) if has_aux else answers


def _along(used: list[tuple[Tensor, Tensor]], weights: list[Tensor], is_inner: bool) -> tuple[Tensor | None, ...]:
    rows, directions = [r for r, _ in used], [d for _, d in used]
    return gradients_of(rows, weights, directions, create_graph=is_inner, allow_unused=True)
