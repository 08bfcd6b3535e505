"""Life cycles as tables: which event may follow in which phase, where it leads, and why there is such a transition."""

from collections.abc import Iterable
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from lazytensor.core import source
from lazytensor.errors import TraceError

P = TypeVar("P", bound=Enum)


class Transition(NamedTuple, Generic[P]):
    """One allowed transition."""

    phase: P
    event: str
    then: P
    why: str


class LifeCycle(Generic[P]):
    """The moves of one kind of thing, which errors call `subject`. The value of a phase is how an error says it."""

    def __init__(self, subject: str, moves: Iterable[Transition[P]]):
        self.subject, self.moves = subject, tuple(moves)
        # By event and then by identity: a lookup by phase would hash an Enum, in Python, several times a step.
        self._by_event: dict[str, tuple[Transition[P], ...]] = {
            event: tuple(move for move in self.moves if move.event == event)
            for event in {move.event for move in self.moves}
        }

    def after(self, phase: P, event: str) -> P:
        """The phase that an event leads to. Raises TraceError if it does not happen in that phase."""
        for move in self._by_event.get(event, ()):
            if move.phase is phase:
                return move.then
        possible = ", ".join(move.event for move in self.moves if move.phase is phase) or "nothing"
        raise TraceError(
            f"cannot {event} {self.subject} that is {phase.value} ({phase.name})",
            where=source.where(),
            hint=f"What can happen to it now: {possible}.",
        )
