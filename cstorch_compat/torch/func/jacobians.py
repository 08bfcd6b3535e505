"""`torch.func`: derivatives of functions whose results are no single number, as tables and as products.

A row of a table is the gradient of one element: as many passes back as the results have elements, whatever the name
says of forward mode. The numbers are the same.
"""

from typing import Any

from cstorch_compat.torch.autograd.functional import compute_directional_derivatives, compute_jacobian
from cstorch_compat.torch.func.transforms import Function, TrackedArguments
from lazytensor.core.pytree import tree_flatten, tree_unflatten
from lazytensor.functional.creation import zeros_like


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
        tracked = TrackedArguments.of(places, args, kwargs)
        result = func(*tracked.arguments, **kwargs)
        value, aux = result if has_aux else (result, None)
        outputs, structure = tree_flatten(value)
        tables = [
            tracked.alike(compute_jacobian(o, tracked.leaves, tracked.is_inner), isinstance(argnums, int))
            for o in outputs
        ]
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


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The results, and a function from weights of them to the gradients of the weighted sum by each argument."""
    tracked = TrackedArguments.of(range(len(primals)), primals, {})
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
    tracked = TrackedArguments.of(range(len(primals)), primals, {})
    result = func(*tracked.arguments)
    value, aux = result if has_aux else (result, None)
    outputs, structure = tree_flatten(value)
    directions = tree_flatten(list(tangents))[0]
    columns = compute_directional_derivatives(outputs, tracked.leaves, directions, tracked.is_inner)
    changes = [zeros_like(o) if c is None else c for c, o in zip(columns, outputs, strict=True)]
    answers = tracked.finished(value), tracked.finished(tree_unflatten(changes, structure))
    return (*answers, tracked.finished(aux)) if has_aux else answers
