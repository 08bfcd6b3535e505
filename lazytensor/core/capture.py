"""The capture of a step: how a program full of mutable tensors becomes a pure function of its state.

Outside a step, nodes are run when somebody reads. Inside one, each cell that existed before is replaced, when first
read, by a `state` leaf; what it points to at the end is its new value. `CAPTURE_LIFE_CYCLE` is the table of its phases.
After the Lazy Tensor Core of PyTorch (arXiv:2102.13267): handles over values, live handles by weak reference.
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
"""What brings a whole tensor to the client; other readings take one number out of it."""
MATERIALIZED_MESSAGE = (
    "Trying to materialize a tensor outside of a step closure.\nAll PyTorch code must be written to operate fully on "
    "torch.tensors and not call .item() (explicitly or as an implicit conversion to Python scalar), print tensor "
    "contents, or use a tensor as a Python conditional."
)
"""The original's words for it, by which users search."""


class CapturePhase(Enum):
    """Where a capture is in its life; the value is how an error says it."""

    FEEDING = "taking in its batch"
    RECORDING = "being recorded"
    PAUSED = "between two traced functions"
    REVEALED = "over for now, with its results shown"
    REPLAYING = "executed again as it was recorded"
    FINISHED = "executed"
    LEFT = "recorded and left"
    OVER = "over"


CAPTURE_LIFE_CYCLE = LifeCycle(
    "a step",
    (
        Transition(
            CapturePhase.FEEDING,
            "feed",
            CapturePhase.FEEDING,
            "inputs are values from outside, so they are taken before entering",
        ),
        Transition(CapturePhase.FEEDING, "enter", CapturePhase.RECORDING, "operations now belong to the step"),
        Transition(
            CapturePhase.RECORDING,
            "pause",
            CapturePhase.PAUSED,
            "on CSX traced functions record, and not the loop around them",
        ),
        Transition(CapturePhase.PAUSED, "resume", CapturePhase.RECORDING, "a traced function is called"),
        # The CSX backend's way: one program is recorded and then run for every step, and between two runs the loop's
        # closures see the cells with values (REVEALED); `hide` makes them symbolic again.
        Transition(
            CapturePhase.PAUSED, "reveal", CapturePhase.REVEALED, "the step has run, and closures read its results"
        ),
        Transition(
            CapturePhase.REVEALED,
            "hide",
            CapturePhase.REPLAYING,
            "the next step runs the same program over the same cells",
        ),
        Transition(CapturePhase.REPLAYING, "reveal", CapturePhase.REVEALED, "that step has run too"),
        # The CPU's way: every step is recorded anew, and its graph found again by identity.
        Transition(
            CapturePhase.RECORDING, "finish", CapturePhase.FINISHED, "on the CPU a step is executed where it ends"
        ),
        Transition(
            CapturePhase.PAUSED, "finish", CapturePhase.FINISHED, "the same for a step of several traced functions"
        ),
        Transition(
            CapturePhase.FINISHED, "leave", CapturePhase.OVER, "every cell has its value; nothing is left to do"
        ),
        Transition(
            CapturePhase.RECORDING,
            "leave",
            CapturePhase.LEFT,
            "the graph can still be taken from a step that is not executed",
        ),
        Transition(CapturePhase.PAUSED, "leave", CapturePhase.LEFT, "the same where only traced functions record"),
        Transition(CapturePhase.REPLAYING, "leave", CapturePhase.LEFT, "the loop ends before the step has run"),
        Transition(CapturePhase.LEFT, "enter", CapturePhase.RECORDING, "a step that was left can be gone on with"),
        Transition(CapturePhase.FEEDING, "abandon", CapturePhase.OVER, "the batch was wrong"),
        Transition(CapturePhase.LEFT, "abandon", CapturePhase.OVER, "every cell is as it was before"),
    ),
)
"""What may happen to a capture; anything else raises TraceError."""
_NOT_RECORDING_PHASES = (
    CapturePhase.PAUSED,
    CapturePhase.REPLAYING,
)  # the current step, of which the loop around it is no part


class Capture:
    """One traced step: what it read, what it made, what it wrote.

    With `readable` a value may be asked for while the step is being traced (the CPU backend, where PyTorch is eager);
    otherwise that raises TraceError.
    """

    has_calls = False
    """Whether functions stand in the graph as calls, which `ir.graph_function.inline_calls` writes out."""
    way_out = "Choose with torch.where(...) in the step, or read the value in a @cstorch.step_closure."

    def __init__(self, store: Store, readable: bool):
        self.store, self.readable = store, readable
        self.phase = CapturePhase.FEEDING
        self._is_silent = False  # kept beside the phase, since every operation of the step asks
        self.cells = CapturedStorages(store, self)
        # Bound here and not forwarded: every parameter is touched in every step.
        self.touch = self.cells.touch
        self.client_state: set[str] = set()  # names of tensors that the step reads and the client keeps
        self.rules = 0  # how many nodes with a gradient of the user's were made
        # Values that a script read while it was traced; the step's own inputs do not change under it, so they stay
        # right.
        self._memo: dict[Node, np.ndarray] = {}
        self._endings: list[Callable[[], None]] = []
        # A step can be captured inside of another one, which is the current one again behind it.
        self._outer: storage.ActiveCapture | None = None

    def _move(self, event: str) -> None:
        """Go on to the next phase. Raises TraceError for what does not happen in this one."""
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
        # Without an error a step that was not executed stays LEFT: its graph may still be asked for.
        # What was executed stays; what was only recorded is forgotten with the exception.
        if was_executed:
            # The bound method and the record refer to each other: without a search nothing would let go of the batch.
            del self.touch
            self.cells.end()
        elif kind is not None:
            self.abandon()

    def feed(self, cell: Storage, index: int, name: str) -> None:
        """Make the cell's value input number `index` of the step. To be called before entering."""
        self._move("feed")
        self.cells.feed(cell, index, name)

    def new_input_storage(self, array: np.ndarray, type: Type) -> Storage:
        """A new cell with a value that is known now and another one in the next step."""
        return self.cells.new_input_storage(array, type)

    def record_written(self, cell: Storage) -> None:
        """Note a cell that was made or written in this step. Raises TraceError between traced functions."""
        # The loop around the traced function may hold tensors, but on the wafer nothing would ever compute what it does
        # with them: the vendor's message, since users search for it.
        if self._is_silent:
            error = TraceError(
                'New output detected outside of "@cstorch.trace" decorator: an operation was called in the loop itself',
                where=source.where(),
                hint="Move it into the function decorated with @cstorch.trace, or into a @cstorch.step_closure.",
            )
            refuse("outside trace", error)
        self.cells.born.append(weakref.ref(cell))

    def settle(self, cell: Storage) -> None:
        """Note a cell that was made in this step around a value that is known."""
        self.cells.settled.append(weakref.ref(cell))

    def uses(self, n: Node) -> bool:
        """Whether a gradient may come to a node from what was computed in the step."""
        # Nodes of the last trace live on and are found again: what counts is what this one has computed.
        values = [c.node for r in self.cells.born if (c := r()) is not None and c.node is not None]
        return any(u.tracks and n in u.inputs for u in topological(values))

    def shows(self, n: Node, cell: Storage) -> bool:
        """Whether another cell of the step than `cell` has the node for its value."""
        living = (c for r in self.cells.born if (c := r()) is not None)
        return any(c is not cell and c.node is n for c in living)

    def value_of(self, n: Node, what: str) -> np.ndarray:
        """The value of a node of this step, from the state as it was when the step began."""
        if not self.readable:
            kind = ClientValueError if what == ".numpy()" else TraceError
            error = kind(
                f"{what} needs the value of a {n.type} inside a traced step, where it has none yet",
                where=source.where(),
                hint=self.way_out,
                lead=MATERIALIZED_MESSAGE if what in FETCHING_CALLS else "",
            )
            refuse(f"read {what}", error, str(n.type))
        # The CPU backend is eager to the script, so a value that is read is computed now, from what the step began
        # with; what is not read is left to the compiled step.
        if n not in self._memo:
            self._memo.update(self.cells.values_before(self._memo))
            self._memo[n] = evaluate([n], self._memo)[0]
        return self._memo[n]

    def client_value(self, n: Node) -> np.ndarray | None:
        """The value of a node that depends on tensors of the client only; None for any other, and in an eager step."""
        known = None if self.readable else self.cells.client_values(n)
        return None if known is None else evaluate([n], known)[0]

    def pause(self) -> None:
        """Stop recording, and stay the current step: what is recorded now is a mistake of the script."""
        self._move("pause")

    def resume(self) -> None:
        """Record again."""
        self._move("resume")

    @contextmanager
    def recording(self) -> Iterator[None]:
        """A block in which operations are recorded, whether or not they were before."""
        is_paused = self.phase is CapturePhase.PAUSED
        if is_paused:
            self.resume()
        try:
            yield
        finally:
            if is_paused:
                self.pause()

    def run_at_end(self, action: Callable[[], None]) -> None:
        """Have an action recorded after all else that the step does."""
        self._endings.append(action)

    def finish_recording(self) -> None:
        """Run the actions of `at_end`."""
        # Endings are recorded between two functions, where nothing else may be: they are our own operations.
        if self._endings:
            with self.recording():
                # They look back on the whole step (was its update skipped?), and may make cells that `living` has to
                # see.
                for action in self._endings:
                    action()
            self._endings.clear()

    def graph(self) -> tuple[Graph, list[Storage]]:
        """The step as a pure function, and the cells that wait for its outputs."""
        self.finish_recording()
        # Asked for at the end, so that what the body has let go of is no output.
        waiting = self.cells.live_storages()
        outputs = tuple(c.node for c in waiting if c.node is not None)
        inputs = tuple(fed.leaf for fed in self.cells.inputs)
        updates = self.cells.updates()
        # What the script only read on the client is no state of a program that the wafer runs.
        state = self.cells.state() if self.readable else self.cells.used_state(outputs, updates)
        return Graph(inputs, state, outputs, updates), waiting

    def arrays(self) -> list[np.ndarray]:
        """The batch, in order."""
        return [fed.array for fed in self.cells.inputs]

    def finish(self, waiting: Sequence[Storage], values: Sequence[np.ndarray]) -> None:
        """Put the results of the executed step into the cells that wait, and send state home."""
        self._move("finish")
        self.cells.hand_out(waiting, values)

    def reveal(self, waiting: Sequence[Storage], values: Sequence[np.ndarray]) -> None:
        """Leave the step for a while: its results and its state can be read from outside."""
        self._move("reveal")
        storage.set_active_capture(self._outer)
        # Before the values: they take the place of the nodes that the next step needs again.
        self.cells.remember(waiting)
        self.client_state |= self.cells.keep_on_client()
        self.cells.hand_out(waiting, values)

    def hide(self) -> None:
        """Come back after `reveal`: nothing has a value again."""
        self._move("hide")
        self.cells.restore_symbolic()
        self._outer = storage.set_active_capture(self)

    def leave(self) -> None:
        """Stop being the current step without having run, and forget it."""
        self._move("leave")
        storage.set_active_capture(self._outer)
        self.abandon()

    def abandon(self) -> None:
        """Forget a step that is not the current one: every cell is as it was before."""
        self._move("abandon")
        self.cells.restore()
