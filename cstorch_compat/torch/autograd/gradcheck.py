"""Comparison of gradients with finite differences: `gradcheck` and `gradgradcheck`."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from lazytensor.autograd.function import grad
from lazytensor.core.dtype import float64
from lazytensor.core.tensor import Tensor
from lazytensor.functional import creation
from lazytensor.functional import pointwise as pw
from lazytensor.functional.comparison import allclose
from lazytensor.functional.joining_and_splitting import stack


class GradcheckError(RuntimeError):
    """A gradient differs from the finite difference."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Return whether the gradients of `func(*inputs)` agree with central differences of step `eps`.

    The Jacobian of each floating-point output is compared for each input that requires a gradient, with the tolerances
    `atol` and `rtol`. Two backward passes may differ by at most `nondet_tol`. The other options have no effect.

    Raises GradcheckError for a difference, or returns False if `raise_exception` is false. Raises ValueError if no
    input requires a gradient. Warns of inputs that are not float64.
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    watched = [k for k, v in enumerate(given) if isinstance(v, Tensor) and v.requires_grad]
    if not watched:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    for k in watched:
        if given[k].dtype is not float64:
            warnings.warn(
                f"Input #{k} requires gradient and is not a double precision floating point or complex. This check "
                "will likely fail if all the inputs are not of double precision floating point or complex. ",
                stacklevel=2,
            )
    try:
        _compare_jacobians(func, given, watched, eps, atol, rtol, nondet_tol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    **options: Any,
) -> bool:
    """Return whether the second derivatives of `func(*inputs)` agree with differences of its gradients.

    `grad_outputs` weight the outputs; by default they are random. The other arguments are those of `gradcheck`.
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = _float_outputs(func(*given))
    if grad_outputs is None:
        weights = [creation.randn(*y.shape, dtype=y.dtype).requires_grad_() for y in outputs]
    else:
        weights = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)

    def gradients(*values: Any) -> tuple[Tensor, ...]:
        arguments, scales = values[: len(given)], values[len(given) :]
        wrt = [v for v in arguments if isinstance(v, Tensor) and v.requires_grad]
        found = grad(_float_outputs(func(*arguments)), wrt, list(scales), create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients,
        (*given, *weights),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        **options,
    )


def _float_outputs(result: Any) -> list[Tensor]:
    results = result if isinstance(result, tuple | list) else (result,)
    return [r for r in results if isinstance(r, Tensor) and r.dtype.kind == "f"]


def _compare_jacobians(
    func: Callable[..., Any],
    inputs: Sequence[Any],
    watched: Sequence[int],
    eps: float,
    atol: float,
    rtol: float,
    nondet_tol: float,
) -> None:
    """Raise GradcheckError for the first Jacobian that differs from its differences, or between two passes."""
    outputs = _float_outputs(func(*inputs))
    numerical = {k: _numerical_jacobians(func, inputs, k, eps) for k in watched}
    for j, y in enumerate(outputs):
        first, second = (_analytical_jacobians(y, [inputs[k] for k in watched]) for _ in range(2))
        for k, analytical, again in zip(watched, first, second, strict=True):
            expected = numerical[k][j]
            if not allclose(analytical, expected, rtol, atol, equal_nan=True):
                raise GradcheckError(
                    f"Jacobian mismatch for output {j} with respect to input {k},\nnumerical:{expected}\n"
                    f"analytical:{analytical}\n"
                )
            if analytical.numel() and float(pw.abs(analytical - again).max()) > nondet_tol:
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                    "gives different values, although analytical gradient matches numerical gradient."
                    f"The tolerance for nondeterminism was {nondet_tol}."
                )


def _numerical_jacobians(func: Callable[..., Any], inputs: Sequence[Any], k: int, eps: float) -> list[Tensor]:
    """Return for each output its derivatives by the elements of input `k`, by central differences."""
    x = inputs[k].detach()
    rows: list[list[Tensor]] = []
    for i in range(x.numel()):
        step = creation.zeros(x.numel(), dtype=x.dtype)
        step[i] = eps
        step = step.reshape(x.shape)
        above, below = (
            _float_outputs(func(*inputs[:k], moved.requires_grad_(), *inputs[k + 1 :]))
            for moved in (x + step, x - step)
        )
        rows.append([((a - b).detach() / (2 * eps)).reshape(-1) for a, b in zip(above, below, strict=True)])
    return [stack(list(column)) for column in zip(*rows, strict=True)]


def _analytical_jacobians(y: Tensor, wrt: Sequence[Tensor]) -> list[Tensor]:
    """Return the derivatives of `y` by each tensor of `wrt`, by one backward pass for each element of `y`."""
    columns: list[list[Tensor]] = [[] for _ in wrt]
    for i in range(y.numel()):
        seed = creation.zeros(y.numel(), dtype=y.dtype)
        seed[i] = 1.0
        found: Sequence[Tensor | None] = (
            grad(y, list(wrt), seed.reshape(y.shape), retain_graph=True, allow_unused=True)
            if y.requires_grad
            else [None] * len(wrt)
        )
        for column, x, g in zip(columns, wrt, found, strict=True):
            column.append((creation.zeros(x.shape, dtype=x.dtype) if g is None else g.detach()).reshape(-1))
    return [stack(column, 1) for column in columns]
