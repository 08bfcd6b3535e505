"""Closures: calls that wait until the step they were made in has run."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    """One call of a closure that waits."""

    function: Callable
    args: tuple
    kwargs: dict
    needs_checkpoint: bool

    def arguments(self) -> dict[str, Any]:
        """The arguments by the name of the parameter that takes them."""
        code = getattr(self.function, "__code__", None)
        if code is None:
            return {**{str(i): a for i, a in enumerate(self.args)}, **self.kwargs}
        parameters = code.co_varnames[: code.co_argcount]
        named = dict(zip(parameters, self.args, strict=False))
        rest = self.args[len(parameters) :]
        if rest and code.co_flags & 4:  # *args
            named[code.co_varnames[code.co_argcount + code.co_kwonlyargcount]] = rest
        return {**named, **self.kwargs}


@dataclass
class Closures:
    """The calls of one step, in the order in which they were made."""

    queue: list[Call] = field(default_factory=list)

    def run(self, is_checkpoint: bool, prepare: Callable[[Any], Any]) -> None:
        """Make the calls; those of checkpoint closures only if this is a checkpoint step.

        `prepare` turns arguments into what the closure sees.
        """
        waiting, self.queue = self.queue, []
        for call in waiting:
            if is_checkpoint or not call.needs_checkpoint:
                call.function(*prepare(call.args), **prepare(call.kwargs))
