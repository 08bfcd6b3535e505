"""Finds the line of user code that is being executed, for errors and for the locations in printed graphs."""

import copy
import os
import pathlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np

from lazytensor.ir.types import Where

Frames = tuple[tuple[str, str, int], ...]
"""Functions with file and line, innermost first."""
CachedLocation = list[Where]
"""The place that waits for a call of the house, once somebody has looked for it; see `enter_call`."""

_PACKAGE = pathlib.Path(__file__).parents[1]
_PACKAGE_FOLDERS = tuple(str(_PACKAGE.with_name(name)) for name in ("lazytensor", "wse_sim", "cstorch_compat"))
_LAYER_FOLDERS = tuple(str(_PACKAGE / name) for name in ("nn", "functional"))
NUMPY_FOLDER = str(pathlib.Path(np.__file__).parent)
"""Where NumPy is, which calls back what it is given: tensors among it."""
# In a worker the outermost frames are those that started its process, and then the loop over the loader.
_MULTIPROCESSING_FOLDER = str(pathlib.Path(os.__file__).parent / "multiprocessing")
_SKIPPED_PREFIXES = (*_PACKAGE_FOLDERS, NUMPY_FOLDER, _MULTIPROCESSING_FOLDER, str(copy.__file__), "<frozen importlib")


class _ThreadLocation(threading.local):
    """Where each thread stands in the user's model."""

    fixed: Where | None = None
    keeps_frames = False
    line: "CachedLocation | None" = None

    def __init__(self) -> None:
        self.scopes: list[str] = []


_thread_location = _ThreadLocation()
block_names: dict[str, str] = {}
"""By path, the names of blocks that are no modules."""
# Every operation asks where it was called, mostly from few lines of few files.
_is_internal: dict[str, bool] = {}
_locations: dict[tuple[str, int, str, Frames], Where] = {}


def push_scope(name: str) -> None:
    """Enter a module or name scope; nodes made from now on carry its path."""
    # An empty name adds no part to the path, but has to be pushed: every push has its pop.
    scopes = _thread_location.scopes
    scopes.append(f"{scopes[-1]}.{name}" if scopes and name else name or (scopes[-1] if scopes else ""))


def push_block(name: str) -> None:
    """Enter a block that the script names itself, which printed graphs call by that name alone."""
    push_scope(name)
    # Without a name it is the module around it.
    if name:
        block_names[_thread_location.scopes[-1]] = name


def pop_scope() -> None:
    """Leave the innermost scope."""
    _thread_location.scopes.pop()


def reset() -> None:
    """Be outside of every scope."""
    _thread_location.scopes.clear()
    block_names.clear()


def where() -> Where:
    """The line of `user_frame`, or the place that a block is fixed to."""
    if _thread_location.fixed is not None:
        return _thread_location.fixed
    line, scopes = _thread_location.line, _thread_location.scopes
    scope = scopes[-1] if scopes else ""
    if line:
        last = line[0]
        if last.scope == scope:
            return last
        key = last.file, last.line, scope, last.frames
    else:
        frame = user_frame()
        key = frame.f_code.co_filename, frame.f_lineno, scope, _frames(frame) if _thread_location.keeps_frames else ()
    place = _locations.get(key)
    if place is None:
        place = _locations[key] = Where(*key)
    if line is not None:
        line[:] = (place,)
    return place


def enter_call(function: Any) -> CachedLocation | None:
    """Note that a function begins, and give what `leave_call` is told when it ends.

    While a layer of ours runs, the line that called it stays where it is: one look finds it for all nodes.
    """
    before = _thread_location.line
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    if code is None or not code.co_filename.startswith(_LAYER_FOLDERS):
        _thread_location.line = None
    elif before is None:
        _thread_location.line = []
    return before


def call_user_function(function: Any, *arguments: Any) -> Any:
    """What a function gives that a layer of ours was handed: it may be the user's."""
    before = enter_call(function)
    try:
        return function(*arguments)
    finally:
        leave_call(before)


def leave_call(before: CachedLocation | None) -> None:
    """Note that the function has ended."""
    _thread_location.line = before


def user_frame() -> FrameType:
    """The innermost frame outside the house, or the outermost frame if all of it is ours."""
    # No `inspect.stack()`: it reads source files for every frame, and this runs for every new node.
    frame = sys._getframe(2)  # neither this one nor its caller, which is of the house
    # A user may subclass one of our modules: the innermost of their frames is the line to name.
    # A dozen frames for each node: files that are known are looked up here, without a call.
    while (outer := frame.f_back) is not None:
        file = frame.f_code.co_filename
        if not (_is_internal[file] if file in _is_internal else is_internal_file(file)):
            break
        frame = outer
    return frame


def _frames(frame: FrameType | None) -> Frames:
    """The user's functions from this frame outwards, as far as the script itself: what started it is not theirs."""
    frames = []
    while frame is not None:
        code = frame.f_code
        if not is_internal_file(code.co_filename):
            frames.append((code.co_name, code.co_filename, frame.f_lineno))
        if code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__":
            break
        frame = frame.f_back
    return tuple(frames)


@contextmanager
def record_call_frames() -> Iterator[None]:
    """A block in which places have their callers too, which takes longer: for graphs that are to be printed."""
    before, _thread_location.keeps_frames = _thread_location.keeps_frames, True
    try:
        yield
    finally:
        _thread_location.keeps_frames = before


def is_internal_file(file: str) -> bool:
    """Whether a file belongs to the house or to the import machinery, and is not the user's."""
    ours = _is_internal.get(file)
    if ours is None:
        ours = _is_internal[file] = file.startswith(_SKIPPED_PREFIXES)
    return ours


class fixed_location:
    """Give every node made in the block this place: a gradient belongs to the line of its forward operation."""

    __slots__ = ("_before", "_place")

    def __init__(self, place: Where | None):
        self._place = place

    def __enter__(self) -> None:
        # Blocks nest: the gradient of a gradient is recorded while another place is fixed.
        self._before, _thread_location.fixed = _thread_location.fixed, self._place

    def __exit__(self, *error: object) -> None:
        _thread_location.fixed = self._before
