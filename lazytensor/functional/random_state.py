"""Random numbers of a step: drawn from state that is carried from step to step, so that a replay draws new ones.

The state is (seed, counter). Each draw of a step has its own number; the counter goes up by one a step. Outside a step
numbers come from `lazytensor.random`, which is PyTorch's generator; on the CPU inside of steps too.
"""

import math
from typing import Any

import numpy as np

from lazytensor import random
from lazytensor.core import dtype as dt
from lazytensor.core import storage
from lazytensor.core.dtype import DType
from lazytensor.core.storage import Storage
from lazytensor.core.tensor import Device, Tensor, from_array, tensor_from_storage, wrap
from lazytensor.ir.graph import Node, leaf
from lazytensor.ir.types import Type
from lazytensor.ops import call, const

STATE_TYPE = Type((2,), dt.int64)
MAX_EAGER_DRAWS = 65536
"""Numbers up to which a script without arrays draws what it would draw: they may decide how it goes on."""


class _RandomState:
    """The cell of the state, and what was drawn from it in the step that is being captured."""

    def __init__(self) -> None:
        self.cell: Storage | None = None
        self.seeding = -1
        self.capture: storage.ActiveCapture | None = None
        self.base: Node | None = None
        self.draws = 0

    def next(self) -> tuple[Node, int]:
        """The state at the start of the step, and the number of this draw."""
        base = self.base
        # Told by the step, not by a call at its start: steps without draws then carry no state.
        if storage.thread_state.current is not self.capture or base is None:
            base = self._begin()
        self.draws += 1
        return base, self.draws - 1

    def _begin(self) -> Node:
        """Start a step: the counter moves on by one; a new seed since the last step starts a new state."""
        generator = random.default_generator
        if self.cell is None or self.seeding != generator.seedings:
            start = leaf(np.array([generator.initial_seed(), 0], np.int64), STATE_TYPE)
            self.cell, self.seeding = Storage.outside(start), generator.seedings
            # The cell outlives its seeding in a captured step, so each seeding has a name of its own.
            self.cell.state = f"rng.{generator.seedings}"
        self.capture, self.draws = storage.thread_state.current, 0
        # Read before the counter moves: all draws of the step start from one state and differ by their number.
        self.base = storage.read(self.cell)
        storage.write(self.cell, self.base + const(np.array([0, 1]), STATE_TYPE))
        return self.base


_random_state = _RandomState()


def restart_draws() -> None:
    """Count the draws of steps from the beginning, as a new process does."""
    global _random_state
    _random_state = _RandomState()


def is_replayed() -> bool:
    """Whether operations are recorded into a step that runs again without Python: numbers are nodes of it."""
    return storage.thread_state.current is not None and not storage.thread_state.current.readable


def is_deferred(shape: tuple[int, ...]) -> bool:
    """Whether so many numbers are to be drawn by a node, when somebody reads them: where values may not be needed."""
    return storage.is_abstract and math.prod(shape) > MAX_EAGER_DRAWS


def tensor_of_draws(values: np.ndarray, dtype: DType) -> Tensor:
    """A tensor of numbers that were drawn now; in a step that Python runs each time they are an input of it."""
    if storage.thread_state.current is None or is_replayed():
        return from_array(values, dtype)
    return tensor_from_storage(
        storage.thread_state.current.new_input_storage(
            np.array(values, dtype.host, order="C"), Type(values.shape, dtype)
        )
    )


def uniform_at_step(step: Tensor, number: int, shape: tuple[int, ...], device: Device) -> Tensor:
    """Uniform numbers that depend on the seed of the process, a counter of steps and the number of the draw alone.

    What goes on from a saved counter draws what it would have drawn.
    """
    # An attribute and no state: the vendor's text has a global seed in this place.
    seed = random.default_generator.initial_seed()
    numbers = wrap(call("random_uniform", step.node, call=number, type=Type(shape, dt.float32), seed=seed))
    numbers.device = device
    return numbers


def next_draw() -> tuple[Node, int]:
    """The state that the captured step draws from, and the number of the next draw."""
    return _random_state.next()


def draw_in_step(op: str, shape: tuple[int, ...], dtype: DType, **attrs: Any) -> Tensor:
    """Numbers of an operation such as `random_uniform` as a node of the step that is being captured."""
    state, number = next_draw()
    return wrap(call(op, state, call=number, type=Type(shape, dtype), **attrs))
