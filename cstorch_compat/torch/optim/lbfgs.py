"""The optimizer `torch.optim.LBFGS`: limited-memory BFGS.

The method is that of Liu and Nocedal (1989). Defaults, first step and stopping criteria match PyTorch's observed
results. The line search `strong_wolfe` follows Nocedal and Wright, Numerical Optimization, algorithms 3.5 and 3.6, with
cubic interpolation. It computes with NumPy on values, as other optimizers for eager loops.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lazytensor.core import source, storage
from lazytensor.core.tensor import Tensor, from_array, grad_mode
from lazytensor.errors import OptionInvalid, ShapeError, TraceError
from lazytensor.ir.graph import leaf
from lazytensor.ir.types import Type
from lazytensor.optim.eager import Optimizer
from lazytensor.optim.eager.eager_optimizer import Params

MIN_CURVATURE = 1e-10
"""The minimum product of step and gradient change for a pair to be kept in the history."""
STATE_KEYS = ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")
"""The state that a step leaves for the next one, in the order of PyTorch's state dicts."""
Evaluation = tuple[float, np.ndarray]
"""The type of a loss with its gradient."""


class LBFGS(Optimizer):
    """The L-BFGS optimizer. Each step calls the closure several times. The parameters are those of `torch.optim.LBFGS`.

    Raises ValueError for a negative learning rate, and for more than one parameter group.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if not isinstance(lr, Tensor) and not lr >= 0.0:
            raise OptionInvalid(
                f"Invalid learning rate: {lr}", where=source.where(), hint="Pass a learning rate of at least 0."
            )
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise OptionInvalid(
                "LBFGS doesn't support per-parameter options (parameter groups)",
                where=source.where(),
                hint="Pass one list of parameters.",
            )
        self._params: list[Tensor] = self.param_groups[0]["params"]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Run up to `max_iter` iterations, and return the loss of the first evaluation.

        Raises RuntimeError if `closure` is None, and TraceError inside a traced step.
        """
        if closure is None:
            raise ShapeError(
                "LBFGS needs a closure that computes the loss and its gradients",
                where=source.where(),
                hint="Call step(closure).",
            )
        if storage.thread_state.current is not None:
            what = "torch.optim.LBFGS cannot run inside a traced step, because it reads values of tensors"
            raise TraceError(what, hint="Use another optimizer in traced steps.")
        memory: dict[str, Any] = self.state[self._params[0]]
        search = _LBFGSStep(self, closure, memory)
        first = search.evaluate()
        search.run()
        self.steps_taken += 1
        return first

    def flat_gradient(self) -> np.ndarray:
        """Return the gradients of all parameters as one vector, with zeros for missing gradients."""
        parts = [
            np.zeros(p.spec.size, p.dtype.host) if p.grad is None else p.grad.array().reshape(-1) for p in self._params
        ]
        return np.concatenate(parts)

    def positions(self) -> list[np.ndarray]:
        """Return the values of the parameters."""
        return [p.array() for p in self._params]

    def move(self, origin: list[np.ndarray], t: float, direction: np.ndarray) -> None:
        """Set the parameters to `origin` + t * `direction`, in place and without gradients.

        `origin` has one array for each parameter; `direction` is one vector for all parameters, in this order.
        """
        at = 0
        with grad_mode(False):
            for p, before in zip(self._params, origin, strict=True):
                part = direction[at : at + before.size].reshape(before.shape)
                moved = (before + before.dtype.type(t) * part).astype(p.dtype.host)
                p.write(leaf(moved, Type(moved.shape, p.dtype)))
                at += before.size


class _LBFGSStep:
    """The computation of one call of `step`: the current loss and gradient, and the state kept between calls."""

    def __init__(self, optimizer: LBFGS, closure: Callable[[], Any], memory: dict[str, Any]) -> None:
        self.optimizer, self.closure = optimizer, closure
        self.group = optimizer.param_groups[0]
        memory.setdefault("func_evals", 0)
        memory.setdefault("n_iter", 0)
        self.state, self.memory = memory, dict(memory)
        self.evaluations, self.loss, self.gradient = 0, math.inf, np.zeros(0)

    def evaluate(self) -> Any:
        """Call the closure with gradients enabled, store its loss and gradient, and return its result.

        The counts of evaluations of this step and of the run are incremented.
        """
        with grad_mode(True):
            answer = self.closure()
        self.loss, self.gradient = float(answer), self.optimizer.flat_gradient()
        self.evaluations += 1
        self.state["func_evals"] += 1
        return answer

    def is_flat(self) -> bool:
        """Return whether all gradient elements are within `tolerance_grad` of zero."""
        return bool(np.abs(self.gradient).max() <= self.group["tolerance_grad"])

    def run(self) -> None:
        """Iterate until a stopping criterion is met, and store the state for the next step.

        Do nothing if the gradient is already below the tolerance.
        """
        if self.is_flat():
            return
        self._iterate()
        self.state.update({name: self.memory[name] for name in STATE_KEYS})

    def _iterate(self) -> None:
        """Run iterations of direction, step and evaluation until a stopping criterion is met."""
        group, memory = self.group, self.memory
        for iteration in range(1, group["max_iter"] + 1):
            self.state["n_iter"] += 1
            direction = self._direction()
            before, g = self.loss, self.gradient
            # Written in place, as in PyTorch, so that a state dict taken before shows the change.
            if "prev_flat_grad" in memory:
                with grad_mode(False):
                    memory["prev_flat_grad"].copy_(_array_to_tensor(g))
            else:
                memory["prev_flat_grad"] = _array_to_tensor(g)
            memory["prev_loss"] = before
            # The first step has no curvature information, so its length is limited to 1 / sum(|gradient|).
            first = self.state["n_iter"] == 1
            t = min(1.0, 1.0 / float(np.abs(g).sum())) * group["lr"] if first else group["lr"]
            slope = float(g @ direction)
            memory["d"], memory["t"] = (
                _array_to_tensor(direction),
                _scalar_tensor(t, g) if first and t < group["lr"] else t,
            )
            if slope > -group["tolerance_change"]:
                return
            moved = self._advance(t, direction, slope, iteration == group["max_iter"])
            if moved != t:
                t = memory["t"] = moved
            if self._is_over(t, direction, before, iteration):
                return

    def _is_over(self, t: float, direction: np.ndarray, before: float, iteration: int) -> bool:
        """Return whether a stopping criterion is met: iterations, evaluations, gradient, step size or loss change."""
        tolerance = self.group["tolerance_change"]
        return bool(
            iteration == self.group["max_iter"]
            or self.evaluations >= self.group["max_eval"]
            or self.is_flat()
            or np.abs(direction * t).max() <= tolerance
            or abs(self.loss - before) < tolerance
        )

    def _direction(self) -> np.ndarray:
        """Return the search direction: minus the product of the inverse Hessian approximation and the gradient.

        In the first iteration it is minus the gradient, and the stored pairs are cleared. Later the last step is stored
        as a pair for the approximation, unless its curvature is too small; the oldest pair beyond `history_size` is
        dropped.
        """
        memory, g = self.memory, self.gradient
        if self.state["n_iter"] == 1:
            memory.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return -g
        y, s = g - memory["prev_flat_grad"].array(), memory["d"].array() * g.dtype.type(float(memory["t"]))
        # Pairs without positive curvature could give an ascent direction.
        product = float(y @ s)
        if product > MIN_CURVATURE:
            full = len(memory["old_dirs"]) == self.group["history_size"]
            for name, value in (
                ("old_dirs", _array_to_tensor(y)),
                ("old_stps", _array_to_tensor(s)),
                ("ro", _scalar_tensor(1.0 / product, g)),
            ):
                memory[name] = [*memory[name][1 if full else 0 :], value]
            memory["H_diag"] = _scalar_tensor(product / float(y @ y), g)
        # The two-loop recursion: from the newest to the oldest pair, and back.
        pairs = [
            (a.array(), b.array(), float(r))
            for a, b, r in zip(*(memory[n] for n in ("old_dirs", "old_stps", "ro")), strict=True)
        ]
        # The inverse Hessian approximation is represented by a few vectors.
        q, weights = -g, []
        for change, step, ro in reversed(pairs):
            weights.append(float(step @ q) * ro)
            q = q - g.dtype.type(weights[-1]) * change
        r: np.ndarray = q * g.dtype.type(float(memory["H_diag"]))
        weights_of_pairs = self.state.setdefault("al", [None] * self.group["history_size"])
        weights_of_pairs[: len(weights)] = [_scalar_tensor(weight, g) for weight in reversed(weights)]
        for (change, step, ro), weight in zip(pairs, reversed(weights), strict=True):
            r = r + step * g.dtype.type(weight - float(change @ r) * ro)
        return r

    def _advance(self, t: float, direction: np.ndarray, slope: float, is_last: bool) -> float:
        """Move the parameters along `direction`, evaluate the closure there, and return the step length.

        With a line search it is the length that the search finds, else `t`. After the last fixed step (`is_last`)
        nothing is evaluated. Raises RuntimeError for another line search than "strong_wolfe".
        """
        # The origin is kept, because a line search evaluates several points from it.
        origin = self.optimizer.positions()
        if self.group["line_search_fn"] is None:
            self.optimizer.move(origin, t, direction)
            # The loss after the last step is not needed.
            if not is_last:
                self.evaluate()
            return t
        if self.group["line_search_fn"] != "strong_wolfe":
            raise ShapeError(
                "only 'strong_wolfe' is supported",
                where=source.where(),
                hint='Pass line_search_fn="strong_wolfe" or None.',
            )

        def at(length: float) -> Evaluation:
            self.optimizer.move(origin, length, direction)
            self.evaluate()
            return self.loss, self.gradient

        t, (self.loss, self.gradient) = strong_wolfe(at, t, direction, (self.loss, self.gradient), slope)
        self.optimizer.move(origin, t, direction)
        return t


def _scalar_tensor(value: float, like: np.ndarray) -> Tensor:
    return from_array(np.asarray(value, like.dtype))


def _array_to_tensor(array: np.ndarray) -> Tensor:
    # Stored as a tensor, because state dicts are saved.
    return from_array(array)


def cubic_minimum(a: tuple[float, float, float], b: tuple[float, float, float], low: float, high: float) -> float:
    """Return the minimizer of the cubic through two points (position, value, slope), clamped to low..high.

    Returns the midpoint if there is no minimum. Source: Nocedal and Wright, Numerical Optimization, equation 3.59.
    """
    (x1, f1, g1), (x2, f2, g2) = sorted((a, b))
    if x1 == x2:
        return (low + high) / 2
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 * d1 - g1 * g2
    if not square >= 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    return min(max(x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2)), low), high)


def strong_wolfe(
    at: Callable[[float], Evaluation],
    t: float,
    direction: np.ndarray,
    start: Evaluation,
    slope: float,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance: float = 1e-9,
    most: int = 25,
) -> tuple[float, Evaluation]:
    """Return a step length that satisfies the strong Wolfe conditions, with the loss and gradient there.

    - `at`: a function from a step length to the loss and gradient.
    - `t`: the initial step length.
    - `start`, `slope`: the loss, gradient and directional derivative at length 0.
    - `c1`, `c2`: the constants of the conditions for decrease and curvature.
    - `tolerance`: the minimum change of a parameter.
    - `most`: the maximum number of evaluations after the first.
    """
    widest = float(np.abs(direction).max())

    def point(length: float, e: Evaluation) -> tuple[float, float, float]:
        return length, e[0], float(e[1] @ direction)

    points: dict[float, Evaluation] = {0.0: start}
    here = points[t] = at(t)
    before, now = (0.0, start[0], slope), point(t, here)
    bracket: list[tuple[float, float, float]] = []
    steps = 0
    # Increase the length until two points bracket a minimum.
    while steps < most:
        if now[1] > start[0] + c1 * now[0] * slope or (steps > 0 and now[1] >= before[1]):
            bracket = [before, now]
            break
        if abs(now[2]) <= -c2 * slope:
            return now[0], points[now[0]]
        if now[2] >= 0:
            bracket = [before, now]
            break
        length = cubic_minimum(before, now, now[0] + 0.01 * (now[0] - before[0]), now[0] * 10)
        before = now
        points[length] = at(length)
        now = point(length, points[length])
        steps += 1
    if not bracket:
        bracket = [(0.0, start[0], slope), now]
    best = _zoom(bracket, points, at, point, (start[0], slope, c1, c2), tolerance / widest, most - steps)
    return best, points[best]


def _zoom(
    bracket: list[tuple[float, float, float]],
    points: dict[float, Evaluation],
    at: Callable[[float], Evaluation],
    point: Callable[[float, Evaluation], tuple[float, float, float]],
    wolfe: tuple[float, float, float, float],
    narrowest: float,
    most: int,
) -> float:
    """Return the best length in a bracket, which shrinks in each iteration.

    Its point with the lower loss comes first.
    """
    value, slope, c1, c2 = wolfe
    low, high = sorted(bracket, key=lambda p: p[1])
    was_near = False
    for _ in range(most):
        left, right = min(low[0], high[0]), max(low[0], high[0])
        if right - left < narrowest:
            break
        t = cubic_minimum(low, high, left, right)
        # A step has to be at least a tenth of the bracket away from its ends.
        margin = 0.1 * (right - left)
        # A step close to one end twice in a row, or outside, would shrink the bracket too little.
        is_near = min(right - t, t - left) < margin
        if is_near and (was_near or t >= right or t <= left):
            t, is_near = (right - margin if abs(t - right) < abs(t - left) else left + margin), False
        was_near = is_near
        points[t] = at(t)
        now = point(t, points[t])
        if now[1] > value + c1 * t * slope or now[1] >= low[1]:
            low, high = sorted((low, now), key=lambda p: p[1])
            continue
        if abs(now[2]) <= -c2 * slope:
            return t
        if now[2] * (high[0] - low[0]) >= 0:
            high = low
        low = now
    return low[0]
