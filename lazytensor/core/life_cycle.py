"""State machines as tables of transitions: the phase, the event, the next phase, and the reason for the transition."""

from collections.abc import Iterable
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from lazytensor.core import source
from lazytensor.errors import TraceError

P = TypeVar("P", bound=Enum)


class Transition(NamedTuple, Generic[P]):
    """An allowed transition from `phase` to `then` on `event`; `why` is its reason, for readers only."""

    phase: P
    event: str
    then: P
    why: str


class LifeCycle(Generic[P]):
    """A state machine over an Enum of phases.

    `subject` names the object in error messages, and `moves` are the allowed transitions. The value of a phase is its
    description in error messages.
    """

    def __init__(self, subject: str, moves: Iterable[Transition[P]]):
        self.subject, self.moves = subject, tuple(moves)
        # By event, then a search by identity: hashing an Enum member is slow, and this runs several times per step.
        self._by_event: dict[str, tuple[Transition[P], ...]] = {
            event: tuple(move for move in self.moves if move.event == event)
            for event in {move.event for move in self.moves}
        }

    def after(self, phase: P, event: str) -> P:
        """Return the phase that follows `phase` on `event`. Raises TraceError if there is no such transition."""
        for move in self._by_event.get(event, ()):
            if move.phase is phase:
                return move.then
        possible = ", ".join(move.event for move in self.moves if move.phase is phase) or "nothing"
        raise TraceError(
            f"cannot {event} {self.subject} that is {phase.value} ({phase.name})",
            where=source.where(),
            hint=f"In this phase, do only: {possible}.",
        )
