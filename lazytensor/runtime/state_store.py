"""The store of loop-carried state: the live array of each state, by its id."""

from collections.abc import Iterable, Iterator

import numpy as np

from lazytensor.errors import StateError
from lazytensor.ir.types import StateId
from lazytensor.runtime.aligned_arrays import aligned


class Store:
    """A mapping from state id to a contiguous array.

    Executables are bound to these arrays, so `put` writes into them.
    """

    def __init__(self) -> None:
        self._arrays: dict[StateId, np.ndarray] = {}

    def __contains__(self, state: StateId) -> bool:
        return state in self._arrays

    def __iter__(self) -> Iterator[StateId]:
        return iter(self._arrays)

    def add(self, state: StateId, array: np.ndarray) -> np.ndarray:
        """Add new state with a contiguous copy of `array`, of the same dtype, and return the copy.

        The copy is the live array, which steps overwrite. Raise StateError if the id is taken.
        """
        if state in self._arrays:
            raise StateError(f"a state named {state} exists already", hint="Give each tensor a different name.")
        given = np.asarray(array)
        self._arrays[state] = own = aligned(given.shape, given.dtype)
        own[...] = given
        return self._arrays[state]

    def array(self, state: StateId) -> np.ndarray:
        """Return the live array of a state, which steps overwrite. Raise StateError if the id is unknown."""
        if state not in self._arrays:
            known = ", ".join(list(self._arrays)[:5])
            raise StateError(
                f"the state {state} does not exist",
                hint=f"Use the name of a stored state: {known or 'none is stored yet'}.",
            )
        return self._arrays[state]

    def put(self, state: StateId, array: np.ndarray) -> None:
        """Overwrite the elements of a state in place with those of `array`, converted to its dtype.

        The conversion may lose digits. Raise StateError if the id is unknown or the shapes differ.
        """
        live = self.array(state)
        if live.shape != np.shape(array):
            raise StateError(
                f"state {state} has the shape {list(live.shape)}, but the new value has {list(np.shape(array))}",
                hint="Build the model with the sizes of the new value.",
            )
        # Compiled steps are bound to the live array, so it is overwritten in place.
        np.copyto(live, array, casting="unsafe")

    def hold(self, state: StateId, array: np.ndarray) -> None:
        """Add the state, or overwrite it if it exists. Raise StateError if its shape changed."""
        (self.put if state in self._arrays else self.add)(state, array)

    def copy(self, state: StateId) -> np.ndarray:
        """Return a copy of the array of a state."""
        return self.array(state).copy()

    def claim(self, state: StateId) -> None:
        """Announce that the client will change the state outside of a step.

        This store always permits it, so nothing happens.
        """

    def snapshot(self, states: Iterable[StateId] | None = None) -> dict[StateId, np.ndarray]:
        """Return copies of the arrays of `states`, or of all states if it is None."""
        return {s: self.array(s).copy() for s in (self._arrays if states is None else states)}
