"""Jacobians, Hessians and their products of functions: `torch.func`.

A row of a Jacobian is the gradient of one output element. The number of backward passes is therefore the number of
output elements, for forward-mode functions too. The results are the same.
"""

from typing import Any

from cstorch_compat.torch.autograd.functional import compute_directional_derivatives, compute_jacobian
from cstorch_compat.torch.func.transforms import Function, TrackedArguments
from lazytensor.core import source
from lazytensor.core.pytree import tree_flatten, tree_unflatten
from lazytensor.errors import ShapeError
from lazytensor.functional.creation import zeros_like


def jacrev(
    func: Function,
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """Return a function that computes the Jacobian of `func` with respect to the arguments at `argnums`.

    For each output and argument the result has shape [*output.shape, *argument.shape], nested like the outputs and then
    like the arguments. `argnums` as an int gives one argument instead of a tuple. With `has_aux`, `func` returns
    (output, aux) and the result is (jacobian, aux). `chunk_size` has no effect.
    """
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
    """Return the same function as `jacrev`. `randomness` has no effect."""
    return jacrev(func, argnums, has_aux)


def hessian(func: Function, argnums: int | tuple[int, ...] = 0) -> Function:
    """Return a function that computes the second derivatives of `func` with respect to the arguments at `argnums`.

    For each output and pair of arguments the shape is [*output.shape, *argument.shape, *argument.shape].
    """
    return jacrev(jacrev(func, argnums), argnums)


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return the outputs of `func(*primals)`, and a function that computes vector-Jacobian products.

    The function takes cotangents, nested like the outputs, and returns a tuple with one product for each argument. It
    raises RuntimeError for another nesting. With `has_aux`, `func` returns (output, aux), and aux is the third result.
    """
    tracked = TrackedArguments.of(range(len(primals)), primals, {})
    result = func(*tracked.arguments)
    value, aux = result if has_aux else (result, None)
    outputs, structure = tree_flatten(value)

    def pulled_back(cotangents: Any) -> tuple[Any, ...]:
        seeds, given = tree_flatten(cotangents)
        if given != structure:
            raise ShapeError(
                f"Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {given}, primal output: {structure}",
                where=source.where(),
                hint="Pass cotangents in the structure of the results.",
            )
        return tuple(tracked.alike(tracked.gradients(outputs, seeds), False))

    finished = tracked.finished(value)
    return (finished, pulled_back, tracked.finished(aux)) if has_aux else (finished, pulled_back)


def jvp(func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> tuple[Any, ...]:
    """Return the outputs of `func(*primals)`, and their directional derivatives along `tangents`.

    `tangents` is a sequence nested like `primals`, and the derivatives are nested like the outputs. Outputs that do not
    depend on the arguments have zeros. The derivatives are computed by two backward passes. With `has_aux`, `func`
    returns (output, aux), and aux is the third result. `strict` has no effect.
    """
    tracked = TrackedArguments.of(range(len(primals)), primals, {})
    result = func(*tracked.arguments)
    value, aux = result if has_aux else (result, None)
    outputs, structure = tree_flatten(value)
    directions = tree_flatten(list(tangents))[0]
    columns = compute_directional_derivatives(outputs, tracked.leaves, directions, tracked.is_inner)
    changes = [zeros_like(o) if c is None else c for c, o in zip(columns, outputs, strict=True)]
    answers = tracked.finished(value), tracked.finished(tree_unflatten(changes, structure))
    return (*answers, tracked.finished(aux)) if has_aux else answers
