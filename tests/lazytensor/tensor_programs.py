"""Random programs over tensors, as data: a list of steps that any interpreter can follow."""

import math
from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor import Tensor
from lazytensor.nn import functional as F

Step = tuple[str, int, int, int]
"""A name, which operands (modulo what there is), and one more choice."""

numbers = st.integers(0, 99)


def _bounded(x: Tensor) -> Tensor:
    return lt.tanh(x)


def _fit(a: Tensor, b: Tensor) -> Tensor:
    """Something made of b that broadcasts with a."""
    return b if b.shape == a.shape else b.mean()


SMOOTH: dict[str, Callable[[Tensor, Tensor, int], Tensor]] = {
    "add": lambda a, b, k: a + _fit(a, b),
    "sub": lambda a, b, k: _fit(a, b) - a,
    "mul": lambda a, b, k: _bounded(a) * _fit(a, b),
    "div": lambda a, b, k: a / (1.5 + _bounded(_fit(a, b))),
    "exp": lambda a, b, k: lt.exp(_bounded(a)),
    "sin": lambda a, b, k: lt.sin(a),
    "sigmoid": lambda a, b, k: lt.sigmoid(a) ** 2,
    "gelu": lambda a, b, k: F.gelu(a, approximate=("none", "tanh")[k % 2]),
    "softplus": lambda a, b, k: F.softplus(a),
    "softmax": lambda a, b, k: F.softmax(a, k % a.ndim) if a.ndim else a,
    "logsumexp": lambda a, b, k: lt.logsumexp(a, k % a.ndim, keepdim=True) if a.ndim else a,
    "mean": lambda a, b, k: a.mean(k % a.ndim, keepdim=k % 3 == 0) if a.ndim else a,
    "sum": lambda a, b, k: _bounded(a.sum(k % a.ndim)) if a.ndim else a,
    "var": lambda a, b, k: a.var() if a.numel() > 1 else a,
    "select": lambda a, b, k: a[k % a.shape[0]] if a.ndim else a,
    "slice": lambda a, b, k: a[k % 2 :: 2] if a.ndim and a.shape[0] > 1 else a,
    "transpose": lambda a, b, k: a.transpose(0, -1) if a.ndim else a,
    "flatten": lambda a, b, k: a.reshape(-1),
    "expand": lambda a, b, k: a.unsqueeze(0).expand(2, *a.shape) if a.numel() < 40 else a,
    "cat": lambda a, b, k: lt.cat([a, a.sin()], k % a.ndim) if a.ndim and a.numel() < 40 else a,
    "product": lambda a, b, k: _bounded(a.reshape(1, -1) @ a.reshape(-1, 1)),
    "outer": lambda a, b, k: _bounded(a.reshape(-1)[:3].unsqueeze(1) @ b.reshape(-1)[:3].unsqueeze(0)),
    "where": lambda a, b, k: lt.where(a.detach() > 5, _bounded(a), a * 0.5),
    "detach": lambda a, b, k: a.detach().sin() * 0 + a,
}


def smooth_programs(most: int = 8) -> st.SearchStrategy[list[Step]]:
    """Steps whose results are smooth functions of their operands."""
    step = st.tuples(st.sampled_from(sorted(SMOOTH)), numbers, numbers, numbers)
    return st.lists(step, min_size=1, max_size=most)


def follow(program: list[Step], given: list[Tensor]) -> Tensor:
    """The sum of everything that a smooth program makes of the given tensors, and of the cubes of the first."""
    pool = list(given)
    for name, i, j, k in program:
        pool.append(SMOOTH[name](pool[-1 - i % len(pool)], pool[j % len(pool)], k))
    return sum(
        (math.cos(n) * x.sum() for n, x in enumerate(pool[len(given) :])), (given[0] * given[0] * given[0]).sum()
    )


ALIASING = """reshape flatten permute slice select unsqueeze expand detach
    fill add mul copy setitem compute clone""".split()


def alias_programs(most: int = 12) -> st.SearchStrategy[list[Step]]:
    """Steps that make views of views, write through any of them, and compute new tensors from what they see."""
    return st.lists(st.tuples(st.sampled_from(ALIASING), numbers, numbers, numbers), min_size=3, max_size=most)


def _another_shape(shape: tuple[int, ...], k: int) -> tuple[int, ...]:
    size = math.prod(shape)
    divisors = [d for d in range(1, size + 1) if size % d == 0] or [1]
    d = divisors[k % len(divisors)]
    return ((size,), (1, *shape), shape[::-1], (d, size // d) if size else (0, 3))[k % 4]


def _part(shape: tuple[int, ...], j: int, k: int) -> tuple[slice, ...]:
    """Every second or third place, say, of one dimension; at least one."""
    d, extent = j % len(shape), shape[j % len(shape)]
    start = k % extent
    return (*[slice(None)] * d, slice(start, max(start + 1, extent - k % 2), 1 + j % 3))


def alias_step(pool: list, can_write: list[bool], step: Step, is_numpy: bool) -> None:
    """Do one step on NumPy arrays or tensors; `can_write` tells which of the pool are no expanded views."""
    name, i, j, k = step
    i %= len(pool)
    x, other = pool[i], pool[j % len(pool)]
    if tuple(other.shape) != tuple(x.shape):
        other = 3.0
    made = _seen(name, x, j, k, is_numpy)
    if name == "compute":
        made = x * 2 - other
        # What is computed lies in order here; NumPy and PyTorch keep the order of a permuted operand.
        made = made.copy(order="C") if is_numpy else made
    elif name == "clone":
        made = x.copy() if is_numpy else x.clone()
    elif made is None and can_write[i]:
        _write_step(name, x, other, j, k, is_numpy)
    if made is not None:
        pool.append(np.asarray(made) if is_numpy else made)


def _seen(name: str, x, j: int, k: int, is_numpy: bool):
    """A view of x, or None if the step asks for none or there is none."""
    shape = tuple(x.shape)
    order = [(d + k) % len(shape) for d in range(len(shape))]
    views = {
        "reshape": lambda: x.reshape(_another_shape(shape, k)),
        "flatten": lambda: x.reshape(-1) if is_numpy else x.flatten(),
        "permute": lambda: x.transpose(order) if is_numpy else x.permute(order),
        "slice": lambda: x[_part(shape, j, k)] if shape else None,
        "select": lambda: x[k % shape[0], ...] if shape and shape[0] else None,
        "unsqueeze": lambda: x[None] if is_numpy else x.unsqueeze(0),
        "expand": lambda: np.broadcast_to(x, (2, *shape)) if is_numpy else x.expand(2, *shape),
        "detach": lambda: x.view() if is_numpy else x.detach(),
    }
    return views[name]() if name in views and (name != "expand" or math.prod(shape) < 50) else None


def _write_step(name: str, x, other, j: int, k: int, is_numpy: bool) -> None:
    if name == "fill":
        x.fill(k) if is_numpy else x.fill_(k)
    elif name == "add":
        x += other
    elif name == "mul":
        np.multiply(x, -1, out=x) if is_numpy else x.mul_(-1)
    elif name == "copy":
        np.copyto(x, other) if is_numpy else x.copy_(other)
    elif name == "setitem" and x.shape:
        x[_part(tuple(x.shape), j, k)] = 7
