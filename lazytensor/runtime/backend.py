"""Protocols of a backend, which turns a `Program` into an object that runs steps.

`Backend.compile(program, store)` returns an `Executable`; `Store` holds the loop-carried state. This module imports
only the IR, so that the compiler and the front end can use the protocols without a particular backend.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from lazytensor.ir.program import Program
from lazytensor.ir.types import StateId


class Store(Protocol):
    """A mapping from the id of loop-carried state to the array that holds its current value."""

    def array(self, state: StateId) -> np.ndarray:
        """Return the array of a state itself, not a copy. Each step overwrites its elements."""
        ...


class Executable(Protocol):
    """A compiled program bound to the state arrays of a store."""

    @property
    def program(self) -> Program:
        """The program that was compiled."""
        ...

    @property
    def report(self) -> Any:
        """What the backend predicts about the program before it runs (a report object), or None."""
        ...

    @property
    def owned(self) -> frozenset[int]:
        """Indices of the results of `step` whose arrays belong to the caller. No later step overwrites these arrays."""
        ...

    def placement(self) -> str:
        """Return a text with the memory location of each buffer, one per line. LT_DEBUG=4 prints it."""
        ...

    def step(self, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run one step and return its results (the fetches), in the order of `program.fetches`.

        `batch` holds the input arrays in the order of `program.batch`. The step overwrites the state arrays of the
        store. The next step may overwrite the returned arrays, except those whose index is in `owned`: copy an array to
        keep it.
        """
        ...


class Backend(Protocol):
    """A compiler of programs for one target. `name` is "host" or "wafer"."""

    name: str

    def compile(self, program: Program, store: Store) -> Executable:
        """Compile `program` and bind it to the state arrays of `store`, which its steps read and overwrite."""
        ...
