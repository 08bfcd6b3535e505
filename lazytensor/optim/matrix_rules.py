"""The update rules of optimizers that see a parameter as a matrix: Adafactor and Muon."""

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
"""What is added to the norm of a matrix before the division by it."""


def adafactor(settings: Settings, p: Tensor, g: Tensor, s: State) -> Array:
    """Adam whose second moment is kept as the means of its rows and columns (Shazeer and Stern 2018)."""
    # The share of the old moment grows from 0, so no correction of the start is needed.
    kept = 1.0 - pw.pow(s["step"], settings["decay_rate"])
    d = _inverse_root(s, g * g + settings["eps"][0], kept) * g
    # A step longer than 1 on average is scaled down; a shorter one is left.
    d = d / larger(_root_mean_square(d) / settings["clip_threshold"], 1.0)
    lr = settings["lr"]
    if settings["scale_parameter"]:
        # Rates relative to the size of the parameter; eps lets a parameter of zeros move.
        lr = larger(_root_mean_square(p), settings["eps"][1]) * lr
    d = d * lr
    if is_on(settings["weight_decay"]):
        # Decay by the scaled rate, past the second moment.
        p = as_type_of(p, p - p * (lr * settings["weight_decay"]))
    return p - d


def _root_mean_square(x: Tensor) -> Tensor:
    return pw.sqrt(reduction.mean(x * x))


def _inverse_root(s: State, square: Tensor, kept: Tensor) -> Tensor:
    """Take squares into the second moment and return one over its root. `kept` is the share of the old moment."""
    added = 1.0 - kept
    if "exp_avg_sq" in s:
        s["exp_avg_sq"] = s["exp_avg_sq"] * kept + square * added
        return pw.rsqrt(s["exp_avg_sq"])
    s["exp_avg_sq_row"] = row = s["exp_avg_sq_row"] * kept + reduction.mean(square, -1) * added
    s["exp_avg_sq_col"] = column = s["exp_avg_sq_col"] * kept + reduction.mean(square, -2) * added
    # The best approximation of rank 1 in the sense of the paper: row times column over the mean of the row.
    # Two roots instead of one of their product, which would be of the whole matrix.
    share = row / reduction.mean(row, -1, keepdim=True)
    return views.unsqueeze(pw.rsqrt(share), -1) * views.unsqueeze(pw.rsqrt(column), -2)


def muon(settings: Settings, p: Tensor, g: Tensor, s: State) -> Array:
    """Momentum whose step in each matrix is made nearly orthogonal (Jordan 2024).

    A parameter of more than two dimensions is seen as a matrix of its first dimension.
    """
    momentum = settings["momentum"]
    s["momentum_buffer"] = buffer = s["momentum_buffer"] * momentum + g * complement(momentum)
    # An average rather than a sum: the length of the step is normalized away, so the factor only weighs old against
    # new.
    d = g * complement(momentum) + buffer * momentum if settings["nesterov"] else buffer
    rows = p.shape[0]
    flat = orthogonalized(views.reshape(d, (rows, -1)), settings["ns_steps"])
    # Jordan's factor: columns of length 1 spread over many rows, so the elements of a tall matrix would be small.
    d = views.reshape(flat, p.shape) * math.sqrt(max(1.0, rows / flat.shape[1]))
    if is_on(settings["weight_decay"]):
        d = d + p * settings["weight_decay"]
    return p - d * settings["lr"]


def orthogonalized(x: Tensor, steps: int) -> Tensor:
    """Return a matrix with the singular vectors of x and singular values near 1, by Newton-Schulz iteration."""
    a, b, c = NEWTON_SCHULZ
    # The products are of the smaller extent then.
    is_tall = x.shape[0] > x.shape[1]
    if is_tall:
        x = views.transpose(x, 0, 1)
    # The iteration converges for singular values up to 1, which the Frobenius norm bounds.
    x = x / (norm(x) + TINY)
    # Five steps bring values to about 0.7..1.2, not to 1: the coefficients were chosen for a steep start, which is
    # enough here.
    for _ in range(steps):
        square = matmul.matmul(x, views.transpose(x, 0, 1))
        polynomial = square * b + matmul.matmul(square, square) * c
        x = x * a + matmul.matmul(polynomial, x)
    return views.transpose(x, 0, 1) if is_tall else x
