"""For every kernel that runs: how to draw one with its operands, what NumPy says, and how close it has to come."""

import numpy as np
from hypothesis import strategies as st

from lazytensor.core.dtype import dtype_by_name
from lazytensor.ir.types import Type
from lazytensor.ops import OPS
from tests.wse_sim.kernels.attention_rows import ATTENTION_ROWS
from tests.wse_sim.kernels.kernel_draws import DTYPES, EPSILON, Case, Draw, Expected, Row, sums, wide
from tests.wse_sim.kernels.norm_rows import NORM_ROWS
from tests.wse_sim.kernels.window_rows import WINDOW_ROWS
from wse_sim.isa.packing import round_values
from wse_sim.kernels import KERNELS, elements_of, limbs_of, state_limbs, stream_of
from wse_sim.kernels.solvers.bicgstab import NEIGHBOURS
from wse_sim.layout import Rect

__all__ = ["DTYPES", "EPSILON", "LONG", "ROWS", "cases", "stencil_product"]


def gemv(on: Draw) -> Case:
    rect, inner, outer = on.rect(), on.extent(), on.extent()
    a, x = on.numbers(inner, outer), on.numbers(inner, 1)
    return Case(
        KERNELS["gemv"](rect, inner, outer, on.dtype),
        {"a": a, "x": x},
        {"y": sums(x.T, a, on.dtype, rect.height)},
    )


def product(name: str) -> Row:
    """Of m x k and k x n; backward with one of the two on its side. Sums of 16-bit operands may be in float32."""

    def row(on: Draw) -> Case:
        rect, m, k, n = on.square(), on.extent(), on.extent(), on.extent()
        sum_dtype = on.draw(st.sampled_from([on.dtype, "float32"]))
        how = {}
        if name not in ("summa", "two_hop"):
            how = on.draw(st.sampled_from([{}, {"has_skew": True}, {"is_folded": True}]))
        kernel = KERNELS[name](rect, m, k, n, on.dtype, sum_dtype, **how)
        extents = {"weight_gradient": ((m, k), (m, n)), "input_gradient": ((m, n), (k, n))}
        left, right = extents.get(name, ((m, k), (k, n)))
        a, b = on.numbers(*left), on.numbers(*right)
        turned = {"weight_gradient": (a.T, b), "input_gradient": (a, b.T)}.get(name, (a, b))
        return Case(kernel, {"a": a, "b": b}, {"c": sums(*turned, sum_dtype, 0)})

    return row


def linear_step(on: Draw) -> Case:
    """What dy is off by, half a unit of its own type and the error of y, goes on into both gradients."""
    rect, m, k, n = on.square(), on.extent(), on.extent(), on.extent()
    x, w, target, rate = on.numbers(m, k), on.numbers(k, n), on.numbers(m, n), on.number(0.1)
    a, b, t = wide(x, w, target)
    y = a @ b
    dy = y - t
    own, f32 = EPSILON[on.dtype], EPSILON["float32"]
    y_error = k * f32 * (np.abs(a) @ np.abs(b))
    dy_error = y_error + own * (np.abs(dy) + y_error) + f32 * np.abs(dy)
    dx_error = dy_error @ np.abs(b).T + n * f32 * (np.abs(dy) @ np.abs(b).T)
    dw, dw_error = a.T @ dy, np.abs(a).T @ dy_error + m * f32 * (np.abs(a).T @ np.abs(dy))
    w_error = own * (np.abs(b) + rate * np.abs(dw)) + 2 * rate * dw_error
    return Case(
        KERNELS["linear_step"](rect, m, k, n, on.dtype, is_folded=on.draw(st.booleans())),
        {"x": x, "w": w, "target": target},
        {
            "y": Expected(y, y_error / f32, "float32", wide=1),
            "dx": Expected(dy @ b.T, dx_error / f32, "float32", wide=1),
            "w": Expected(b - rate * dw, w_error / f32, on.dtype, wide=1),
        },
    )


def operand_in_place(on: Draw) -> Case:
    """Several of them beside each other, either way round, with the one in place as it is or transposed."""
    rect, passing, inner, outer = on.rect(), 3 * on.extent(), on.extent(), on.extent()
    is_turned, is_transposed = on.draw(st.booleans()), on.draw(st.booleans())
    line = rect.width if is_turned else rect.height
    strips, sum_dtype = on.draw(st.integers(1, line)), on.draw(st.sampled_from([on.dtype, "float32"]))
    is_shared = strips == line and on.draw(st.booleans())
    kernel = KERNELS["operand_in_place"](
        *(rect, passing, inner, outer, on.dtype, on.draw(st.integers(1, 9)), "", sum_dtype, strips),
        *(is_turned, is_transposed, is_shared),
    )
    right = [on.numbers(inner, outer) for _ in range(strips)]
    left = [on.numbers(passing, inner)] * strips if is_shared else [on.numbers(passing, inner) for _ in range(strips)]
    return Case(
        kernel,
        numbered("a", left[:1] if is_shared else left) | numbered("b", [b.T if is_transposed else b for b in right]),
        numbered("c", [sums(a, b, sum_dtype, line) for a, b in zip(left, right, strict=True)]),
    )


def result_in_place(on: Draw) -> Case:
    rect, m, n, k = on.rect(), on.extent(), on.extent(), 3 * on.extent()
    strips, sum_dtype = on.draw(st.integers(1, rect.height)), on.draw(st.sampled_from([on.dtype, "float32"]))
    kernel = KERNELS["result_in_place"](rect, m, n, k, on.dtype, on.draw(st.integers(1, 9)), sum_dtype, strips)
    pairs = [(on.numbers(k, m), on.numbers(k, n)) for _ in range(strips)]
    return Case(
        kernel,
        numbered("a", [a for a, _ in pairs]) | numbered("b", [b for _, b in pairs]),
        numbered("c", [sums(a.T, b, sum_dtype, 0) for a, b in pairs]),
    )


def numbered(name: str, values: list) -> dict:
    """Operands or results of several strips by their names; one strip has no number."""
    return {f"{name}{i}" if len(values) > 1 else name: value for i, value in enumerate(values)}


def streamed_product(on: Draw) -> Case:
    rect, inputs, outputs, tokens = on.rect(narrowest=2), on.extent(), on.extent(), on.extent()
    kept = on.random.random((inputs, outputs)) < on.draw(st.sampled_from([0, 0.3, 1]))
    weights, x = on.numbers(inputs, outputs) * kept, on.numbers(inputs, tokens)
    return Case(
        KERNELS["streamed_product"](rect, weights, tokens, on.dtype),
        {"x": x, "stream": stream_of(weights, rect.height, on.dtype)},
        {"y": sums(weights.T, x, on.dtype, rect.height)},
    )


def spmm(on: Draw) -> Case:
    rect, n, k, columns = on.rect(), on.extent(), on.extent(), on.extent()
    kept = on.random.random((n, k)) < on.draw(st.sampled_from([0, 0.3, 1]))
    a, b = on.numbers(n, k) * kept, on.numbers(k, columns)
    return Case(
        KERNELS["spmm"](rect, a, columns, on.dtype),
        {"b": b, "elements": elements_of(a, rect, on.dtype)},
        {"c": sums(a, b, on.dtype, rect.width)},
    )


def softmax(on: Draw) -> Case:
    """The exponent x - max is rounded, which its exponential shows as often as the exponent is large."""
    rect, rows, columns = on.rect(), on.extent(), on.extent()
    x = on.numbers(rows, columns)
    less = x.astype(np.float64) - x.max(1, keepdims=True)
    exact = np.exp(less) / np.exp(less).sum(1, keepdims=True)
    terms = columns + rect.width + 6
    scale = exact * (1 + np.abs(less).max() / terms)
    return Case(
        KERNELS["softmax"](rect, rows, columns, on.dtype, groups=on.groups(rect)),
        {"x": x},
        {"y": Expected(exact, scale, on.dtype, own=1, wide=terms)},
    )


def softmax_cross_entropy(on: Draw) -> Case:
    """Targets are zeros and a one in each row; the loss holds the logarithm of a sum and one element."""
    rect, rows, columns = on.rect(), on.extent(), on.extent()
    x, target = on.numbers(rows, columns), np.eye(columns, dtype=np.float32)[on.random.integers(0, columns, rows)]
    less = x.astype(np.float64) - x.max(1, keepdims=True)
    total = np.exp(less).sum(1, keepdims=True)
    aimed = (less * target).sum(1, keepdims=True)
    terms = columns + rect.width + 6
    deep = 1 + np.abs(less).max() / terms
    p = np.exp(less) / total
    return Case(
        KERNELS["softmax_cross_entropy"](rect, rows, columns, on.dtype, groups=on.groups(rect)),
        {"x": x, "target": target},
        {
            "y": Expected(p - target, p * deep + target, on.dtype, own=on.dtype != "float32", wide=terms),
            "loss": Expected(np.log(total) - aimed, deep + np.log(total) + np.abs(aimed), "float32", own=terms),
        },
    )


def layer_norm(on: Draw) -> Case:
    """Sums of a row go into every element, and the mean's error into the variance."""
    rect, rows, columns = on.rect(), on.extent(), on.extent()
    x, gain, bias = on.numbers(rows, columns), on.numbers(1, columns), on.numbers(1, columns)
    high, g, b = wide(x, gain, bias)
    less = high - high.mean(1, keepdims=True)
    scaled = less / np.sqrt((less * less).mean(1, keepdims=True) + 1e-5)
    reach = np.abs(high).max(1, keepdims=True) / np.sqrt((less * less).mean(1, keepdims=True) + 1e-5)
    scale = (1 + reach) * (1 + np.abs(scaled).max(1, keepdims=True)) * np.abs(g) + np.abs(b)
    own = Expected(scaled * g + b, scale, on.dtype, own=on.dtype != "float32", wide=2 * (columns + rect.width) + 8)
    return Case(
        KERNELS["layer_norm"](rect, rows, columns, on.dtype, groups=on.groups(rect)),
        {"x": x, "gain": gain, "bias": bias},
        {"y": own},
    )


def biased(on: Draw) -> tuple[Rect, np.ndarray, np.ndarray]:
    rows, columns = on.extent(), on.extent()
    return on.rect(), on.numbers(rows, columns), on.numbers(1, columns)


def bias_relu(on: Draw) -> Case:
    """One sum, rounded once: NumPy's own, to the last bit."""
    rect, x, bias = biased(on)
    exact = np.maximum(round_values(x + bias, on.dtype), 0)
    return Case(
        KERNELS["bias_relu"](rect, *x.shape, on.dtype), {"x": x, "bias": bias}, {"y": Expected(exact, 0, on.dtype)}
    )


def bias_gelu(on: Draw) -> Case:
    rect, x, bias = biased(on)
    u = x.astype(np.float64) + bias
    exact = u * (1 + np.tanh(np.sqrt(2 / np.pi) * (u + 0.044715 * u**3))) / 2
    expected = Expected(exact, np.abs(x) + np.abs(bias), on.dtype, own=on.dtype != "float32", wide=8)
    return Case(KERNELS["bias_gelu"](rect, *x.shape, on.dtype), {"x": x, "bias": bias}, {"y": expected})


def embedding(on: Draw) -> Case:
    rect, tokens, vocabulary, width = on.rect(), on.extent(), on.extent(), on.extent()
    table, numbers = on.numbers(vocabulary, width), on.random.integers(0, vocabulary, tokens)
    return Case(
        KERNELS["embedding"](rect, tokens, vocabulary, width, on.dtype),
        {"table": table, "tokens": numbers},
        {"y": Expected(table[numbers], 0, on.dtype)},
    )


def embedding_gradient(on: Draw) -> Case:
    rect, tokens, vocabulary, width = on.rect(), on.extent(), on.extent(), on.extent()
    dy, numbers = on.numbers(tokens, width), on.random.integers(0, vocabulary, tokens)
    chosen = (numbers == np.arange(vocabulary)[:, None]).astype(np.float32)
    values, has_base = {"dy": dy, "tokens": numbers}, on.draw(st.booleans())
    if has_base:
        # The base is one more row that comes to each row of the table.
        values["base"] = on.numbers(vocabulary, width)
        chosen, dy = np.concatenate([chosen, np.eye(vocabulary)], 1), np.concatenate([dy, values["base"]])
    return Case(
        KERNELS["embedding_gradient"](rect, tokens, vocabulary, width, on.dtype, has_base=has_base),
        values,
        {"gradient": sums(chosen, dy, on.dtype, rect.height)},
    )


def lists(on: Draw) -> tuple[Rect, tuple[int, int, int, int], np.ndarray]:
    rows, columns, extent, count = (on.extent() for _ in range(4))
    return on.rect(), (rows, columns, extent, count), on.random.integers(0, extent, (rows, columns, count))


def at_places(on: Draw) -> Case:
    rect, extents, places = lists(on)
    x = on.numbers(*extents[:3])
    exact = np.take_along_axis(x, places, -1).reshape(extents[0], -1)
    return Case(
        KERNELS["at_places"](rect, *extents, on.dtype),
        {"x": x, "places": places},
        {"y": Expected(exact, 0, on.dtype)},
    )


def put_places(on: Draw) -> Case:
    """The last of several stays, or they are summed in float32, each sum half a unit, and rounded once."""
    rect, extents, places = lists(on)
    g, accumulate = on.numbers(*extents[:2], extents[3]), on.draw(st.booleans())
    has_base = on.draw(st.booleans())
    base = on.numbers(*extents[:3]) * has_base
    exact, scale = wide(base, np.abs(base))
    at = (*np.indices(places.shape)[:2], places)
    if accumulate:
        np.add.at(exact, at, g)
        np.add.at(scale, at, np.abs(g))
    else:
        exact[at] = g
    flat = extents[0], -1
    expected = Expected(exact.reshape(flat), scale.reshape(flat), on.dtype, own=1, wide=extents[3])
    kernel = KERNELS["put_places"](rect, *extents, on.dtype, accumulate, has_base)
    return Case(kernel, {"g": g, "places": places} | ({"base": base} if has_base else {}), {"y": expected})


def random_uniform(on: Draw) -> Case:
    """The host's numbers, to the last bit, of seeds of any size."""
    rect, rows, columns, call = on.rect(), on.extent(), on.extent(), on.draw(st.integers(0, 2**20))
    state = on.random.integers(-(2**63), 2**63, 2)
    exact = OPS["random_uniform"].eval(state, call=call, type=Type((rows, columns), dtype_by_name(on.dtype)))
    return Case(
        KERNELS["random_uniform"](rect, rows, columns, call, on.dtype),
        {"state": state_limbs(state)},
        {"y": Expected(exact, 0, on.dtype)},
    )


def add_counters(on: Draw) -> Case:
    a, b = on.random.integers(-(2**63), 2**63, (2, on.extent()))
    return Case(
        KERNELS["add_counters"](on.rect(), len(a)),
        {"a": limbs_of(a), "b": limbs_of(b)},
        {"c": Expected(limbs_of(a + b), 0, "float32")},
    )


def sgd_momentum(on: Draw) -> Case:
    rect, rows, columns = on.rect(), on.extent(), on.extent()
    weight, gradient = on.numbers(rows, columns), on.numbers(rows, columns)
    velocity = on.numbers(rows, columns, dtype="float32")
    w, g, v = wide(weight, gradient, velocity)
    momentum, rate = on.number(0.9), on.number(0.1)
    sizes = momentum * np.abs(v) + np.abs(g)
    after = momentum * v + g
    return Case(
        KERNELS["sgd_momentum"](rect, rows, columns, on.dtype),
        {"weight": weight, "gradient": gradient, "velocity": velocity},
        {
            "velocity": Expected(after, sizes, "float32", own=1),
            "weight": Expected(w - rate * after, np.abs(w) + rate * sizes, on.dtype, own=1, wide=2),
        },
    )


def adam(on: Draw) -> Case:
    """The second moment is at least 1, so that the change is no larger than some rates."""
    rect, rows, columns = on.rect(), on.extent(), on.extent()
    step = on.draw(st.integers(1, 9))
    weight, gradient = on.numbers(rows, columns), on.numbers(rows, columns)
    first, second = on.numbers(rows, columns, dtype="float32"), 1 + on.numbers(rows, columns, dtype="float32") ** 2
    w, g, m, v = wide(weight, gradient, first, second)
    m, v = on.number(0.9) * m + on.number(0.1) * g, on.number(0.999) * v + on.number(0.001) * g * g
    change = on.number(1e-3 / (1 - 0.9**step)) * m / np.sqrt(v * on.number(1 / (1 - 0.999**step)))
    sizes = 0.9 * np.abs(first) + 0.1 * np.abs(g)
    return Case(
        KERNELS["adam"](rect, rows, columns, on.dtype, step=step),
        {"weight": weight, "gradient": gradient, "first": first, "second": second},
        {
            "first": Expected(m, sizes, "float32", own=2),
            "second": Expected(v, v, "float32", own=3),
            "weight": Expected(w - change, np.abs(w) + np.abs(change) + 0.01 * sizes, on.dtype, own=1, wide=8),
        },
    )


def star(on: Draw) -> Case:
    """7 or 25 points: with every distance six terms come to the sum, by five sums and a multiply-add."""
    rect, cells, radius = on.rect(), on.extent(), on.draw(st.sampled_from([1, 4]))
    weights = tuple(on.numbers(radius + 1).tolist())
    u = on.numbers(rect.height, rect.width, cells)
    padded = np.pad(u.astype(np.float64), radius)
    inner = (slice(radius, -radius),) * 3
    exact, scale = weights[0] * padded, abs(weights[0]) * np.abs(padded)
    for d in range(1, radius + 1):
        for axis in range(3):
            for hop in (-d, d):
                exact = exact + weights[d] * np.roll(padded, hop, axis)
                scale = scale + abs(weights[d]) * np.abs(np.roll(padded, hop, axis))
    shape = rect.height, rect.width * cells
    expected = Expected(exact[inner].reshape(shape), scale[inner].reshape(shape), on.dtype, own=1 + 4 * radius)
    return Case(KERNELS["star"](rect, cells, weights, on.dtype), {"u": u}, {"v": expected})


def bicgstab(on: Draw) -> Case:
    """One iteration from zero, which solves three cells or more not to the end.

    The matrix is within 0.6 of 1, so no sum of products is less than a quarter of its terms.
    """
    rect, cells = on.rect(), 2 + on.extent()
    shape = rect.height, rect.width, cells
    b = on.numbers(*shape)
    factors = [round_values(-0.1 * on.random.random(shape).astype(np.float32), on.dtype) for _ in NEIGHBOURS]
    x, r = one_iteration(b.astype(np.float64), wide(*factors))
    many = 8 * (cells + rect.width + rect.height)
    flat = rect.height, rect.width * cells
    return Case(
        KERNELS["bicgstab"](rect, cells, 1, on.dtype),
        {"b": b, **dict(zip(NEIGHBOURS, factors, strict=True))},
        {
            name: Expected(exact.reshape(flat), np.abs(b).max(), on.dtype, own=8, wide=many)
            for name, exact in (("x", x), ("r", r))
        },
    )


def one_iteration(b: np.ndarray, factors: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """x and r of BiCGSTAB after an iteration from zero."""
    v = stencil_product(b, factors)
    alpha = (b * b).sum() / (b * v).sum()
    s = b - alpha * v
    t = stencil_product(s, factors)
    omega = (t * s).sum() / (t * t).sum()
    return alpha * b + omega * s, s - omega * t


def stencil_product(u: np.ndarray, factors: list[np.ndarray]) -> np.ndarray:
    """The matrix of a 7-point stencil with factors for west, east, north, south, above and below, times u."""
    padded, inner = np.pad(u, 1), slice(1, -1)
    total = u
    for factor, (axis, hop) in zip(factors, [(1, 1), (1, -1), (0, 1), (0, -1), (2, 1), (2, -1)], strict=True):
        total = total + factor * np.roll(padded, hop, axis)[inner, inner, inner]
    return total


def convolution(on: Draw) -> Case:
    """Terms are the pixels of a window, in all channels; those outside of the image are zeros."""
    rect, radius = on.rect(), on.draw(st.integers(0, 2))
    channels, outputs = on.draw(st.integers(1, 3)), on.draw(st.integers(1, 3))
    height, width = (pes * on.draw(st.integers(max(1, radius), 4)) for pes in (rect.height, rect.width))
    window = 2 * radius + 1
    x, weights = on.numbers(height, width, channels), on.numbers(window, window, channels, outputs)
    padded, w = np.pad(x.astype(np.float64), [(radius, radius)] * 2 + [(0, 0)]), weights.astype(np.float64)
    seen = np.lib.stride_tricks.sliding_window_view(padded, (window, window), (0, 1))
    exact, scale = (np.einsum("ijcyx,yxco->ijo", s, v) for s, v in ((seen, w), (np.abs(seen), np.abs(w))))
    flat = height, width * outputs
    expected = Expected(exact.reshape(flat), scale.reshape(flat), on.dtype, own=window * window * channels)
    return Case(
        KERNELS["convolution"](rect, height, width, channels, outputs, radius, on.dtype),
        {"x": x, "weights": weights},
        {"y": expected},
    )


ROWS: dict[str, Row] = {
    "gemv": gemv,
    **{name: product(name) for name in ("summa", "cannon", "two_hop", "weight_gradient", "input_gradient")},
    "linear_step": linear_step,
    "operand_in_place": operand_in_place,
    "result_in_place": result_in_place,
    "streamed_product": streamed_product,
    "softmax": softmax,
    "softmax_cross_entropy": softmax_cross_entropy,
    "layer_norm": layer_norm,
    "bias_relu": bias_relu,
    "bias_gelu": bias_gelu,
    "embedding": embedding,
    "embedding_gradient": embedding_gradient,
    "at_places": at_places,
    "put_places": put_places,
    "random_uniform": random_uniform,
    "add_counters": add_counters,
    "sgd_momentum": sgd_momentum,
    "adam": adam,
    "star": star,
    "spmm": spmm,
    "bicgstab": bicgstab,
    "convolution": convolution,
    **WINDOW_ROWS,
    **ATTENTION_ROWS,
    **NORM_ROWS,
}


LONG = {"random_uniform"}
"""Kernels of thousands of instructions, whatever their extents are."""


@st.composite
def cases(draw, name: str, dtype: str = "") -> Case:
    return ROWS[name](Draw(draw, dtype or draw(st.sampled_from(DTYPES))))
