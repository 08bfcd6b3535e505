"""Random numbers inside a step: a pure function of seed, counter, call number and element index.

The words come from splitmix64 (Steele, Lea, Flood 2014), a bijection of a 64-bit counter. Each element hashes its own
index, so that any part can be computed separately, and a replay gives the same numbers.
"""

import math
from typing import Any

import numpy as np

from lazytensor.cirh.spelling import INTEGERS, MULTINOMIAL, NORMAL, UNIFORM
from lazytensor.core.dtype import int64, round_to
from lazytensor.errors import ShapeError
from lazytensor.ir.operation import elementwise_work
from lazytensor.ir.types import Type, Work
from lazytensor.ops.op import op

# The step of the counter, 2 ** 64 divided by the golden ratio; and the multipliers of D. Stafford's mixing function,
# variant 13, whose shifts are in `_mix_bits`.
GOLDEN_RATIO_64, MIX_MULTIPLIER_1, MIX_MULTIPLIER_2 = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


def _mix_bits(z: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * MIX_MULTIPLIER_1
        z = (z ^ (z >> np.uint64(27))) * MIX_MULTIPLIER_2
        return np.asarray(z ^ (z >> np.uint64(31)))


def random_words(state: np.ndarray, call: int, n: int) -> np.ndarray:
    """Return a uint64 array of n random words, a pure function of its arguments.

    `state` is (seed, counter), and `call` the number of the draw within the step. A longer draw begins with the same
    words.
    """
    with np.errstate(over="ignore"):
        # Seed and counter are mixed separately, then together with the call number, so that neighbouring values of any
        # of the three give unrelated streams.
        key = _mix_bits(state.astype(np.uint64) * GOLDEN_RATIO_64 + np.array([1, 2], np.uint64))
        base = _mix_bits(key[:1] + key[1:] * MIX_MULTIPLIER_1 + np.uint64(call) * MIX_MULTIPLIER_2)
        return _mix_bits(base + np.arange(1, n + 1, dtype=np.uint64) * GOLDEN_RATIO_64)


def _uniform_eval(
    state: np.ndarray, *, call: int, type: Type, seed: int | None = None, is_open: bool = False
) -> np.ndarray:
    # With a constant `seed`, the state is only the counter.
    words = random_words(state if seed is None else np.array([seed, state.item()]), call, type.size)
    # Use as many bits as the significand has: every value is exact and below 1.
    digits = type.dtype.mantissa_bits + 1
    values = (words >> np.uint64(64 - digits)).astype(type.dtype.host) * type.dtype.host.type(2.0**-digits)
    return np.asarray(values.reshape(type.shape))


def _between_eval(state: np.ndarray, *, call: int, type: Type, low: float, high: float) -> np.ndarray:
    values = _uniform_eval(state, call=call, type=type) * (high - low) + low
    return round_to(np.asarray(values, type.dtype.host), type.dtype)


def _normal_eval(state: np.ndarray, *, call: int, type: Type, mean: float = 0.0, deviation: float = 1.0) -> np.ndarray:
    """Return normally distributed numbers of the given type, by Box and Muller's transform, rounded to half types.

    The numbers are a pure function of `state` (seed and counter) and `call`, the number of the draw within the step.
    """
    # Two words per number, without using the sine of Box and Muller's pair: element i needs only the words i and n + i,
    # so parts of a tensor can be drawn separately.
    words = random_words(state, call, 2 * type.size)
    u = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    u1, u2 = u[: type.size], u[type.size :]
    # Box and Muller's transform. 1 - u1 is never 0, so the logarithm is finite.
    z = np.sqrt(-2 * np.log1p(-u1)) * np.cos(2 * math.pi * u2)
    return round_to((z * deviation + mean).astype(type.dtype.host), type.dtype).reshape(type.shape)


def _draw_type(state: Type, *, call: int, type: Type, **attrs: Any) -> Type:
    if type.dtype.kind != "f":
        raise ShapeError(f"random numbers of {type.dtype.name} cannot be drawn", hint="Draw floats and convert them.")
    return type


def _draw_work(out: Type, state: Type, **attrs: object) -> Work:
    return Work(0, 0, out.nbytes)


op("random_uniform", _draw_type, _uniform_eval, work=_draw_work, cirh=UNIFORM)
# A separate operation, because the mesh has a kernel only for numbers between 0 and 1.
op("random_between", _draw_type, _between_eval, work=_draw_work, cirh=UNIFORM)
op(
    "random_integers",
    lambda state, *, type, **attrs: type,
    lambda state, *, call, type, low, high, is_open: (
        ((random_words(state, call, type.size) % np.uint64(high - low)).astype(np.int64) + low)
        .astype(type.dtype.host)
        .reshape(type.shape)
    ),
    work=_draw_work,
    cirh=INTEGERS,
)
op("random_normal", _draw_type, _normal_eval, work=_draw_work, cirh=NORMAL)


def _multinomial_type(weights: Type, state: Type, *, call: int, samples: int, replacement: bool) -> Type:
    if len(weights.shape) not in (1, 2) or weights.dtype.kind != "f":
        raise ShapeError(
            f"prob_dist must be 1 or 2 dim and of a floating-point type, but got {weights}",
            hint="Pass floating-point weights with one or two dimensions.",
        )
    if samples <= 0 or (not replacement and samples > weights.shape[-1]):
        raise ShapeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement: "
            f"{samples} of {weights.shape[-1]}",
            hint="Reduce num_samples, or pass replacement=True.",
        )
    return Type((*weights.shape[:-1], samples), int64)


def _multinomial_eval(
    weights: np.ndarray, state: np.ndarray, *, call: int, samples: int, replacement: bool
) -> np.ndarray:
    """Return `samples` int64 indices drawn from each row of weights, as torch.multinomial, with or without replacement.

    Weights need not add up to 1. With replacement, an index of weight 0 is not drawn; without, only after all others.
    """
    rows = np.atleast_2d(weights).astype(np.float64)
    words = random_words(state, call, len(rows) * (samples if replacement else rows.shape[1])).reshape(len(rows), -1)
    u = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    if replacement:
        # Invert the distribution function. A weight of zero is never drawn.
        ends = np.cumsum(rows, -1)
        places = np.stack([np.searchsorted(e, v * e[-1], "right") for e, v in zip(ends, u, strict=True)])
    else:
        # Divide the weights by exponential random numbers: the k largest quotients are k draws without replacement.
        places = np.argsort(rows / np.log1p(-u), -1, kind="stable")[:, :samples]
    return places.reshape(*weights.shape[:-1], samples).astype(np.int64)


op(
    "multinomial",
    _multinomial_type,
    _multinomial_eval,
    work=lambda out, weights, state, **attrs: elementwise_work(22)(weights, weights),
    cirh=MULTINOMIAL,
)
