"""What a backend is: it turns a `Program` into something that runs steps. Part of the waist: imports the IR alone."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from lazytensor.ir.program import Program
from lazytensor.ir.types import StateId


class Store(Protocol):
    """Loop-carried state by identity. `array` gives the live buffer, which a step overwrites."""

    def array(self, state: StateId) -> np.ndarray:
        """The live buffer of a state."""
        ...


class Executable(Protocol):
    """A compiled program bound to a store."""

    @property
    def program(self) -> Program:
        """What was compiled."""
        ...

    @property
    def report(self) -> Any:
        """What the backend knows about the program before it runs; None if nothing."""
        ...

    @property
    def owned(self) -> frozenset[int]:
        """The numbers of the fetches whose arrays belong to the caller: no later step overwrites them."""
        ...

    def placement(self) -> str:
        """Where everything lies, a line for each thing, as LT_DEBUG=4 prints it."""
        ...

    def step(self, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run one step: read `batch` (arrays in the order of `program.batch`), update the store, return the fetches.

        The next step may overwrite the arrays returned, other than those that are `owned`: copy what has to last.
        """
        ...


class Backend(Protocol):
    """Compiles programs. `name` is "host" or "wafer"."""

    name: str

    def compile(self, program: Program, store: Store) -> Executable:
        """Bind a program to the state that its steps read and change."""
        ...
