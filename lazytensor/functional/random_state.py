"""Random numbers of a compiled step, drawn from loop-carried state, so that each execution draws new numbers.

The state is (seed, counter). Each draw of a step has a number, and the counter increases by one per step. Outside of
compiled steps, numbers come from `lazytensor.random`, which reproduces PyTorch's generator. This includes steps that
Python runs each time, on the CPU.
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
"""The largest number of elements that an abstract step draws immediately. Small draws may decide how a script
continues.
"""


class _RandomState:
    """The storage of the generator state, and the draws from it in the step that is being captured."""

    def __init__(self) -> None:
        self.cell: Storage | None = None
        self.seeding = -1
        self.capture: storage.ActiveCapture | None = None
        self.base: Node | None = None
        self.draws = 0

    def next(self) -> tuple[Node, int]:
        """Return the state at the start of the step, and the number of this draw in the step, from 0.

        The first draw of a step writes the state for the next step, with its counter increased by one.
        """
        base = self.base
        # Initialized at the first draw, so that steps without draws carry no state.
        if storage.thread_state.current is not self.capture or base is None:
            base = self._begin()
        self.draws += 1
        return base, self.draws - 1

    def _begin(self) -> Node:
        """Begin a step: return the state node, and write the state with the counter increased by one.

        If the default generator was seeded since the last step, a new state begins.
        """
        generator = random.default_generator
        if self.cell is None or self.seeding != generator.seedings:
            start = leaf(np.array([generator.initial_seed(), 0], np.int64), STATE_TYPE)
            self.cell, self.seeding = Storage.outside(start), generator.seedings
            # The storage of an earlier seeding remains in a captured step, so each seeding has a separate state name.
            self.cell.state = f"rng.{generator.seedings}"
        self.capture, self.draws = storage.thread_state.current, 0
        # Read before the counter changes: all draws of a step use one state and differ by their number.
        self.base = storage.read(self.cell)
        storage.write(self.cell, self.base + const(np.array([0, 1]), STATE_TYPE))
        return self.base


_random_state = _RandomState()


def restart_draws() -> None:
    """Discard the generator state of steps, so that counting starts at zero as in a new process."""
    global _random_state
    _random_state = _RandomState()


def is_replayed() -> bool:
    """Return whether a step is being captured that later runs without Python, so that random numbers are nodes."""
    return storage.thread_state.current is not None and not storage.thread_state.current.readable


def is_deferred(shape: tuple[int, ...]) -> bool:
    """Return whether numbers of `shape` are drawn when they are read, since an abstract step may not need them.

    True for more than MAX_EAGER_DRAWS elements.
    """
    return storage.is_abstract and math.prod(shape) > MAX_EAGER_DRAWS


def tensor_of_draws(values: np.ndarray, dtype: DType) -> Tensor:
    """Return a tensor of numbers that were drawn now. `values` must not be modified afterwards.

    In a step that Python runs each time they become an input of the step.
    """
    if storage.thread_state.current is None:
        values = np.asarray(values, dtype.host, order="C")
        return tensor_from_storage(storage.new_storage(leaf(values, Type(values.shape, dtype))))
    if is_replayed():
        return from_array(values, dtype)
    return tensor_from_storage(
        storage.thread_state.current.new_input_storage(
            np.array(values, dtype.host, order="C"), Type(values.shape, dtype)
        )
    )


def uniform_at_step(step: Tensor, number: int, shape: tuple[int, ...], device: Device) -> Tensor:
    """Return float32 uniform numbers in [0, 1) that depend only on the seed, the counter `step` and `number`.

    `number` is that of the draw in its step. The seed is that of the default generator. A run that continues from a
    saved counter draws the same numbers as an uninterrupted one.
    """
    # The seed is an attribute, since the vendor's graph has a global seed here.
    seed = random.default_generator.initial_seed()
    numbers = wrap(call("random_uniform", step.node, call=number, type=Type(shape, dt.float32), seed=seed))
    numbers.device = device
    return numbers


def next_draw() -> tuple[Node, int]:
    """Return the state node that the captured step draws from, and the number of the next draw."""
    return _random_state.next()


def draw_in_step(op: str, shape: tuple[int, ...], dtype: DType, **attrs: Any) -> Tensor:
    """Return random numbers drawn by a node of the step that is being captured.

    `op` is the operation, such as "random_uniform".
    """
    state, number = next_draw()
    return wrap(call(op, state, call=number, type=Type(shape, dtype), **attrs))
