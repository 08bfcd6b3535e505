"""Random samples from distributions, in-place random functions such as `uniform_`, and the state of the generator.

They reproduce PyTorch's mapping from generator words to numbers, which was derived from its results. A probability
given as a number is compared with a double made of two words; one given as a float32 tensor is compared with a float
made of one word. An exponential number is -log(1 - double). Sampling without replacement takes the largest ratios of
weight to exponential number.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from lazytensor import random
from lazytensor.core import dtype as dt
from lazytensor.core import source, storage
from lazytensor.core.autocast import half_type
from lazytensor.core.dtype import DType, round_to
from lazytensor.core.overlapping_views import arrange_in_memory_order, is_contiguous
from lazytensor.core.tensor import Tensor, from_array, operand_node, wrap
from lazytensor.core.tensor_members import method
from lazytensor.errors import ShapeError, TraceError
from lazytensor.functional import pointwise as pw
from lazytensor.functional.in_place import copy_, overwrite, shows_no_values
from lazytensor.functional.random_state import draw_in_step, is_deferred, is_replayed, next_draw, tensor_of_draws
from lazytensor.functional.type_promotion import Operand
from lazytensor.ir.graph import leaf
from lazytensor.ir.types import Type
from lazytensor.ops import call, const
from lazytensor.ops.elementwise import cast
from lazytensor.random import Generator

_EXACT_INTEGER_LIMITS = {dt.float64: 1 << 53, dt.float32: 1 << 24, dt.float16: 1 << 11, dt.bfloat16: 1 << 8}
"""The largest integer n such that the dtype can represent all integers from 0 to n."""


def _write_draws(x: Tensor, values: np.ndarray) -> Tensor:
    """Write the drawn `values` into `x`, and return `x`.

    Raises TraceError inside a compiled step, which would reuse the same values in each execution.
    """
    if is_replayed():
        raise TraceError(
            "this distribution cannot be sampled inside a traced step",
            where=source.where(),
            hint="Compute it from torch.rand or torch.randn, which draw new numbers in each step.",
        )
    rounded = arrange_in_memory_order(x, round_to(np.asarray(values, x.dtype.host), x.dtype))
    x.write(leaf(rounded, x.spec) if storage.thread_state.current is None else tensor_of_draws(rounded, x.dtype).node)
    return x


def _check_probabilities(p: np.ndarray) -> None:
    if not ((p >= 0) & (p <= 1)).all():
        raise ShapeError(
            "Expected p_in >= 0 && p_in <= 1 to be true",
            where=source.where(),
            hint="Pass probabilities between 0 and 1.",
        )


def _draw_trials(generator: Generator, p: np.ndarray, n: int, dtype: DType) -> np.ndarray:
    _check_probabilities(p)
    return generator.uniform((n,), dtype) < p


def _uniform_like(x: Tensor, dtype: DType = dt.float32) -> Tensor:
    """Return uniform random numbers in the shape and on the device of `x`, drawn by the step that is being captured."""
    drawn = draw_in_step("random_uniform", x.spec.shape, dtype)
    # The generator state belongs to the step and has no device.
    drawn.device = x.device
    return drawn


@method
def bernoulli(x: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """Return a tensor in the shape of `x` with 1 with probability `x` (or `p`, if it is given) and 0 otherwise.

    In a compiled step without `generator` each execution draws new numbers, and probabilities are not checked; with
    `generator` TraceError is raised there. Otherwise raises ShapeError for probabilities outside 0 to 1.

    >>> import lazytensor as lt
    >>> lt.bernoulli(lt.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    if generator is None and is_replayed():
        chance: Operand = x if p is None else p
        # While automatic casts are on, numbers are drawn in the dtype of the probabilities.
        drawn_type = x.dtype if p is None and half_type() is not None else dt.float32
        return pw.cast_to(_uniform_like(x, drawn_type) < chance, x.dtype)
    if x.device.type == "meta":
        return x.clone()
    out = from_array(np.zeros(x.spec.shape, x.dtype.host), x.dtype)
    if p is not None:
        return bernoulli_(out, p, generator=generator)
    return bernoulli_(out, x.detach(), generator=random.resolve_generator(generator))


@method
def bernoulli_(x: Tensor, p: float | Tensor = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Write 1 with probability `p`, else 0, to each element of `x`, and return `x`. A tensor `p` broadcasts to `x`.

    In a compiled step without `generator` each execution draws new numbers, and probabilities are not checked; with
    `generator` TraceError is raised there. Otherwise raises ShapeError for probabilities outside 0 to 1.
    """
    if generator is None and is_replayed():
        numbers = _uniform_like(x) if half_type() is None else _uniform_like(x, x.dtype)
        x.write(cast((numbers < p).node, x.dtype))
        return x
    # The vendor's generator scope does not affect this function, and so not dropout.
    chosen, n = generator or random.default_generator, x.spec.size
    if not isinstance(p, Tensor):
        _check_probabilities(np.asarray(p))
        return _write_draws(x, chosen.bernoulli(n, p))
    # One draw for each element in row-major order, whatever the shape of p.
    chances = np.broadcast_to(p.array("bernoulli_"), x.spec.shape).reshape(-1)
    return _write_draws(x, _draw_trials(chosen, chances, n, dt.float64 if p.dtype is dt.float64 else dt.float32))


@method
def exponential_(x: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Write numbers from the exponential distribution with rate `lambd` to `x`, and return `x`.

    Raises ShapeError if `lambd` is not positive, and TraceError inside a compiled step.
    """
    if not lambd > 0:
        raise ShapeError(
            f"exponential_ expects lambda > 0.0, but found lambda={lambd}",
            where=source.where(),
            hint="Pass a positive lambd.",
        )
    return _write_draws(x, random.resolve_generator(generator).exponential(x.spec.size, x.dtype) / lambd)


@method
def geometric_(x: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Write numbers of trials until the first success, each with probability `p`, to `x`, and return `x`.

    Raises ShapeError unless 0 < `p` < 1, and TraceError inside a compiled step.
    """
    if not 0 < p < 1:
        raise ShapeError(
            f"geometric_ expects p to be in (0, 1), but got p={p}",
            where=source.where(),
            hint="Pass a p above 0 and below 1.",
        )
    u = random.resolve_generator(generator).uniform((x.spec.size,), dt.float64)
    # The inverse of the distribution function 1 - (1 - p)^k at 1 - u, rounded up.
    return _write_draws(x, np.ceil(np.log(u) / np.log1p(-p)))


@method
def cauchy_(x: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Write numbers from the Cauchy distribution with location `median` and scale `sigma` to `x`, and return `x`.

    Raises TraceError inside a compiled step.
    """
    u = random.resolve_generator(generator).uniform((x.spec.size,), dt.float64)
    # The inverse of the distribution function; u is never 1, so the tangent is finite.
    return _write_draws(x, median + sigma * np.tan(np.pi * (u - 0.5)))


@method
def log_normal_(x: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None) -> Tensor:
    """Write numbers whose logarithms are normal with `mean` and standard deviation `std` to `x`, and return `x`.

    Raises TraceError inside a compiled step.
    """
    wide = x.dtype if x.dtype is dt.float64 else dt.float32
    chosen = random.resolve_generator(generator)
    # PyTorch draws these one at a time, and normal tensors in blocks of 16, which uses other words.
    drawn = chosen.single_normals(x.spec.size) * std + mean
    return _write_draws(x, np.exp(drawn).astype(wide.host))


@method
def random_(x: Tensor, *bounds: Any, generator: Generator | None = None, **named: Any) -> Tensor:
    """Write uniform random integers to `x`, and return `x`.

    `random_(to)` draws from 0 to `to` - 1, and `random_(from, to)` from `from` to `to` - 1; "from" and "to" may also be
    keywords. Without bounds the range is 0 to the limit of the dtype, for floating-point dtypes the largest integer
    below which they have no gaps. Raises ShapeError if the range is empty, and TraceError inside a compiled step.
    """
    low = named.get("from", bounds[0] if len(bounds) == 2 else 0)
    high = named.get("to", bounds[-1] if bounds else None)
    if high is None:
        high = (
            _EXACT_INTEGER_LIMITS[x.dtype] + 1
            if x.dtype.kind == "f"
            else 2
            if x.dtype.kind == "b"
            else _integer_limit(x.dtype)
        )
    if low >= high:
        raise ShapeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}",
            where=source.where(),
            hint="Increase `to`, or reduce `from`.",
        )
    # The vendor's generator scope applies only to the form without bounds.
    in_scope = random.resolve_generator if not (bounds or named) else lambda given: given or random.default_generator
    chosen, n = in_scope(generator), x.spec.size
    # PyTorch uses 32 random bits for narrow ranges and for most dtypes without bounds, else 64.
    is_short = x.dtype is not dt.int64 and not bounds and x.dtype is not dt.float64
    return _write_draws(x, chosen.integers(low, high, (n,), is_short))


def _integer_limit(dtype: DType) -> int:
    return int(np.iinfo(dtype.host).max) + 1


@method
def multinomial(
    x: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Return indices drawn with the weights in each row of `x`: int64 [num_samples] or [rows, num_samples].

    Weights need not sum to 1. Without `replacement` an index is drawn at most once per row. In a step for the wafer
    without `generator` each execution draws new indices. Raises ShapeError for invalid weights, for a row of zeros, and
    for more samples than weights without `replacement`.

    >>> import lazytensor as lt
    >>> lt.multinomial(lt.tensor([0.0, 1.0]), 1)
    tensor([1])
    """
    if half_type() is not None and generator is None:
        state, number = next_draw()
        return wrap(
            call("multinomial", operand_node(x), state, call=number, samples=num_samples, replacement=replacement),
            x.device,
        )
    # Zeros would be refused as weights; any others serve a plan.
    is_absent = storage.is_unknown_in_plan(x.node) or x.device.type == "meta"
    weights = np.ones(x.spec.shape, np.float32) if is_absent else x.array("multinomial")
    if x.ndim not in (1, 2) or x.dtype.kind != "f":
        raise ShapeError(
            f"prob_dist must be 1 or 2 dim and of a floating-point type, but got {x.spec}",
            where=source.where(),
            hint="Pass floating-point weights with one or two dimensions.",
        )
    if num_samples <= 0 or (not replacement and num_samples > weights.shape[-1]):
        raise ShapeError(
            f"cannot sample n_sample > prob_dist.size(-1) samples without replacement: {num_samples} of "
            f"{weights.shape[-1]}",
            where=source.where(),
            hint="Reduce num_samples, or pass replacement=True.",
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all() and (weights.sum(-1) > 0).all()):
        raise ShapeError(
            "probability tensor contains either `inf`, `nan` or element < 0, or a row of zeros",
            where=source.where(),
            hint="Pass finite weights of at least 0, with a positive one in each row.",
        )
    if x.device.type == "meta":
        places = np.zeros((*x.spec.shape[:-1], num_samples), np.int64)
        return wrap(leaf(places, Type(places.shape, dt.int64)), x.device)
    chosen = random.resolve_generator(generator)
    rows = np.atleast_2d(weights)
    # As in PyTorch, a single draw uses the ratio method with or without replacement.
    if replacement and num_samples > 1:
        # By the inverse of the distribution function, with one double per draw.
        ends = np.cumsum(rows.astype(np.float64), -1)
        ends /= ends[:, -1:]
        u = chosen.uniform((len(rows), num_samples), dt.float64)
        indices = np.stack([np.searchsorted(e, v, side="left") for e, v in zip(ends, u, strict=True)])
    else:
        # The k largest ratios of weight / exponential are k draws without replacement.
        race = rows / chosen.exponential(rows.size, x.dtype).astype(rows.dtype).reshape(rows.shape)
        indices = np.argsort(-race, axis=-1, kind="stable")[:, :num_samples]
    return tensor_of_draws(indices.reshape(*weights.shape[:-1], num_samples).astype(np.int64), dt.int64)


def get_rng_state() -> Tensor:
    """Return the state of the default generator as a tensor.

    >>> import lazytensor as lt
    >>> state = lt.get_rng_state()
    >>> first = lt.rand(3)
    >>> lt.set_rng_state(state)
    >>> lt.equal(first, lt.rand(3))
    True
    """
    return random.default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Set the state of the default generator to `new_state`, a tensor from `get_rng_state`.

    >>> import lazytensor as lt
    >>> state = lt.get_rng_state()
    >>> first = lt.rand(3)
    >>> lt.set_rng_state(state)
    >>> lt.equal(first, lt.rand(3))
    True
    """
    random.default_generator.set_state(new_state)


def seed() -> int:
    """Seed the default generator with a nondeterministic number, and return the number.

    >>> import lazytensor as lt
    >>> with lt.fork_rng():
    ...     lt.seed() == lt.initial_seed()
    True
    """
    return random.default_generator.seed()


def initial_seed() -> int:
    """Return the seed with which the default generator was last seeded.

    >>> import lazytensor as lt
    >>> lt.manual_seed(7).initial_seed()
    7
    """
    return random.default_generator.initial_seed()


@contextmanager
def fork_rng(devices: Sequence[Any] = (), enabled: bool = True, **_: Any) -> Iterator[None]:
    """Return a context manager that restores the state of the default generator at its end, unless `enabled` is false.

    Other arguments are ignored.

    >>> import lazytensor as lt
    >>> with lt.fork_rng():
    ...     drawn = lt.rand(2)
    >>> bool((lt.rand(2) == drawn).all())
    True
    """
    before = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(before)


def _write_initial_values(x: Tensor, values: np.ndarray) -> Tensor:
    values = arrange_in_memory_order(x, values)
    # Drawn now, even in a compiled step: initial values are constants there.
    is_constant = storage.thread_state.current is not None and is_replayed()
    return overwrite(x, const(values, x.spec) if is_constant else tensor_of_draws(values, x.dtype).node)


@method
def uniform_(x: Tensor, a: float = 0.0, b: float = 1.0, generator: random.Generator | None = None) -> Tensor:
    """Write uniform random numbers from `a` to `b` to `x`, and return `x`.

    In a step for the wafer without `generator` each execution draws new numbers; in another compiled step they are
    constants. A tensor without values, such as one on the device "meta", is returned unchanged.
    """
    if shows_no_values(x):
        return x
    if half_type() is not None and generator is None:
        return copy_(x, draw_in_step("random_between", x.spec.shape, x.dtype, low=float(a), high=float(b)))
    if is_deferred(x.spec.shape):
        return copy_(x, draw_in_step("random_uniform", x.spec.shape, x.dtype) * (b - a) + a)
    return _write_initial_values(x, random.resolve_generator(generator).uniform(x.spec.shape, x.dtype, a, b))


@method
def normal_(x: Tensor, mean: float = 0.0, std: float = 1.0, generator: random.Generator | None = None) -> Tensor:
    """Write normal random numbers with `mean` and standard deviation `std` to `x`, and return `x`.

    In a step for the wafer without `generator` each execution draws new numbers; in another compiled step they are
    constants. A tensor without values, such as one on the device "meta", is returned unchanged.
    """
    if shows_no_values(x):
        return x
    if half_type() is not None and generator is None:
        return copy_(x, draw_in_step("random_normal", x.spec.shape, x.dtype, mean=mean, deviation=std))
    if is_deferred(x.spec.shape):
        return copy_(x, draw_in_step("random_normal", x.spec.shape, x.dtype) * std + mean)
    is_whole = is_contiguous(x)
    return _write_initial_values(
        x, random.resolve_generator(generator).normal(x.spec.shape, x.dtype, mean, std, is_whole)
    )
