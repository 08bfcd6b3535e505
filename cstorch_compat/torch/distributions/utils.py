"""Helpers of `torch.distributions.utils` for subclasses of distributions."""

import math
from collections.abc import Callable
from typing import Any

from cstorch_compat.torch.distributions.continuous import machine_epsilon
from lazytensor import randn, tril_indices, zeros
from lazytensor.core.tensor import Tensor, grad_mode

euler_constant = 0.57721566490153286060
"""The Euler-Mascheroni constant."""


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Return standard normal random numbers."""
    return randn(tuple(shape), dtype=dtype, device=device)


def clamp_probs(probs: Tensor) -> Tensor:
    """Return probabilities clamped to [eps, 1 - eps], with the machine epsilon of their type."""
    eps = machine_epsilon(probs.dtype)
    return probs.clamp(eps, 1 - eps)


class lazy_property:
    """A property that is computed at its first use, with gradients, and then is a plain attribute.

    It decorates a method without other arguments.
    """

    def __init__(self, wrapped: Callable[[Any], Any]):
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return self
        with grad_mode(True):
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return lower triangular matrices [..., n, n] with the elements of `vec` [..., k] in rows up to a diagonal.

    The diagonal `diag` is 0 for the main one and negative below it. k is the number of these elements.
    """
    # n is the solution of n (n + 1 + 2 diag) / 2 = k, apart from elements that a positive `diag` would add.
    shift = 1 + 2 * diag
    n = round((-shift + math.sqrt(shift**2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1))) / 2)
    matrix = zeros((*vec.shape[:-1], n, n), dtype=vec.dtype, device=vec.device)
    rows, columns = tril_indices(n, n, diag)
    matrix[..., rows, columns] = vec
    return matrix


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return the elements of matrices [..., n, n] up to the diagonal `diag`, row by row.

    Raises ValueError if `diag` is not in [-n, n).
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = tril_indices(n, n, diag)
    return mat[..., rows, columns]
