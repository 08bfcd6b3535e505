"""Draws from the gamma, Dirichlet and Poisson distributions, with the numbers that PyTorch's CPU gives.

Gamma: Marsaglia and Tsang, A simple method for generating gamma variables (2000). Poisson: for rates of 10 and more
the transformed rejection PTRS of Hormann (1993), below it the product of uniform numbers (Knuth). Everything is drawn
one element after the other in double precision.
"""

import math
from typing import Any

import numpy as np

from lazytensor import random
from lazytensor.autograd.function import Function
from lazytensor.core import storage
from lazytensor.core.tensor import Tensor, from_array
from lazytensor.errors import TraceError
from lazytensor.random import Generator

LARGE_POISSON_RATE = 10
RELATIVE_DIFFERENCE_STEP = 1e-4
"""The relative distance at which the distribution function is compared with itself for the gradient of a draw."""


def _draw_uniform(g: Generator) -> float:
    return float(g._doubles(1)[0])


def _draw_gamma(alpha: float, g: Generator) -> float:
    scale = 1.0
    # A shape below 1 is brought above it, and the draw back by a power of a uniform number.
    if alpha < 1:
        if alpha == 0:
            return 0.0
        scale *= (1 - _draw_uniform(g)) ** (1 / alpha)
        alpha += 1
    d = alpha - 1 / 3
    c = 1 / math.sqrt(9 * d)
    while True:
        x = g._draw_single_normal()
        y = 1 + c * x
        if y <= 0:
            continue
        v = y * y * y
        u = 1 - _draw_uniform(g)
        square = x * x
        if u < 1 - 0.0331 * square * square or math.log(u) < 0.5 * square + d * (1 - v + math.log(v)):
            return scale * d * v


def _draw_poisson(rate: float, g: Generator) -> float:
    if rate == 0:
        return 0.0
    if rate < LARGE_POISSON_RATE:
        limit, product, count = math.exp(-rate), 1.0, 0
        while True:
            product *= _draw_uniform(g)
            if product <= limit:
                return float(count)
            count += 1
    root, log_rate = math.sqrt(rate), math.log(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse_alpha, vr = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = _draw_uniform(g) - 0.5, _draw_uniform(g)
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= vr:
            return float(k)
        if k < 0 or (us < 0.013 and v > us):
            continue
        if math.log(v) + math.log(inverse_alpha) - math.log(a / (us * us) + b) <= -rate + k * log_rate - math.lgamma(
            k + 1
        ):
            return float(k)


def _draw_each(one: Any, parameters: Tensor, generator: Generator | None = None) -> np.ndarray:
    if storage.thread_state.current is not None:
        raise TraceError(
            "this distribution cannot be drawn inside a traced step",
            hint="Make it from torch.rand or torch.randn, which draw anew in each step.",
        )
    # One after the other: how many random numbers an element takes is known only when it is drawn.
    g, values = random.resolve_generator(generator), parameters.array("drawing")
    return np.array([one(float(p), g) for p in values.reshape(-1)], np.float64).reshape(values.shape)


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson numbers of the rates in a tensor. Raises TraceError in a step."""
    return from_array(_draw_each(_draw_poisson, input, generator).astype(input.dtype.host), input.dtype)


class _StandardGamma(Function):
    """Gamma numbers of rate 1, with the gradient along which their probability stays."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        values = _draw_each(_draw_gamma, concentration)
        # Never 0, which no density has.
        drawn = np.maximum(values, np.finfo(concentration.dtype.host).tiny).astype(concentration.dtype.host)
        out = from_array(drawn, concentration.dtype)
        ctx.save_for_backward(concentration, out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        concentration, out = ctx.saved_tensors
        slope = _gamma_gradient(concentration.array().astype(np.float64), out.array().astype(np.float64))
        return gradient * from_array(slope.astype(concentration.dtype.host), concentration.dtype)


def _gamma_gradient(alpha: np.ndarray, x: np.ndarray) -> np.ndarray:
    """dx / d alpha at a fixed probability: -(dF / d alpha) / density, the former by a difference of two."""
    h = alpha * RELATIVE_DIFFERENCE_STEP
    above, below = (_regularized_lower_gamma(a, x) for a in (alpha + h, alpha - h))
    log_density = (alpha - 1) * np.log(x) - x - np.vectorize(math.lgamma)(alpha)
    slope: np.ndarray = -(above - below) / (2 * h) / np.exp(log_density)
    return slope


def _regularized_lower_gamma(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    doubles = [from_array(np.asarray(v, np.float64)) for v in (a, x)]
    answer: np.ndarray = doubles[0].igamma(doubles[1]).array()
    return answer


def standard_gamma(concentration: Tensor) -> Tensor:
    """Gamma numbers of rate 1, in the shape of the concentrations."""
    drawn: Tensor = _StandardGamma.apply(concentration)
    return drawn


def dirichlet(concentration: Tensor) -> Tensor:
    """Gamma numbers that are divided by their sum along the last dimension; without a gradient."""
    values = _draw_each(_draw_gamma, concentration)
    # Small concentrations may all give 0, whose parts are none.
    values = np.maximum(values, np.finfo(np.float64).tiny)
    parts = (values / values.sum(-1, keepdims=True)).astype(concentration.dtype.host)
    return from_array(np.maximum(parts, np.finfo(parts.dtype).tiny), concentration.dtype)
