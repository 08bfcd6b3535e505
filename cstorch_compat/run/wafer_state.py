"""State on the wafer, which the client may read and change only at certain times."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from lazytensor.core import source, storage
from lazytensor.core.capture import FETCHING_CALLS, MATERIALIZED_MESSAGE
from lazytensor.core.tensor import Device, Tensor
from lazytensor.errors import StateError, TraceError, refuse
from lazytensor.ir.types import StateId
from lazytensor.runtime.state_store import Store

LAZY_DEVICE = Device("lazy", 0)
"""The device of tensors on the wafer."""


CLIENT_READINGS = (*FETCHING_CALLS, ".item()", ".numpy()", "float()", "int()", "bool()", "saving it")
"""The operations by which a script reads a value. Other reads are internal, such as those that initialize masks."""


def refuse_reading(t: Tensor, what: str) -> None:
    """Raise TraceError if a script reads a tensor of the wafer in a run that executes no steps.

    `what` names the reading operation. Printing a parameter is allowed, since the original prints zeros. Reads inside a
    traced step are not refused here.
    """
    is_printed_leaf = what == "print()" and t.requires_grad
    is_of_script = what in CLIENT_READINGS and not is_printed_leaf
    if not is_of_script or t.device.type != LAZY_DEVICE.type or storage.thread_state.current is not None:
        return
    raise TraceError(
        f"{what} needs the values of a {t.spec} on the wafer, but validate_only and compile_only compute none",
        where=source.where(),
        hint="Read it in a @cstorch.step_closure, and run the script without validate_only and compile_only.",
        lead=MATERIALIZED_MESSAGE if what in FETCHING_CALLS else "",
    )


class WaferState(Store):
    """The state of a run on the wafer, with rules on when the client may read and change it.

    The client may read state before the first step, in the closures of checkpoint steps, and after a loop whose last
    step was a checkpoint step. It may change state between loops if it can be read; after the first execution only if
    `is_lazy()` is True.

    free: names of state that may always be read and changed, such as metrics
    on_client: names of tensors that steps only read and that the client owns; they may change between loops

    Source: the limitations page of the 2.x documentation, "Modifying stateful tensors between executions".
    """

    def __init__(self, is_lazy: Callable[[], bool] = lambda: True) -> None:
        super().__init__()
        self._is_lazy = is_lazy
        self._sent: set[StateId] = set()  # state of executions that have run a step
        self.free: set[StateId] = set()
        self.on_client: set[StateId] = set()
        # The hint while state cannot be fetched (None while it can), and its value after the loop.
        self._way_out: Callable[[], str] | None = None
        self._after: Callable[[], str] | None = None
        self._is_running = False
        self._snapshot: dict[StateId, np.ndarray] | None = None

    def copy(self, state: StateId) -> np.ndarray:
        """Return a copy of the values as the client sees them now.

        In the closures of a delayed step these are the values of that step. Raises StateError if the values cannot be
        fetched now; state in `free` can always be. In a check run, a finding is reported instead.
        """
        if self._way_out is not None and state not in self.free:
            what = f"{state} cannot be fetched: weights and other state are sent to the client only on checkpoint steps"
            _refuse_access(what, self._way_out())
        # A delayed closure reads the state of its own step.
        if self._snapshot is not None and state in self._snapshot:
            return self._snapshot[state].copy()
        return super().copy(state)

    def claim(self, state: StateId) -> None:
        """Raise StateError if the client may not change `state` now. In a check run, a finding is reported instead.

        It may not in a running loop, after a loop whose last step was no checkpoint step, and after the first execution
        without lazy initialization. State in `free` may always be changed, and state in `on_client` always between
        loops.
        """
        # Metrics may be read and reset between steps.
        if state in self.free:
            return
        if self._is_running:
            _refuse_access(
                f"{state} cannot be changed while the loop over a DataExecutor runs",
                "Change it in the function decorated with @cstorch.trace, or between two loops.",
            )
        elif state in self.on_client:
            return
        elif self._way_out is not None:
            _refuse_access(
                f"{state} cannot be changed: the last step of the previous loop was not a checkpoint step",
                "Pass checkpoint_steps to the DataExecutor of that loop: its last step is then a checkpoint step.",
            )
        elif state in self._sent and not self._is_lazy():
            _refuse_access(
                f"{state} cannot be changed between two executions without lazy initialization",
                "Leave cstorch.backends.csx.debug.lazy_initialization on, or change it before the first loop.",
            )

    def start(self) -> None:
        """Begin a loop. If it is left before a step has run, state is as readable afterwards as it was before."""
        self._after = self._way_out
        self._is_running, self._way_out = True, _make_after_loop_hint

    def finish_step(self, is_checkpoint: bool) -> None:
        """Record that a step has run.

        After the loop, state can be fetched only if the last step was a checkpoint step.
        """
        self._sent.update(self)
        self._after = None if is_checkpoint else _make_after_loop_hint

    def stop(self) -> None:
        """End the loop."""
        self._is_running, self._way_out = False, self._after

    @contextmanager
    def window(
        self, way_out: Callable[[], str] | None, snapshot: dict[StateId, np.ndarray] | None = None
    ) -> Iterator[None]:
        """Set the access of closures to state while the context is active.

        If `way_out` is given, reading raises StateError with the text `way_out()` as its hint. Otherwise values come
        from `snapshot`, or are the current ones if it is None. A snapshot holds the state of a step whose closures are
        delayed.
        """
        # The loop continues after the block, where state cannot be fetched.
        before = self._way_out, self._snapshot
        self._way_out, self._snapshot = way_out, snapshot
        try:
            yield
        finally:
            self._way_out, self._snapshot = before


def _refuse_access(what: str, hint: str) -> None:
    """Raise StateError, or report a finding in a check run."""
    refuse("state access", StateError(what, where=source.where(), hint=hint))


def _make_after_loop_hint() -> str:
    return "Read it in a @cstorch.checkpoint_closure, and pass checkpoint_steps to the DataExecutor."
