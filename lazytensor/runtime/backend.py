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
    def lasting(self) -> frozenset[int]:
        """The numbers of the fetches whose arrays no later step overwrites as long as somebody holds them."""
        ...

    def placement(self) -> str:
        """Where everything lies, a line for each thing, as LT_DEBUG=4 prints it."""
        ...

    def step(self, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run one step: read `batch` (arrays in the order of `program.batch`), update the store, return the fetches.

        The arrays returned may be overwritten by the next step, unless they are `lasting`; whoever keeps one copies it.
        """
        ...


class Backend(Protocol):
    """Compiles programs. `name` is "host" or "wafer"."""

    name: str

    def compile(self, program: Program, store: Store) -> Executable:
        """Bind a program to the state that its steps read and change."""
        ...
