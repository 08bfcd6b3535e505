"""Tracebacks for whoever wrote the script: they begin at the user's frames, and end there if the error is ours."""

import contextlib
import traceback

from lazytensor import config, source
from lazytensor.errors import LazyError


def text(e: BaseException) -> str:
    """An exception with its causes, as Python prints it, without the frames that say nothing to the user."""
    # A built-in error that repeats one of ours says nothing twice.
    repeats = _is_repeated(e)
    told = traceback.TracebackException.from_exception(e)
    _trim(told, e)
    if repeats:
        told.__cause__ = told.__context__ = None
    return "".join(told.format())


def _is_repeated(e: BaseException) -> bool:
    return isinstance(e.__cause__, LazyError) and str(e.__cause__) == str(e)


def _trim(told: traceback.TracebackException, e: BaseException) -> None:
    """Shorten the stack of an exception, and those of its causes, whose tracebacks are printed too."""
    # A module that is not there is told by the import shim, in Python's own class.
    is_ours = isinstance(e, LazyError | ImportError) or _is_repeated(e)
    told.stack = traceback.StackSummary.from_list(_frames(told.stack, is_ours))
    for inner, cause in ((told.__cause__, e.__cause__), (told.__context__, e.__context__)):
        if inner is not None and cause is not None:
            _trim(inner, cause)


def _frames(stack: traceback.StackSummary, is_ours: bool) -> list[traceback.FrameSummary]:
    mine = [k for k, f in enumerate(stack) if not is_machinery(f.filename)]
    if not mine:
        return list(stack)
    # What is raised on purpose says itself what happened; of anything else the way through the house is needed too.
    if is_ours and not config.current().debug:
        return [stack[k] for k in mine]
    return list(stack)[mine[0] :]


def is_machinery(file: str) -> bool:
    """Whether a file is of the house, or of what Python runs scripts, imports and `with` blocks with."""
    return source.is_house(file) or file.startswith("<frozen ") or file == contextlib.__file__
