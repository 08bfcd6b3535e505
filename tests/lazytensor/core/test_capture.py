"""The life of a capture: what its table allows happens, and everything else is refused with the phase's name."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import lazytensor as lt
from lazytensor.core import storage
from lazytensor.core.capture import CAPTURE_LIFE_CYCLE, Capture, CapturePhase
from lazytensor.core.storage import Storage
from lazytensor.errors import TraceError
from lazytensor.ir.graph import leaf
from lazytensor.ir.types import Type
from lazytensor.runtime.reference import evaluate
from lazytensor.runtime.state_store import Store

EVENTS = sorted({move.event for move in CAPTURE_LIFE_CYCLE.moves})
NEXT = {(move.phase, move.event): move.then for move in CAPTURE_LIFE_CYCLE.moves}
CURRENT = {CapturePhase.RECORDING, CapturePhase.PAUSED, CapturePhase.REPLAYING, CapturePhase.FINISHED}


RECORDED: "weakref.WeakKeyDictionary[Capture, tuple]" = weakref.WeakKeyDictionary()


def executed(capture: Capture) -> tuple[list, list[np.ndarray]]:
    """Run what was captured, as a session does, again if it ran before: the cells that wait, and their values."""
    if capture.phase is not CapturePhase.REPLAYING:
        RECORDED[capture] = capture.graph()
    graph, waiting = RECORDED[capture]
    env = dict(zip(graph.inputs, capture.arrays(), strict=True))
    env |= {leaf: capture.store.array(name) for name, leaf in graph.state.items()}
    values = [v.copy() for v in evaluate(graph.roots(), env)]
    for name, value in zip(graph.updates, values, strict=False):
        capture.store.put(name, value)
    return waiting, values[len(graph.updates) :]


def happen(capture: Capture, event: str) -> None:
    """Make one event happen."""
    if event == "feed":
        capture.feed(
            Storage.outside(leaf(np.ones(2, np.float32), Type((2,), lt.float32))), len(capture.cells.inputs), "x"
        )
    elif event in ("enter", "leave"):
        capture.__enter__() if event == "enter" else capture.__exit__(None)
    elif event in ("finish", "reveal"):
        is_allowed = (capture.phase, event) in NEXT
        getattr(capture, event)(*(executed(capture) if is_allowed else ([], [])))
    else:
        getattr(capture, event)()


class Life(RuleBasedStateMachine):
    """Random events: the phase follows the table, and a weight has the value of the steps that were executed."""

    def __init__(self):
        super().__init__()
        self.weight = lt.zeros(())
        storage.register(self.weight.cell, "weight")
        self.begin()

    def begin(self):
        self.capture = Capture(Store(), readable=False)
        self.phase, self.value = CapturePhase.FEEDING, int(self.weight.item())
        self.added = self.program = 0  # what is recorded, and what a replay adds

    @rule(event=st.sampled_from(EVENTS))
    def attempt(self, event):
        then = NEXT.get((self.phase, event))
        if then is None:
            with pytest.raises(TraceError, match=self.phase.name):
                happen(self.capture, event)
            return
        happen(self.capture, event)
        if event in ("reveal", "finish"):
            if self.phase is not CapturePhase.REPLAYING:
                self.program, self.added = self.added, 0
            self.value += self.program
        self.phase = then

    @precondition(lambda self: self.phase is CapturePhase.RECORDING)
    @rule()
    def record(self):
        self.weight.add_(1)
        self.added += 1

    @precondition(lambda self: self.phase in (CapturePhase.PAUSED, CapturePhase.REPLAYING))
    @rule()
    def record_in_the_loop(self):
        with pytest.raises(TraceError, match="New output detected outside"):
            lt.ones(2) + 1

    @precondition(lambda self: self.phase is CapturePhase.OVER)
    @rule()
    def begin_again(self):
        self.begin()

    @invariant()
    def phase_follows_the_table(self):
        assert self.capture.phase is self.phase
        assert (storage.thread_state.current is self.capture) == (self.phase in CURRENT)

    @invariant()
    def weight_has_the_value_of_the_steps_that_ran(self):
        if self.phase in (CapturePhase.REVEALED, CapturePhase.OVER):
            assert self.weight.item() == self.value

    def teardown(self):
        storage.reset()


Life.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestLife = Life.TestCase


def path_to(phase: CapturePhase) -> list[str]:
    """The shortest way to a phase."""
    paths = {CapturePhase.FEEDING: []}
    while phase not in paths:
        for move in CAPTURE_LIFE_CYCLE.moves:
            if move.phase in paths:
                paths.setdefault(move.then, [*paths[move.phase], move.event])
    return paths[phase]


@pytest.fixture
def capture():
    yield Capture(Store(), readable=False)
    storage.reset()


@pytest.mark.parametrize("move", CAPTURE_LIFE_CYCLE.moves, ids=lambda m: f"{m.phase.name}-{m.event}")
def test_every_row_of_the_table_can_happen(move, capture):
    for event in (*path_to(move.phase), move.event):
        happen(capture, event)
    assert capture.phase is move.then and move.why


def test_no_row_stands_twice():
    assert len(NEXT) == len(CAPTURE_LIFE_CYCLE.moves)


@pytest.mark.parametrize("phase", CapturePhase)
def test_what_is_not_in_the_table_is_refused_and_changes_nothing(phase, capture):
    for event in path_to(phase):
        happen(capture, event)
    for event in EVENTS:
        if (phase, event) not in NEXT:
            with pytest.raises(TraceError, match=f"cannot {event} a step that is .*{phase.name}") as caught:
                happen(capture, event)
            assert capture.phase is phase and caught.value.hint


def test_recording_inside_recording_goes_on_recording(capture):
    with capture, capture.recording():
        with capture.recording():
            pass
        assert capture.phase is CapturePhase.RECORDING
        capture.pause()
        with capture.recording():
            lt.ones(2) + 1
        assert capture.phase is CapturePhase.PAUSED


def test_an_executed_step_lets_go_of_its_batch_without_a_search(capture):
    gc.disable()
    try:
        before = leaf(np.ones(2, np.float32), Type((2,), lt.float32))
        array = weakref.ref(before.value)
        capture.feed(Storage.outside(before), 0, "x")
        with capture:
            happen(capture, "finish")
        del before
        assert array() is None
    finally:
        gc.enable()
