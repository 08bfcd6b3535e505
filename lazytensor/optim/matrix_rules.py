"""Update rules of optimizers that treat a parameter as a matrix: Adafactor and Muon."""

import math

from lazytensor.core.tensor import Tensor
from lazytensor.functional import matmul, reduction, views
from lazytensor.functional import pointwise as pw
from lazytensor.optim.elementwise import Array, as_type_of, is_on, larger
from lazytensor.optim.rules import State, norm
from lazytensor.optim.settings import Settings, complement

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the fifth-order iteration towards the nearest orthogonal matrix (Jordan 2024)."""
TINY = 1e-7
"""Added to the norm of a matrix before dividing by it."""


def adafactor(settings: Settings, p: Tensor, g: Tensor, s: State) -> Array:
    """Return the parameter after a step of Adafactor (Shazeer and Stern 2018), and write its new state to `s`.

    It is Adam with the second moment stored as means of its rows and columns, for parameters with at least two
    dimensions. There is no first moment. A step whose root mean square exceeds `clip_threshold` is scaled down. With
    `scale_parameter`, the rate is relative to the root mean square of the parameter.
    """
    # The weight of the old moment grows from 0, so no bias correction is needed.
    kept = 1.0 - pw.pow(s["step"], settings["decay_rate"])
    d = _inverse_root(s, g * g + settings["eps"][0], kept) * g
    # Scale down a step whose root mean square exceeds the threshold.
    d = d / larger(_root_mean_square(d) / settings["clip_threshold"], 1.0)
    lr = settings["lr"]
    if settings["scale_parameter"]:
        # The rate is relative to the size of the parameter; eps allows a parameter of zeros to change.
        lr = larger(_root_mean_square(p), settings["eps"][1]) * lr
    d = d * lr
    if is_on(settings["weight_decay"]):
        # Decoupled decay with the scaled rate.
        p = as_type_of(p, p - p * (lr * settings["weight_decay"]))
    return p - d


def _root_mean_square(x: Tensor) -> Tensor:
    return pw.sqrt(reduction.mean(x * x))


def _inverse_root(s: State, square: Tensor, kept: Tensor) -> Tensor:
    """Update the second moment in `s` with the squares `square`, and return the inverse of its root.

    `kept` is the weight of the old moment, and 1 - kept that of `square`. A factored moment is multiplied out; the
    result has the shape of `square`.
    """
    added = 1.0 - kept
    if "exp_avg_sq" in s:
        s["exp_avg_sq"] = s["exp_avg_sq"] * kept + square * added
        return pw.rsqrt(s["exp_avg_sq"])
    s["exp_avg_sq_row"] = row = s["exp_avg_sq_row"] * kept + reduction.mean(square, -1) * added
    s["exp_avg_sq_col"] = column = s["exp_avg_sq_col"] * kept + reduction.mean(square, -2) * added
    # The paper's rank-1 approximation: row times column, divided by the mean of the row. Take the roots of both factors
    # instead of the root of the product, which is a whole matrix.
    share = row / reduction.mean(row, -1, keepdim=True)
    return views.unsqueeze(pw.rsqrt(share), -1) * views.unsqueeze(pw.rsqrt(column), -2)


def muon(settings: Settings, p: Tensor, g: Tensor, s: State) -> Array:
    """Return the parameter after a step of Muon (Jordan 2024): momentum whose step is made nearly orthogonal.

    A parameter with more than two dimensions is reshaped to a matrix with its first dimension as rows. The step is
    multiplied by the root of rows / columns if there are more rows. The momentum in `s` is updated. Weight decay is
    decoupled but multiplied by the rate.
    """
    momentum = settings["momentum"]
    s["momentum_buffer"] = buffer = s["momentum_buffer"] * momentum + g * complement(momentum)
    # A weighted average. The length of the step is normalized later, so the factor only weighs the old against the new.
    d = g * complement(momentum) + buffer * momentum if settings["nesterov"] else buffer
    rows = p.shape[0]
    flat = orthogonalized(views.reshape(d, (rows, -1)), settings["ns_steps"])
    # Jordan's factor: columns have length 1, so the elements of a tall matrix would be small.
    d = views.reshape(flat, p.shape) * math.sqrt(max(1.0, rows / flat.shape[1]))
    if is_on(settings["weight_decay"]):
        d = d + p * settings["weight_decay"]
    return p - d * settings["lr"]


def orthogonalized(x: Tensor, steps: int) -> Tensor:
    """Return a matrix with the singular vectors of `x` and singular values near 1, by Newton-Schulz iteration.

    After five `steps`, the singular values are about 0.7 to 1.2. The result has the shape of `x`.
    """
    a, b, c = NEWTON_SCHULZ
    # Transpose a tall matrix, so that the products are smaller.
    is_tall = x.shape[0] > x.shape[1]
    if is_tall:
        x = views.transpose(x, 0, 1)
    # The iteration converges for singular values up to 1; the Frobenius norm is an upper bound of them.
    x = x / (norm(x) + TINY)
    # Five steps give singular values of about 0.7 to 1.2, not 1: the coefficients were chosen for a steep start.
    for _ in range(steps):
        square = matmul.matmul(x, views.transpose(x, 0, 1))
        polynomial = square * b + matmul.matmul(square, square) * c
        x = x * a + matmul.matmul(polynomial, x)
    return views.transpose(x, 0, 1) if is_tall else x
