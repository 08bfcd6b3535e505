"""Loss scaling: gradients in half precision are kept away from underflow, steps that overflowed are taken back."""

import itertools
from collections.abc import Iterable
from typing import Any

from cstorch_compat.cerebras.pytorch.amp.skipped_steps import (
    gradients,
    has_scaler,
    is_finite_norm,
    squared_norm,
    step_where,
)
from cstorch_compat.run import process
from lazytensor.core import storage
from lazytensor.core.dtype import float32, int64
from lazytensor.core.tensor import Tensor, grad_mode
from lazytensor.functional import pointwise as pw
from lazytensor.functional.creation import tensor

# Powers of two alone, so that scaling and unscaling change exponents and round nothing.
INIT_SCALE = 2.0**15
LARGEST_SCALE = 2.0**15
SMALLEST_SCALE = 2.0**-14
STEPS_PER_INCREASE = 2000
"""The defaults of release 2.10. The smallest scale is the smallest normal float16."""
# That of PyTorch's clip_grad_norm_.
NORM_EPS = 1e-6

# Each scaler of a run has state of its own, whose names count up.
_numbers = process.RunLocal(itertools.count)


class GradScaler:
    """Scales the loss by a constant, or by a power of two that follows overflows if loss_scale is "dynamic".

    The CPU backend computes in single precision: there `scale` gives the loss back and gradients stay as they are.
    Raises ValueError for scales that make no sense, RuntimeError without a backend or for calls out of order.
    """

    def __init__(
        self,
        loss_scale: str | float | None = None,
        init_scale: float | None = None,
        steps_per_increase: int | None = None,
        min_loss_scale: float | None = None,
        max_loss_scale: float | None = None,
        overflow_tolerance: float = 0.0,
        max_gradient_norm: float | None = None,
    ):
        process.current_backend()
        has_scaler.value = True
        self.dynamic = loss_scale == "dynamic"
        # Until a loss was seen, gradients are taken to be scaled: a script may scale them itself.
        self._scale_is_applied = True
        self._tolerance, self._max_norm = overflow_tolerance, max_gradient_norm
        self._steps_per_increase = steps_per_increase or STEPS_PER_INCREASE
        self._largest, self._smallest = max_loss_scale or LARGEST_SCALE, min_loss_scale or SMALLEST_SCALE
        # Below the smallest normal float16 the factor itself would lose bits, or be flushed to zero.
        if self._smallest < SMALLEST_SCALE:
            raise ValueError("min_loss_scale too small")
        # float() refuses any text but "dynamic" with Python's own words, which are what the original answers.
        self._fixed = 1.0 if not loss_scale or self.dynamic else float(loss_scale)
        self._stepped: list[Any] = []
        self._unscaled: list[Any] = []
        self._finite: Tensor | None = None
        self._squared: dict[int, Tensor] = {}
        self._raw: Tensor | None = None
        self._state = self._new_state(init_scale or INIT_SCALE) if self.dynamic else {}

    def _new_state(self, scale: float) -> dict[str, Tensor]:
        state = {"loss_scale": tensor(scale, dtype=float32)}
        # The names stand in checkpoints.
        for name in ("steps_since_rescale", "overflows_since_rescale", "num_skipped_steps"):
            state[name] = tensor(0, dtype=int64)
        number = next(_numbers.value)
        for name, value in state.items():
            value.device = process.state_device()
            storage.register(value.cell, f"grad_scaler.{number}.{name}")
        return state

    def get_scale(self) -> Tensor | float:
        """The factor of the next loss: a tensor if it is dynamic."""
        return self._state["loss_scale"] if self.dynamic else self._fixed

    def get_non_clamped_scale(self) -> Tensor | float:
        """The factor as the last update computed it, before its bounds were applied."""
        return self.get_scale() if self._raw is None else self._raw

    def get_num_skipped_steps(self) -> Tensor:
        """How many steps were taken back."""
        return self._state["num_skipped_steps"] if self.dynamic else tensor(0)

    def scale(self, loss: Any) -> Any:
        """The scaled loss; on the CPU backend the loss itself."""
        # Asked at each loss and not once: `unscale_` has to follow what was done to this loss.
        self._scale_is_applied = process.use_cs()
        if not self._scale_is_applied or self._has_no_effect:
            return loss
        # The dynamic factor is state of the run, so a step that is traced once follows it.
        # In float32: a loss of a half type could overflow by the very factor.
        return loss.float() * (self._state["loss_scale"] if self.dynamic else self._fixed)

    @property
    def _has_no_effect(self) -> bool:
        return not self.dynamic and self._fixed == 1.0

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients by the scale, once before a step. Raises RuntimeError after the step."""
        # The order of calls and both sentences are the original's.
        if optimizer in self._stepped:
            raise RuntimeError("unscale_() is being called after step().")
        if optimizer in self._unscaled:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        self._unscaled.append(optimizer)
        if not self._scale_is_applied or self._has_no_effect:
            return
        with grad_mode(False):
            # The reciprocal once, then products: exact for powers of two, and one division in place of one for each
            # element.
            factor = tensor(1.0) / self._state["loss_scale"] if self.dynamic else 1.0 / self._fixed
            grads = gradients(optimizer)
            for g in grads:
                g.mul_(factor)
            # Asked here already: what the script clips afterwards has no part in whether the step counts.
            if self.dynamic:
                self._squared[id(optimizer)] = squared_norm(grads)

    def clip_gradients_and_return_isfinite(self, optimizers: Iterable[Any]) -> Tensor:
        """Whether the global norm is finite; gradients of a larger norm than max_gradient_norm are shrunk to it."""
        with grad_mode(False):
            optimizers = list(optimizers)
            grads = [g for o in optimizers for g in gradients(o)]
            # One norm serves both questions, whether to clip and whether to take back.
            known = [self._squared.pop(id(o), None) for o in optimizers]
            squared = known[0] if len(known) == 1 and known[0] is not None else squared_norm(grads)
            if self._max_norm is not None and self._max_norm > 0:
                norm = pw.sqrt(squared) + NORM_EPS
                # Never above 1: gradients are shrunk, not stretched. An infinite norm gives 0 and NaN elements, and
                # then the step is taken back.
                factor = pw.minimum(self._max_norm / norm, tensor(1.0))
                for g in grads:
                    g.mul_(factor)
            return is_finite_norm(squared)

    def step_if_finite(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the step, and take it back where gradients are not finite; a fixed scale never takes back."""
        self._finite = self.clip_gradients_and_return_isfinite([optimizer])
        # A fixed scale is the user's own word; the original clips with it and steps whatever comes.
        if not self.dynamic:
            return optimizer.step(*args, **kwargs)
        return step_where(self._finite, optimizer, *args, **kwargs)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale if that was not done, then run the step. Raises RuntimeError for a second one before `update`."""
        if optimizer in self._stepped:
            raise RuntimeError("step() has already been called since the last update().")
        if optimizer not in self._unscaled:
            self.unscale_(optimizer)
        self._stepped.append(optimizer)
        # Nothing to clip and nothing to take back: the norm is not computed at all, which keeps it out of the graph.
        if self._max_norm is None and not self.dynamic:
            return optimizer.step(*args, **kwargs)
        return self.step_if_finite(optimizer, *args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """Adapt the scale to what the step found. Raises ValueError for a scale from outside."""
        if new_scale is not None:
            raise ValueError("cstorch.amp.GradScaler does not support providing a `new_scale`")
        # Emptied first, so that a failure below does not leave the scaler refusing every later step.
        optimizers, self._stepped, self._unscaled = self._stepped, [], []
        if self.dynamic:
            self.update_scale(optimizers)
        self._squared.clear()

    def update_scale(self, optimizers: Any) -> None:
        """Halve the scale if overflows exceed the tolerated share of steps; double it after long peace.

        steps counts every step since the last change, and peace is more than `steps_per_increase` of them.
        """
        # update() without a step of ours: a script that calls the optimizer itself.
        if self._finite is None:
            self._finite = self.clip_gradients_and_return_isfinite(optimizers)
        with grad_mode(False):
            # Whole numbers 0 and 1 stand for the conditions and are multiplied, since a traced step has no branches.
            state, bad = self._state, pw.rsub(pw.cast_to(self._finite, int64), 1)
            state["num_skipped_steps"].add_(bad)
            steps = state["steps_since_rescale"] + 1
            overflows = state["overflows_since_rescale"] + bad
            # The share of overflows since the last change. With the default tolerance of 0 (0.05 in older releases)
            # every overflow halves the scale at once.
            share = pw.cast_to(overflows, float32) / pw.cast_to(steps, float32)
            down = pw.cast_to(tensor(self._tolerance) < share, int64)
            kept = pw.rsub(down, 1)
            # A change down starts the count anew, so that up and down never meet in one step.
            steps = steps * kept
            up = pw.cast_to(tensor(self._steps_per_increase) < steps, int64)
            level = pw.rsub(up, 1)
            lower = state["loss_scale"] / pw.cast_to(down + 1, float32)
            # Before the bounds: a scale that would go on falling tells of a model that diverges.
            self._raw = lower * pw.cast_to(up + 1, float32)
            state["loss_scale"].write(pw.clamp(self._raw, self._smallest, self._largest).node)
            state["steps_since_rescale"].write((steps * level).node)
            state["overflows_since_rescale"].write((overflows * kept * level).node)
        self._finite = None

    def state_dict(self, destination: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
        """The scale and its counters; empty for a fixed scale and on the CPU backend."""
        state = {} if destination is None else destination
        # On the CPU backend the original has a dynamic scaler too, and its state dict is empty.
        if process.use_cs():
            state.update(self._state)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a scale and counters. Raises KeyError if some are missing."""
        # State of a wafer run is skipped on the CPU, so that its checkpoints load there; theirs is empty.
        if not self.dynamic or not process.use_cs() or not state_dict:
            return
        with grad_mode(False):
            for name, mine in self._state.items():
                mine.copy_(state_dict[name])
