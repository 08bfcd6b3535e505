"""Samples from the gamma, Dirichlet and Poisson distributions that equal those of PyTorch on a CPU.

Gamma: Marsaglia and Tsang, A simple method for generating gamma variables (2000). Poisson: for rates of 10 and more the
transformed rejection method PTRS of Hormann (1993), and for lower rates the product of uniform numbers (Knuth).
Elements are drawn one after another in double precision.
"""

import math
from typing import Any

import numpy as np

from lazytensor import random
from lazytensor.autograd.function import Function
from lazytensor.core import source, storage
from lazytensor.core.tensor import Tensor, from_array
from lazytensor.errors import TraceError
from lazytensor.random import Generator

LARGE_POISSON_RATE = 10
"""The rate from which transformed rejection is used."""
RELATIVE_DIFFERENCE_STEP = 1e-4
"""The relative step of the finite difference of the distribution function, for the gradient of a sample."""


def _draw_uniform(g: Generator) -> float:
    return float(g._doubles(1)[0])


def _draw_gamma(alpha: float, g: Generator) -> float:
    """Return one gamma sample with shape `alpha` and rate 1 (Marsaglia and Tsang). It is 0 if `alpha` is 0."""
    scale = 1.0
    # A shape below 1 is increased by 1, and the sample scaled by a power of a uniform number.
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
    """Return one Poisson sample with mean `rate` as a float; 0 for a rate of 0.

    Below LARGE_POISSON_RATE it multiplies uniform numbers, above it uses transformed rejection.
    """
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
    """Return `one(parameter, generator)` for each element of `parameters`, in float64 and in the shape of `parameters`.

    If `generator` is None, the default generator is used. Raises TraceError inside a traced step.
    """
    if storage.thread_state.current is not None:
        raise TraceError(
            "this distribution cannot be sampled inside a traced step",
            where=source.where(),
            hint="Compute the samples from torch.rand or torch.randn, which draw new numbers in each step.",
        )
    # Drawn one after another, because the number of random numbers used by an element is not known in advance.
    g, values = random.resolve_generator(generator), parameters.array("drawing")
    return np.array([one(float(p), g) for p in values.reshape(-1)], np.float64).reshape(values.shape)


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Return Poisson samples with the rates in `input`. Raises TraceError inside a traced step."""
    return from_array(_draw_each(_draw_poisson, input, generator).astype(input.dtype.host), input.dtype)


class _StandardGamma(Function):
    """A differentiable function that draws gamma samples of rate 1.

    Its gradient with respect to the concentration keeps the cumulative probability of the sample constant.
    """

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        values = _draw_each(_draw_gamma, concentration)
        # At least the smallest normal number, because the density at 0 may be infinite.
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
    """Return dx / d alpha at fixed cumulative probability: -(dF / d alpha) / density.

    The derivative of F is a central difference.
    """
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
    """Return differentiable gamma samples of rate 1 with the shapes in `concentration`.

    Raises TraceError inside a traced step.
    """
    drawn: Tensor = _StandardGamma.apply(concentration)
    return drawn


def dirichlet(concentration: Tensor) -> Tensor:
    """Return Dirichlet samples along the last dimension of `concentration`, without gradients.

    Raises TraceError inside a traced step.
    """
    values = _draw_each(_draw_gamma, concentration)
    # With small concentrations all gamma samples may be 0, which cannot be normalized.
    values = np.maximum(values, np.finfo(np.float64).tiny)
    parts = (values / values.sum(-1, keepdims=True)).astype(concentration.dtype.host)
    return from_array(np.maximum(parts, np.finfo(parts.dtype).tiny), concentration.dtype)
