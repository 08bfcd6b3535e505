"""Capture of a step: record a program with mutable tensors as a pure function of its inputs and state.

Inside a captured step, each storage that existed before is replaced by a `state` node when it is first read. The node
that it refers to at the end of the step is its new value. `CAPTURE_LIFE_CYCLE` is the table of a capture's phases. The
design follows PyTorch's Lazy Tensor Core (arXiv:2102.13267): tensors are handles on values, and the outputs of a step
are the handles that are still referenced at its end.
"""

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum

import numpy as np

from lazytensor.core import source, storage
from lazytensor.core.captured_storages import CapturedStorages
from lazytensor.core.life_cycle import LifeCycle, Transition
from lazytensor.core.storage import Storage
from lazytensor.errors import ClientValueError, TraceError, refuse
from lazytensor.ir.graph import Graph, Node, topological
from lazytensor.ir.types import Type
from lazytensor.runtime.reference import evaluate
from lazytensor.runtime.state_store import Store

FETCHING_CALLS = ("print()", ".tolist()", ".to('cpu')")
"""Reading calls that copy a whole tensor to the client. Their errors start with `MATERIALIZED_MESSAGE`."""
MATERIALIZED_MESSAGE = (
    "Trying to materialize a tensor outside of a step closure.\nAll PyTorch code must be written to operate fully on "
    "torch.tensors and not call .item() (explicitly or as an implicit conversion to Python scalar), print tensor "
    "contents, or use a tensor as a Python conditional."
)
"""The error message of the real system, which users search for."""


class CapturePhase(Enum):
    """The phase of a capture. The value of each member is its description in error messages."""

    FEEDING = "receiving its inputs"
    RECORDING = "being recorded"
    PAUSED = "paused between two traced functions"
    REVEALED = "executed, with its results readable"
    REPLAYING = "being executed again"
    FINISHED = "executed"
    LEFT = "recorded, but not executed"
    OVER = "over"


CAPTURE_LIFE_CYCLE = LifeCycle(
    "a step",
    (
        Transition(
            CapturePhase.FEEDING,
            "feed",
            CapturePhase.FEEDING,
            "inputs have values from outside, so they are set before the step is entered",
        ),
        Transition(CapturePhase.FEEDING, "enter", CapturePhase.RECORDING, "operations now belong to the step"),
        Transition(
            CapturePhase.RECORDING,
            "pause",
            CapturePhase.PAUSED,
            "on CSX only traced functions are recorded, not the loop around them",
        ),
        Transition(CapturePhase.PAUSED, "resume", CapturePhase.RECORDING, "a traced function is called"),
        # On CSX, one program is recorded and then run for every step. Between two runs, the loop's closures read the
        # storages' values (REVEALED); `hide` makes the storages symbolic again.
        Transition(
            CapturePhase.PAUSED, "reveal", CapturePhase.REVEALED, "the step has run, and closures read its results"
        ),
        Transition(
            CapturePhase.REVEALED,
            "hide",
            CapturePhase.REPLAYING,
            "the next step runs the same program with the same storages",
        ),
        Transition(CapturePhase.REPLAYING, "reveal", CapturePhase.REVEALED, "that step has run too"),
        # On the CPU, every step is recorded, and an equal graph is found by identity.
        Transition(CapturePhase.RECORDING, "finish", CapturePhase.FINISHED, "on the CPU a step is executed at its end"),
        Transition(
            CapturePhase.PAUSED, "finish", CapturePhase.FINISHED, "the same for a step of several traced functions"
        ),
        Transition(CapturePhase.FINISHED, "leave", CapturePhase.OVER, "every storage has its value"),
        Transition(
            CapturePhase.RECORDING,
            "leave",
            CapturePhase.LEFT,
            "the graph can still be taken from a step that is not executed",
        ),
        Transition(CapturePhase.PAUSED, "leave", CapturePhase.LEFT, "the same if only traced functions are recorded"),
        Transition(CapturePhase.REPLAYING, "leave", CapturePhase.LEFT, "the loop ends before the step has run"),
        Transition(
            CapturePhase.LEFT, "enter", CapturePhase.RECORDING, "the recording of a step that was left can continue"
        ),
        Transition(CapturePhase.FEEDING, "abandon", CapturePhase.OVER, "the batch was wrong"),
        Transition(CapturePhase.LEFT, "abandon", CapturePhase.OVER, "every storage has its value from before the step"),
    ),
)
"""The allowed transitions of a capture; any other event raises TraceError."""
_NOT_RECORDING_PHASES = (
    CapturePhase.PAUSED,
    CapturePhase.REPLAYING,
)  # the step is active, but operations of the loop around the traced functions do not belong to it


class Capture:
    """One captured step: its inputs, the state that it reads and writes, and its results.

    With `readable`, values can be read while the step is captured, as on the CPU backend, where PyTorch is eager.
    Otherwise a read raises TraceError. `store` holds the state between steps. Use it as a context manager: operations
    inside of the `with` block belong to the step.
    """

    has_calls = False
    """Whether the graph may contain calls of functions; `ir.graph_function.inline_calls` replaces them by their bodies.
    """
    way_out = "Choose with torch.where(...) in the step, or read the value in a @cstorch.step_closure."

    def __init__(self, store: Store, readable: bool):
        self.store, self.readable = store, readable
        self.phase = CapturePhase.FEEDING
        self._is_silent = False  # a cached property of the phase, because every operation of the step reads it
        self.cells = CapturedStorages(store, self)
        # An attribute instead of a method that forwards the call: every parameter is touched in every step.
        self.touch = self.cells.touch
        self.client_state: set[str] = set()  # names of tensors that the step reads and the client keeps
        self.rules = 0  # number of nodes with a custom gradient rule
        # Values that a script read while the step was captured. They stay valid, because the step's inputs are
        # constant.
        self._memo: dict[Node, np.ndarray] = {}
        self._endings: list[Callable[[], None]] = []
        # A step can be captured inside of another one, which becomes active again afterwards.
        self._outer: storage.ActiveCapture | None = None

    def _move(self, event: str) -> None:
        """Set the phase to the one that follows on `event`.

        Raises TraceError if the event is not allowed in this phase.
        """
        self.phase = CAPTURE_LIFE_CYCLE.after(self.phase, event)
        self._is_silent = self.phase in _NOT_RECORDING_PHASES

    def __enter__(self) -> "Capture":
        self._move("enter")
        self._outer = storage.set_active_capture(self)
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        was_executed = self.phase is CapturePhase.FINISHED
        self._move("leave")
        storage.set_active_capture(self._outer)
        # An executed step is finished. After an exception, a step that was not executed is abandoned; otherwise it
        # stays LEFT, so that its graph can still be used.
        if was_executed:
            # Break the reference cycle of the bound method, so that the batch is freed without a garbage collection.
            del self.touch
            self.cells.end()
        elif kind is not None:
            self.abandon()

    def feed(self, cell: Storage, index: int, name: str) -> None:
        """Make the value of `cell` input number `index` of the step, under `name`.

        Raises TraceError if the step was entered already.
        """
        self._move("feed")
        self.cells.feed(cell, index, name)

    def new_input_storage(self, array: np.ndarray, type: Type) -> Storage:
        """Return a new storage that is one more input of the step.

        It has the value `array` in this step and another value in the next one.
        """
        return self.cells.new_input_storage(array, type)

    def record_written(self, cell: Storage) -> None:
        """Record that a storage was created or written in this step.

        It is an output if it is still referenced at the end. Raises TraceError if the step is paused, that is, between
        traced functions. In a check run, a finding is reported instead and the storage is recorded.
        """
        # On the wafer, operations of the loop around the traced functions would never be computed. The message is the
        # vendor's, because users search for it.
        if self._is_silent:
            error = TraceError(
                'New output detected outside of "@cstorch.trace" decorator: an operation was called in the loop itself',
                where=source.where(),
                hint="Move it into the function decorated with @cstorch.trace, or into a @cstorch.step_closure.",
            )
            refuse("outside trace", error)
        self.cells.born.append(weakref.ref(cell))

    def settle(self, cell: Storage) -> None:
        """Record that a storage was created in this step with a value that needs no computation, so it is no output."""
        self.cells.settled.append(weakref.ref(cell))

    def uses(self, n: Node) -> bool:
        """Return whether `n` is an operand of a differentiable operation that a live storage of the step depends on."""
        # Nodes of the previous trace may still exist, so search only those that live tensors of this step depend on.
        values = [c.node for r in self.cells.born if (c := r()) is not None and c.node is not None]
        return any(u.tracks and n in u.inputs for u in topological(values))

    def shows(self, n: Node, cell: Storage) -> bool:
        """Return whether the value of a live storage of the step, other than `cell`, is `n`."""
        living = (c for r in self.cells.born if (c := r()) is not None)
        return any(c is not cell and c.node is n for c in living)

    def value_of(self, n: Node, what: str) -> np.ndarray:
        """Return the value of a node of this step, computed from the state at the start of the step.

        The value is cached until the end of the step. `what` names the reading call. If the step is not readable, raise
        TraceError (ClientValueError for ".numpy()"); in a check run, report a finding instead.
        """
        if not self.readable:
            kind = ClientValueError if what == ".numpy()" else TraceError
            error = kind(
                f"{what} needs the value of a {n.type}, but tensors have no values while a step is traced",
                where=source.where(),
                hint=self.way_out,
                lead=MATERIALIZED_MESSAGE if what in FETCHING_CALLS else "",
            )
            refuse(f"read {what}", error, str(n.type))
        # On the CPU backend, compute a value that the script reads now, from the values at the start of the step. All
        # other values are left to the compiled step.
        if n not in self._memo:
            self._memo.update(self.cells.values_before(self._memo))
            self._memo[n] = evaluate([n], self._memo)[0]
        return self._memo[n]

    def client_value(self, n: Node) -> np.ndarray | None:
        """Return the value of a node that depends only on tensors kept by the client: unnamed tensors of the script.

        Return None for any other node, and always None if the step is readable.
        """
        known = None if self.readable else self.cells.client_values(n)
        return None if known is None else evaluate([n], known)[0]

    def pause(self) -> None:
        """Pause the recording: the step stays active, and creating or writing a tensor is an error of the script."""
        self._move("pause")

    def resume(self) -> None:
        """Continue recording after `pause`."""
        self._move("resume")

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the operations of the block even if the step is paused, and pause it again afterwards."""
        is_paused = self.phase is CapturePhase.PAUSED
        if is_paused:
            self.resume()
        try:
            yield
        finally:
            if is_paused:
                self.pause()

    def run_at_end(self, action: Callable[[], None]) -> None:
        """Register a function that is called at the end of the step; its operations are recorded after all others."""
        self._endings.append(action)

    def finish_recording(self) -> None:
        """Call the functions registered by `run_at_end`, in order, and forget them.

        Works also while the step is paused.
        """
        # These functions are internal, so they may record operations while the step is paused.
        if self._endings:
            with self.recording():
                # They depend on the whole step (for example, whether its update was skipped), and may create storages
                # that become outputs.
                for action in self._endings:
                    action()
            self._endings.clear()

    def graph(self) -> tuple[Graph, list[Storage]]:
        """Return the step as a graph, and the storages that get the values of its outputs, in the same order.

        The outputs are the values of all live storages that the step created or wrote. Calls the functions registered
        by `run_at_end` first. If the step is not readable, unnamed state that is neither updated nor used is left out.
        """
        self.finish_recording()
        # Determined at the end, so that tensors that the script has freed are not outputs.
        waiting = self.cells.live_storages()
        outputs = tuple(c.node for c in waiting if c.node is not None)
        inputs = tuple(fed.leaf for fed in self.cells.inputs)
        updates = self.cells.updates()
        # On the wafer, tensors that the script only read on the client are not state of the program.
        state = self.cells.state() if self.readable else self.cells.used_state(outputs, updates)
        return Graph(inputs, state, outputs, updates), waiting

    def arrays(self) -> list[np.ndarray]:
        """Return the arrays of the inputs, in order."""
        return [fed.array for fed in self.cells.inputs]

    def finish(self, waiting: Sequence[Storage], values: Sequence[np.ndarray]) -> None:
        """Store the results of the executed step: `values[i]` becomes the value of `waiting[i]`.

        State has its new value in the store. Raises TraceError unless the step is being recorded or is paused.
        """
        self._move("finish")
        self.cells.hand_out(waiting, values)

    def reveal(self, waiting: Sequence[Storage], values: Sequence[np.ndarray]) -> None:
        """Leave the executed step temporarily, until `hide` is called.

        `values[i]` becomes the value of `waiting[i]`. Results and state can be read outside.
        """
        self._move("reveal")
        storage.set_active_capture(self._outer)
        # Save the nodes before values replace them: the next step needs them again.
        self.cells.remember(waiting)
        self.client_state |= self.cells.keep_on_client()
        self.cells.hand_out(waiting, values)

    def hide(self) -> None:
        """Re-enter the step after `reveal`, to execute it again: its storages have symbolic values again.

        State that was changed outside meanwhile is written to the store.
        """
        self._move("hide")
        self.cells.restore_symbolic()
        self._outer = storage.set_active_capture(self)

    def leave(self) -> None:
        """Leave a step that was recorded or hidden but not executed since, and restore all storages.

        Raises TraceError in any other phase. The step is over afterwards.
        """
        self._move("leave")
        storage.set_active_capture(self._outer)
        self.abandon()

    def abandon(self) -> None:
        """Give all storages their values from before the step. The step must not be active.

        Raises TraceError if it is, or if the step was executed and ended.
        """
        self._move("abandon")
        self.cells.restore()
