"""Sessions: what each may be told when, by the table of the wafer's and by the protocol that all of them declare."""

import inspect

import numpy as np
import pytest

import lazytensor as lt
from cstorch_compat.check.traced_session import CheckSession
from cstorch_compat.run import process
from cstorch_compat.run.eager_session import EagerSession
from cstorch_compat.run.flags import CSX_SETTINGS, FlagGroup
from cstorch_compat.run.plain_loop import PlainSession
from cstorch_compat.run.session import ExecutionSession, LoopSession
from cstorch_compat.run.wafer_session import SESSION_LIFE_CYCLE, SessionPhase, WaferSession
from lazytensor import config
from lazytensor.core import storage
from lazytensor.errors import TraceError

WAYS = {
    SessionPhase.OPEN: (),
    SessionPhase.TRACING: ("trace",),
    SessionPhase.RUNNING: ("trace", "run"),
    SessionPhase.SKIPPED: ("trace", "skip"),
    SessionPhase.CLOSED: ("close",),
}
"""The shortest way of events to each phase."""


@pytest.fixture
def session_of(monkeypatch, tmp_path):
    """A session of a backend that is made with these settings."""

    def make(**settings) -> WaferSession:
        monkeypatch.setattr(process.RUN, "backend", None)
        weights[:] = [lt.zeros(3)]
        weights[0].device = process.make_backend("CSX", artifact_dir=tmp_path, **settings).torch_device
        return process.current_backend().session()

    with config.override(jit=False):
        yield make
    storage.reset()


def happen(session: WaferSession, event: str) -> None:
    """Make one event happen, as an executor does."""
    if event == "close":
        session.close()
    elif event in ("trace", "replay"):
        seen = session.begin((lt.ones(2, 3),))
        session.call(body, (seen,), {})
    else:
        if session.phase is SessionPhase.RUNNING:
            session.begin((lt.ones(2, 3),))
        session.end(1, True, lambda: None)


weights: list[lt.Tensor] = []  # the weight of the step


def body(batch):
    weights[0].add_(batch[0].sum(0))


@pytest.mark.parametrize("move", SESSION_LIFE_CYCLE.moves, ids=lambda m: f"{m.phase.name}-{m.event}")
def test_every_row_of_the_table_can_happen(move, session_of, monkeypatch):
    monkeypatch.setattr(process.RUN, "flags", FlagGroup("csx", CSX_SETTINGS, lambda: False))
    process.RUN.flags.debug.retrace_every_iteration = (move.phase, move.event) == (SessionPhase.RUNNING, "trace")
    session = session_of(validate_only="skip" in (move.event, *WAYS[move.phase]))
    for event in (*WAYS[move.phase], move.event):
        happen(session, event)
    assert session.phase is move.then and move.why


@pytest.mark.parametrize("act", ["begin", "end"])
def test_nothing_happens_to_a_session_that_is_closed(act, session_of):
    session = session_of()
    session.close()
    with pytest.raises(TraceError, match="closed"):
        session.begin((lt.ones(2, 3),)) if act == "begin" else happen(session, "run")


def test_a_step_without_a_batch_is_refused(session_of):
    with pytest.raises(TraceError, match="waiting for its first batch"):
        session_of().end(1, True, lambda: None)


def test_a_replayed_step_runs_the_program_on_its_own_batch(session_of):
    session = session_of()
    for k in (1.0, 2.0, 3.0):
        seen = session.begin((lt.full((2, 3), k),))
        session.call(body, (seen,), {})
        session.end(int(k), True, lambda: None)
    session.close()
    np.testing.assert_array_equal(weights[0].numpy(), np.full(3, 12.0, np.float32))


@pytest.mark.parametrize("kind", [EagerSession, WaferSession, PlainSession, CheckSession])
def test_every_session_declares_the_protocol_and_writes_all_of_it(kind):
    assert ExecutionSession in kind.__mro__
    protocol = LoopSession if LoopSession in kind.__mro__ else ExecutionSession
    for name, member in inspect.getmembers(protocol, inspect.isfunction):
        if not name.startswith("_"):
            assert getattr(kind, name) is not member
            assert list(inspect.signature(getattr(kind, name)).parameters) == list(inspect.signature(member).parameters)
