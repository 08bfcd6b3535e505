"""Loss scaling: keep half-precision gradients from underflow, and undo optimizer steps whose gradients overflowed."""

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

# All scales are powers of two, so that scaling and unscaling change only exponents and round nothing.
INIT_SCALE = 2.0**15
LARGEST_SCALE = 2.0**15
SMALLEST_SCALE = 2.0**-14
STEPS_PER_INCREASE = 2000
"""The defaults of release 2.10. The smallest scale is the smallest normal float16 number."""
# The value that PyTorch's clip_grad_norm_ adds to the norm.
NORM_EPS = 1e-6

# The index of the next dynamic scaler of the run, which is part of the names of its state.
_numbers = process.RunLocal(itertools.count)


class GradScaler:
    """A loss scaler with a constant scale, or a dynamic one if `loss_scale` is "dynamic".

    A dynamic scale is halved after overflows and doubled after a period without overflow. Steps that overflowed are
    undone. The CPU backend computes in float32: there `scale` returns the loss unchanged and gradients are not
    unscaled.

    - `loss_scale`: a number, "dynamic", or None for a scale of 1.
    - `init_scale`: the initial dynamic scale; 2**15 if None.
    - `steps_per_increase`: the number of steps without a change that precede an increase; 2000 if None.
    - `min_loss_scale`, `max_loss_scale`: bounds of the dynamic scale; 2**-14 and 2**15 if None.
    - `overflow_tolerance`: the fraction of overflowed steps since the last change above which the scale is halved.
    - `max_gradient_norm`: the maximum global norm of the gradients, or None for no clipping.

    Raises RuntimeError without a backend. Raises ValueError if `min_loss_scale` is below 2**-14 or `loss_scale` is
    other text.
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
        # Before the first call of `scale`, gradients are assumed to be scaled, because a script may scale the loss
        # itself.
        self._scale_is_applied = True
        self._tolerance, self._max_norm = overflow_tolerance, max_gradient_norm
        self._steps_per_increase = steps_per_increase or STEPS_PER_INCREASE
        self._largest, self._smallest = max_loss_scale or LARGEST_SCALE, min_loss_scale or SMALLEST_SCALE
        # A smaller scale is a subnormal float16 number, which loses bits or is flushed to zero.
        if self._smallest < SMALLEST_SCALE:
            raise ValueError("min_loss_scale too small\n  Increase min_loss_scale.")
        # For other text, float() raises the error that the original raises.
        self._fixed = 1.0 if not loss_scale or self.dynamic else float(loss_scale)
        self._stepped: list[Any] = []
        self._unscaled: list[Any] = []
        self._finite: Tensor | None = None
        self._squared: dict[int, Tensor] = {}
        self._raw: Tensor | None = None
        self._state = self._new_state(init_scale or INIT_SCALE) if self.dynamic else {}

    def _new_state(self, scale: float) -> dict[str, Tensor]:
        state = {"loss_scale": tensor(scale, dtype=float32)}
        # These names are part of checkpoints.
        for name in ("steps_since_rescale", "overflows_since_rescale", "num_skipped_steps"):
            state[name] = tensor(0, dtype=int64)
        number = next(_numbers.value)
        for name, value in state.items():
            value.device = process.state_device()
            storage.register(value.cell, f"grad_scaler.{number}.{name}")
        return state

    def get_scale(self) -> Tensor | float:
        """Return the scale for the next loss: a float32 scalar tensor if the scale is dynamic, else a float."""
        return self._state["loss_scale"] if self.dynamic else self._fixed

    def get_non_clamped_scale(self) -> Tensor | float:
        """Return the scale that the last `update` computed, before it was clamped to the bounds.

        Before the first update, and for a constant scale, this is `get_scale()`.
        """
        return self.get_scale() if self._raw is None else self._raw

    def get_num_skipped_steps(self) -> Tensor:
        """Return the number of undone steps as an int64 scalar tensor. It is 0 for a constant scale."""
        return self._state["num_skipped_steps"] if self.dynamic else tensor(0)

    def scale(self, loss: Any) -> Any:
        """Return `loss` multiplied by the scale, in float32.

        On the CPU backend and for a scale of 1, return `loss` itself.
        """
        # `unscale_` divides by the same scale.
        self._scale_is_applied = process.use_cs()
        if not self._scale_is_applied or self._has_no_effect:
            return loss
        # The dynamic scale is state of the run, so a step that was traced once uses its current value. The product is
        # float32, because a half-precision loss could overflow when it is scaled.
        return loss.float() * (self._state["loss_scale"] if self.dynamic else self._fixed)

    @property
    def _has_no_effect(self) -> bool:
        return not self.dynamic and self._fixed == 1.0

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of `optimizer` by the scale, in place.

        Raises RuntimeError if it was called twice since the last `update`, or after `step`. The gradients do not change
        on the CPU backend or if the scale is 1. For a dynamic scale, the squared norm of the gradients is saved for the
        overflow check.
        """
        # The order of the checks and both messages are those of the original.
        if optimizer in self._stepped:
            raise RuntimeError("unscale_() is being called after step().\n  Call unscale_() before step().")
        if optimizer in self._unscaled:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
                "\n  Call unscale_() once for each update()."
            )
        self._unscaled.append(optimizer)
        if not self._scale_is_applied or self._has_no_effect:
            return
        with grad_mode(False):
            # Multiply by the reciprocal, which is exact for powers of two and needs only one division.
            factor = tensor(1.0) / self._state["loss_scale"] if self.dynamic else 1.0 / self._fixed
            grads = gradients(optimizer)
            for g in grads:
                g.mul_(factor)
            # Compute the norm now, because later clipping by the script must not affect the overflow check.
            if self.dynamic:
                self._squared[id(optimizer)] = squared_norm(grads)

    def clip_gradients_and_return_isfinite(self, optimizers: Iterable[Any]) -> Tensor:
        """Clip the gradients of all `optimizers` in place, and return whether their global norm is finite.

        Gradients are scaled down if their norm exceeds `max_gradient_norm`; if that is None, they do not change. The
        result is a bool scalar tensor.
        """
        with grad_mode(False):
            optimizers = list(optimizers)
            grads = [g for o in optimizers for g in gradients(o)]
            # The same norm is used for clipping and for the overflow check.
            known = [self._squared.pop(id(o), None) for o in optimizers]
            squared = known[0] if len(known) == 1 and known[0] is not None else squared_norm(grads)
            if self._max_norm is not None and self._max_norm > 0:
                norm = pw.sqrt(squared) + NORM_EPS
                # The factor is at most 1, so gradients never grow. An infinite norm gives zero or NaN elements; then
                # the step is undone.
                factor = pw.minimum(self._max_norm / norm, tensor(1.0))
                for g in grads:
                    g.mul_(factor)
            return is_finite_norm(squared)

    def step_if_finite(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Clip the gradients and run `optimizer.step`. A dynamic scaler undoes the step if a gradient is not finite.

        A constant scale never undoes a step. Returns the result of `optimizer.step`, to which the further arguments are
        passed.
        """
        self._finite = self.clip_gradients_and_return_isfinite([optimizer])
        # With a constant scale the original clips and never undoes a step.
        if not self.dynamic:
            return optimizer.step(*args, **kwargs)
        return step_where(self._finite, optimizer, *args, **kwargs)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients of `optimizer` if `unscale_` was not called, then run `step_if_finite`.

        A constant scale without `max_gradient_norm` calls `optimizer.step` directly. Raises RuntimeError if `step` was
        already called for this optimizer since the last `update`.
        """
        if optimizer in self._stepped:
            raise RuntimeError(
                "step() has already been called since the last update().\n  Call update() after each step()."
            )
        if optimizer not in self._unscaled:
            self.unscale_(optimizer)
        self._stepped.append(optimizer)
        # The norm is not needed, so it is kept out of the graph.
        if self._max_norm is None and not self.dynamic:
            return optimizer.step(*args, **kwargs)
        return self.step_if_finite(optimizer, *args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """Adapt a dynamic scale to the gradients of the last step, and allow the next step.

        Raises ValueError if `new_scale` is given, because the scale cannot be set from outside.
        """
        if new_scale is not None:
            raise ValueError(
                "cstorch.amp.GradScaler does not support providing a `new_scale`"
                "\n  Omit new_scale, or create another GradScaler."
            )
        # Clear the lists first, so that an error below does not block later steps.
        optimizers, self._stepped, self._unscaled = self._stepped, [], []
        if self.dynamic:
            self.update_scale(optimizers)
        self._squared.clear()

    def update_scale(self, optimizers: Any) -> None:
        """Halve the dynamic scale if overflows exceed the tolerance, or double it after enough steps.

        The state is written in place. The scale is halved if the fraction of overflowed steps since the last change
        exceeds `overflow_tolerance`. It is doubled after more than `steps_per_increase` steps since the last change. It
        stays within its minimum and maximum. `optimizers` are checked for overflow, and clipped, if `step_if_finite`
        was not called since the last update.
        """
        # The script called the optimizer's `step` itself.
        if self._finite is None:
            self._finite = self.clip_gradients_and_return_isfinite(optimizers)
        with grad_mode(False):
            # Conditions are integers 0 and 1 that are multiplied, because a traced step cannot branch.
            state, bad = self._state, pw.rsub(pw.cast_to(self._finite, int64), 1)
            state["num_skipped_steps"].add_(bad)
            steps = state["steps_since_rescale"] + 1
            overflows = state["overflows_since_rescale"] + bad
            # The fraction of overflowed steps since the last change. With the default tolerance of 0 (0.05 in older
            # releases), every overflow halves the scale at once.
            share = pw.cast_to(overflows, float32) / pw.cast_to(steps, float32)
            down = pw.cast_to(tensor(self._tolerance) < share, int64)
            kept = pw.rsub(down, 1)
            # A decrease resets the count, so that a step never both decreases and increases the scale.
            steps = steps * kept
            up = pw.cast_to(tensor(self._steps_per_increase) < steps, int64)
            level = pw.rsub(up, 1)
            lower = state["loss_scale"] / pw.cast_to(down + 1, float32)
            # The unclamped value shows a scale that keeps falling, which indicates a diverging model.
            self._raw = lower * pw.cast_to(up + 1, float32)
            state["loss_scale"].write(pw.clamp(self._raw, self._smallest, self._largest).node)
            state["steps_since_rescale"].write((steps * level).node)
            state["overflows_since_rescale"].write((overflows * kept * level).node)
        self._finite = None

    def state_dict(self, destination: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
        """Return the dynamic scale and its counters by name, added to `destination` if that is given.

        Nothing is added for a constant scale or on the CPU backend.
        """
        state = {} if destination is None else destination
        # The original's state dict is empty on the CPU backend, even for a dynamic scaler.
        if process.use_cs():
            state.update(self._state)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Copy the dynamic scale and its counters from `state_dict`. Raises KeyError if one is missing.

        The call has no effect for a constant scale, on the CPU backend, or for an empty `state_dict`.
        """
        # Checkpoints of wafer runs load on the CPU, where the scaler has no state. Checkpoints of CPU runs have no
        # scaler state.
        if not self.dynamic or not process.use_cs() or not state_dict:
            return
        with grad_mode(False):
            for name, mine in self._state.items():
                mine.copy_(state_dict[name])
