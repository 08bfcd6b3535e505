"""Store: the live arrays of loop-carried state, by identity."""

from collections.abc import Iterable, Iterator

import numpy as np

from lazytensor.errors import StateError
from lazytensor.ir.types import StateId
from lazytensor.runtime.aligned_arrays import aligned


class Store:
    """StateId -> contiguous array. Executables keep these very arrays, so `put` writes into them."""

    def __init__(self) -> None:
        self._arrays: dict[StateId, np.ndarray] = {}

    def __contains__(self, state: StateId) -> bool:
        return state in self._arrays

    def __iter__(self) -> Iterator[StateId]:
        return iter(self._arrays)

    def add(self, state: StateId, array: np.ndarray) -> np.ndarray:
        """Take in new state; the store keeps a contiguous copy of its own. Raises StateError if the name is taken."""
        if state in self._arrays:
            raise StateError(f"there is already state called {state}", hint="Give each tensor its own name.")
        given = np.asarray(array)
        self._arrays[state] = own = aligned(given.shape, given.dtype)
        own[...] = given
        return self._arrays[state]

    def array(self, state: StateId) -> np.ndarray:
        """The live array, which steps overwrite. Raises StateError for an unknown name."""
        if state not in self._arrays:
            known = ", ".join(list(self._arrays)[:5])
            raise StateError(f"there is no state called {state}", hint=f"The store knows {known or 'no state yet'}.")
        return self._arrays[state]

    def put(self, state: StateId, array: np.ndarray) -> None:
        """Overwrite the elements of known state. Raises StateError if the shapes differ."""
        live = self.array(state)
        if live.shape != np.shape(array):
            raise StateError(f"{state} is {list(live.shape)}, the new value {list(np.shape(array))}")
        # Into the live array, since compiled steps are bound to it.
        np.copyto(live, array, casting="unsafe")

    def hold(self, state: StateId, array: np.ndarray) -> None:
        """Take in the value of state that may be new. Raises StateError if its shape changed."""
        (self.put if state in self._arrays else self.add)(state, array)

    def copy(self, state: StateId) -> np.ndarray:
        """A copy of one array."""
        return self.array(state).copy()

    def claim(self, state: StateId) -> None:
        """Asked before the client changes state outside a step: here it always may."""

    def snapshot(self, states: Iterable[StateId] | None = None) -> dict[StateId, np.ndarray]:
        """Copies of the given state, or of all of it."""
        return {s: self.array(s).copy() for s in (self._arrays if states is None else states)}
