"""Tracebacks for whoever wrote the script: the frames of the house are left out, which LT_TRACEBACK=full shows."""

import contextlib
import os
import traceback

from lazytensor import config
from lazytensor.core import source
from lazytensor.errors import LazyError
from lazytensor.ir.types import Where

_STDLIB_FOLDER = os.path.join(os.path.dirname(os.__file__), "")
HIDDEN_FRAMES_NOTE = "(raised inside of lazywafer, whose frames are left out: LT_TRACEBACK=full shows them)\n"
"""Said of an error that was not raised on purpose."""


def format_traceback(e: BaseException) -> str:
    """An exception with its causes, as Python prints it, without the frames that say nothing to the user."""
    told = traceback.TracebackException.from_exception(e)
    if config.current().whole_tracebacks or config.current().debug:
        return "".join(told.format())
    # A built-in error that repeats one of ours says nothing twice.
    repeats = _has_same_message_as_cause(e)
    ends_here = bool(told.stack) and is_hidden_file(told.stack[-1].filename)
    _trim_stack(told)
    if repeats:
        told.__cause__ = told.__context__ = None
    # What is raised on purpose says what happened; of anything else the way into the house may be what is looked for.
    is_ours = isinstance(e, LazyError | ImportError) or repeats
    return "".join([*told.format(), HIDDEN_FRAMES_NOTE * (ends_here and not is_ours)])


def find_user_line(e: BaseException) -> Where | None:
    """Return the innermost line of the user's code that an exception came through; None if there is none.

    A line of Python's own library counts only if no other line does.
    """
    frames = [(f.f_code.co_filename, n) for f, n in traceback.walk_tb(e.__traceback__)]
    named = [(file, n) for file, n in frames if not is_hidden_file(file) and (file == "<stdin>" or file[:1] != "<")]
    mine = [(file, n) for file, n in named if not file.startswith(_STDLIB_FOLDER)] or named
    return Where(*mine[-1]) if mine else None


def is_refusal(e: BaseException | None) -> bool:
    """Whether an exception, or what it came from, is one that the wafer refuses with."""
    # A script may have caught it and raised an error of its own.
    while e is not None:
        if isinstance(e, LazyError) and e.is_refusal:
            return True
        e = e.__cause__ or e.__context__
    return False


def _has_same_message_as_cause(e: BaseException) -> bool:
    return isinstance(e.__cause__, LazyError) and str(e.__cause__) == str(e)


def _trim_stack(told: traceback.TracebackException, is_inner: bool = False) -> None:
    """Shorten the stack of an exception, and those of its causes, whose tracebacks are printed too."""
    # An error that no frame of the user's led to is told whole; of a cause, which begins where it was caught, the
    # words are enough.
    mine = [f for f in told.stack if not is_hidden_file(f.filename)]
    told.stack = traceback.StackSummary.from_list(mine or ([] if is_inner else list(told.stack)))
    for inner in (told.__cause__, told.__context__):
        if inner is not None:
            _trim_stack(inner, is_inner=True)


def is_hidden_file(file: str) -> bool:
    """Whether a file is of the house, or of what Python runs scripts, imports and `with` blocks with."""
    return source.is_internal_file(file) or file.startswith("<frozen ") or file == contextlib.__file__
