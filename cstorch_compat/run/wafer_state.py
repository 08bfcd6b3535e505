"""State while it lies on the wafer: the client may not read or change it whenever it likes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from lazytensor.core import source, storage
from lazytensor.core.capture import FETCHING_CALLS, MATERIALIZED_MESSAGE
from lazytensor.core.tensor import Device, Tensor
from lazytensor.errors import StateError, TraceError
from lazytensor.ir.types import StateId
from lazytensor.runtime.state_store import Store

LAZY_DEVICE = Device("lazy", 0)
"""The device of what lies on the wafer."""


CLIENT_READINGS = (*FETCHING_CALLS, ".item()", ".numpy()", "float()", "int()", "bool()", "saving it")
"""What a script does that needs values on the client. Other readings are ours: what initializes masks, for example."""


def refuse_reading(t: Tensor, what: str) -> None:
    """Raise TraceError for a tensor of the wafer, whose values a run that executes no step never brings to the client.

    A printed parameter is let pass: the original prints zeros for it.
    """
    is_printed_leaf = what == "print()" and t.requires_grad
    is_of_script = what in CLIENT_READINGS and not is_printed_leaf
    if not is_of_script or t.device.type != LAZY_DEVICE.type or storage.thread_state.current is not None:
        return
    raise TraceError(
        f"{what} needs the values of a {t.spec} on the wafer, and a run with validate_only or compile_only has none",
        where=source.where(),
        hint="Read it in a @cstorch.step_closure, and run the script without validate_only and compile_only.",
        lead=MATERIALIZED_MESSAGE if what in FETCHING_CALLS else "",
    )


class WaferState(Store):
    """A store that the client may read before the first step, in the closures of checkpoint steps, and after a run
    whose last step was one; it may be changed between runs, if it can be read and `is_lazy` returns true.

    State named in `free` it may always read and change: metrics return to it at the end of each step. State named in
    `on_client` it may change between runs: these are its own tensors, which a step only reads.

    Source: the limitations page of the 2.x documentation, "Modifying stateful tensors between executions".
    """

    def __init__(self, is_lazy: Callable[[], bool] = lambda: True) -> None:
        super().__init__()
        self._is_lazy = is_lazy
        self._sent: set[StateId] = set()  # the state of executions that have run a step
        self.free: set[StateId] = set()
        self.on_client: set[StateId] = set()
        # What to do instead, while state cannot be fetched; and what that will be when the loop is over.
        self._way_out: Callable[[], str] | None = None
        self._after: Callable[[], str] | None = None
        self._is_running = False
        self._snapshot: dict[StateId, np.ndarray] | None = None

    def copy(self, state: StateId) -> np.ndarray:
        """The values as the client sees them now. Raises StateError where they cannot be fetched."""
        if self._way_out is not None and state not in self.free:
            raise StateError(
                f"{state} cannot be fetched: weights and other state come back to the client on checkpoint steps alone",
                where=source.where(),
                hint=self._way_out(),
            )
        # A closure of a late step sees the weights of its own step, and not those of the steps since.
        if self._snapshot is not None and state in self._snapshot:
            return self._snapshot[state].copy()
        return super().copy(state)

    def claim(self, state: StateId) -> None:
        """Raises StateError where the client may not change state: in a loop, or where it cannot be fetched."""
        # Metrics are read and reset between steps, wherever the weights are.
        if state in self.free:
            return
        if self._is_running:
            raise StateError(
                f"{state} cannot be changed while the loop over a DataExecutor runs",
                where=source.where(),
                hint="Change it in the function decorated with @cstorch.trace, or between two loops.",
            )
        if state in self.on_client:
            return
        if self._way_out is not None:
            raise StateError(
                f"{state} cannot be changed: the last step of the loop before was no checkpoint step",
                where=source.where(),
                hint="Give that DataExecutor checkpoint_steps; state may change after a checkpointed last step.",
            )
        if state in self._sent and not self._is_lazy():
            raise StateError(
                f"{state} cannot be changed between two executions without lazy initialization",
                where=source.where(),
                hint="Leave cstorch.backends.csx.debug.lazy_initialization on, or change it before the first loop.",
            )

    def start(self) -> None:
        """A loop begins. Until a step has run, it leaves the state as readable as it is now."""
        self._after = self._way_out
        self._is_running, self._way_out = True, _make_after_loop_hint

    def finish_step(self, is_checkpoint: bool) -> None:
        """A step has run: if it is the last one, state can be fetched after the loop on a checkpoint step alone."""
        self._sent.update(self)
        self._after = None if is_checkpoint else _make_after_loop_hint

    def stop(self) -> None:
        """The loop is over."""
        self._is_running, self._way_out = False, self._after

    @contextmanager
    def window(
        self, way_out: Callable[[], str] | None, snapshot: dict[StateId, np.ndarray] | None = None
    ) -> Iterator[None]:
        """Let closures fetch state in the block: from `snapshot`, if it is given, else the present values.

        A snapshot holds the state of a step whose closures run after later steps. With `way_out` fetching raises
        StateError instead, with its text as the hint.
        """
        # Behind the window the loop goes on, in which nothing can be fetched.
        before = self._way_out, self._snapshot
        self._way_out, self._snapshot = way_out, snapshot
        try:
            yield
        finally:
            self._way_out, self._snapshot = before


def _make_after_loop_hint() -> str:
    return "Read it in a @cstorch.checkpoint_closure, and give the DataExecutor checkpoint_steps."
