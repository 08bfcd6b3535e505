"""Cases of attention and its gradient."""

import numpy as np
from hypothesis import strategies as st

from tests.wse_sim.kernels.kernel_draws import Case, Draw, Expected, Row, wide
from wse_sim.kernels import KERNELS, Heads
from wse_sim.layout import Rect

MOST = 5


def drawn(on: Draw, count: int) -> tuple[Rect, Heads, float, np.ndarray, tuple[np.ndarray, ...]]:
    """Extents, the scale, for each token the last position that it sees, and matrices."""
    heads = Heads(*(on.draw(st.integers(1, MOST)) for _ in range(3)))
    last = np.arange(heads.tokens)
    limits = last if on.draw(st.booleans()) else np.full(heads.tokens, last[-1])
    shape = heads.tokens, heads.heads, heads.width
    return on.rect(), heads, on.number(heads.width**-0.5), limits, tuple(on.numbers(*shape) for _ in range(count))


def scores(q: np.ndarray, k: np.ndarray, scale: float, limits: np.ndarray) -> np.ndarray:
    """[heads, tokens, tokens]"""
    of_pairs = np.einsum("ihd,jhd->hij", q, k) * scale
    return np.where(np.arange(len(k)) > limits[:, None], -np.inf, of_pairs)


def depth(q: np.ndarray, k: np.ndarray, scale: float) -> float:
    """Units that a score may be off by: those of its terms."""
    return (q.shape[-1] + 3) * scale * np.einsum("ihd,jhd->hij", np.abs(q), np.abs(k)).max()


def attention(on: Draw) -> Case:
    """A score's error is an error of its exponential relative to that."""
    rect, heads, scale, limits, operands = drawn(on, 3)
    q, k, v = wide(*operands)
    s = scores(q, k, scale, limits)
    log_sums = np.log(np.exp(s).sum(-1))
    p = np.exp(s - log_sums[..., None])
    exact, sizes = (np.einsum("hij,jhd->ihd", p, a) for a in (v, np.abs(v)))
    units = heads.tokens + rect.height + 12 + 2 * depth(q, k, scale)
    own = 2 * float(on.dtype != "float32")
    return Case(
        KERNELS["attention"](rect, heads, scale, on.dtype),
        {**dict(zip("qkv", operands, strict=True)), "positions": np.arange(heads.tokens), "limits": limits},
        {
            "y": Expected(exact.reshape(len(q), -1), sizes.reshape(len(q), -1), on.dtype, own=own, wide=units),
            "log_sums": Expected(log_sums.T, 1 + np.abs(log_sums.T), "float32", own=units),
        },
    )


def attention_gradient(on: Draw) -> Case:
    """From what a forward pass gave, as rounded."""
    rect, heads, scale, limits, operands = drawn(on, 4)
    q, k, v, dy = wide(*operands)
    s = scores(q, k, scale, limits)
    log_sums = np.log(np.exp(s).sum(-1)).astype(np.float32)
    p = np.exp(s - log_sums[..., None])
    y = on.rounded(np.einsum("hij,jhd->ihd", p, v))
    slopes, sizes = (
        p * scale * (np.einsum("ihd,jhd->hij", a, b) + sign * np.einsum("ihd,ihd->hi", a, c)[..., None])
        for a, b, c, sign in ((dy, v, y, -1), (np.abs(dy), np.abs(v), np.abs(y), 1))
    )
    units = heads.tokens + 3 * heads.width + rect.height + 20 + 4 * depth(q, k, scale) + 2 * np.abs(log_sums).max()
    products = {"dq": ("hij,jhd->ihd", slopes, sizes, k), "dk": ("hij,ihd->jhd", slopes, sizes, q)}
    products["dv"] = ("hij,ihd->jhd", p, p, dy)
    values = dict(zip(("q", "k", "v", "dy"), operands, strict=True))
    values |= {"y": y, "log_sums": log_sums.T, "positions": np.arange(heads.tokens), "limits": limits}
    expected = {}
    for name, (terms, pairs, large, rows) in products.items():
        exact, scale_of = (np.einsum(terms, a, b).reshape(len(q), -1) for a, b in ((pairs, rows), (large, abs(rows))))
        expected[name] = Expected(exact, scale_of, on.dtype, own=float(on.dtype != "float32"), wide=units)
    return Case(KERNELS["attention_gradient"](rect, heads, scale, on.dtype), values, expected)


ATTENTION_ROWS: dict[str, Row] = {"attention": attention, "attention_gradient": attention_gradient}
