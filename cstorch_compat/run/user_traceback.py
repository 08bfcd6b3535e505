"""Tracebacks for users: frames inside this package are left out unless LT_TRACEBACK=full is set."""

import contextlib
import os
import traceback

from lazytensor import config
from lazytensor.core import source
from lazytensor.errors import LazyError
from lazytensor.ir.types import Where

_STDLIB_FOLDER = os.path.join(os.path.dirname(os.__file__), "")
HIDDEN_FRAMES_NOTE = "(raised inside lazywafer; set LT_TRACEBACK=full to show its frames)\n"
"""The last line of a traceback whose exception was raised unintentionally inside this package."""


def format_traceback(e: BaseException) -> str:
    """Return the traceback of `e` and its causes as text, without frames inside this package.

    A cause that is a LazyError with the same message as `e` is left out. If no frame is the user's, the whole traceback
    of `e` is kept. In debug mode and with LT_TRACEBACK=full all frames are shown.
    """
    told = traceback.TracebackException.from_exception(e)
    if config.current().whole_tracebacks or config.current().debug:
        return "".join(told.format())
    # Do not print a LazyError and the built-in error that repeats it.
    repeats = _has_same_message_as_cause(e)
    ends_here = bool(told.stack) and is_hidden_file(told.stack[-1].filename)
    _trim_stack(told)
    if repeats:
        told.__cause__ = told.__context__ = None
    # Intentional errors explain themselves. For other errors the hidden frames may matter.
    is_ours = isinstance(e, LazyError | ImportError) or repeats
    return "".join([*told.format(), HIDDEN_FRAMES_NOTE * (ends_here and not is_ours)])


def find_user_line(e: BaseException) -> Where | None:
    """Return the innermost line of user code in the traceback of `e`, or None.

    A line of the standard library counts only if there is no other.
    """
    frames = [(f.f_code.co_filename, n) for f, n in traceback.walk_tb(e.__traceback__)]
    named = [(file, n) for file, n in frames if not is_hidden_file(file) and (file == "<stdin>" or file[:1] != "<")]
    mine = [(file, n) for file, n in named if not file.startswith(_STDLIB_FOLDER)] or named
    return Where(*mine[-1]) if mine else None


def is_refusal(e: BaseException | None) -> bool:
    """Return whether `e` or an exception in its chain is a refusal of the wafer."""
    # The script may have caught a refusal and raised another exception.
    while e is not None:
        if isinstance(e, LazyError) and e.is_refusal:
            return True
        e = e.__cause__ or e.__context__
    return False


def _has_same_message_as_cause(e: BaseException) -> bool:
    """Return whether the cause of `e` is a LazyError with the same message."""
    return isinstance(e.__cause__, LazyError) and str(e.__cause__) == str(e)


def _trim_stack(told: traceback.TracebackException, is_inner: bool = False) -> None:
    """Remove internal frames from the stack of an exception and of its causes, in place."""
    # Without a user frame, keep all frames of an error. For a cause, whose stack begins where it was caught, the
    # message is enough.
    mine = [f for f in told.stack if not is_hidden_file(f.filename)]
    told.stack = traceback.StackSummary.from_list(mine or ([] if is_inner else list(told.stack)))
    for inner in (told.__cause__, told.__context__):
        if inner is not None:
            _trim_stack(inner, is_inner=True)


def is_hidden_file(file: str) -> bool:
    """Return whether frames of `file` are hidden: files of this package, the import system and `contextlib`."""
    return source.is_internal_file(file) or file.startswith("<frozen ") or file == contextlib.__file__
