"""Find the line of user code that is being executed, for error messages and for locations in printed graphs."""

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
"""Function name, file and line of each call frame, innermost first."""
CachedLocation = list[Where]
"""The location of the running library call: empty until `where` has computed it, then one element. See `enter_call`."""

_PACKAGE = pathlib.Path(__file__).parents[1]
_PACKAGE_FOLDERS = tuple(str(_PACKAGE.with_name(name)) for name in ("lazytensor", "wse_sim", "cstorch_compat"))
_LAYER_FOLDERS = tuple(str(_PACKAGE / name) for name in ("nn", "functional"))
NUMPY_FOLDER = str(pathlib.Path(np.__file__).parent)
"""The folder of NumPy, whose functions may call back into tensors."""
# The outermost frames of a data loader's worker process are those of multiprocessing.
_MULTIPROCESSING_FOLDER = str(pathlib.Path(os.__file__).parent / "multiprocessing")
_SKIPPED_PREFIXES = (*_PACKAGE_FOLDERS, NUMPY_FOLDER, _MULTIPROCESSING_FOLDER, str(copy.__file__), "<frozen importlib")


class ThreadLocation:
    """Location state of a thread.

    - `fixed`: the location set by `fixed_location`.
    - `keeps_frames`: whether call frames are recorded.
    - `line`: the cached location of the running library call; None in user code.
    - `scopes`: the paths of the active scopes, innermost last.
    """

    __slots__ = ("fixed", "keeps_frames", "line", "scopes")

    def __init__(self) -> None:
        self.fixed: Where | None = None
        self.keeps_frames = False
        self.line: CachedLocation | None = None
        self.scopes: list[str] = []

    def push_scope(self, name: str) -> None:
        """Enter a scope; see the function `push_scope`."""
        # An empty name repeats the current path, because every push has its pop.
        scopes = self.scopes
        scopes.append(f"{scopes[-1]}.{name}" if scopes and name else name or (scopes[-1] if scopes else ""))

    def enter_module(self, scope: str, function: Any) -> CachedLocation | None:
        """Enter the scope of a module and mark the start of a call of `function`; see `push_scope` and `enter_call`.

        Return the state to pass to `leave_module`.
        """
        self.push_scope(scope)
        before = self.line
        if not _is_layer_function(function):
            self.line = None
        elif before is None:
            self.line = []
        return before

    def leave_module(self, before: CachedLocation | None) -> None:
        """Leave the scope and mark the end of the call; `before` is the result of `enter_module`."""
        self.line = before
        self.scopes.pop()


class _Threads(threading.local):
    """The location state of each thread. Reading it takes as long as reading three attributes of a plain object."""

    def __init__(self) -> None:
        self.location = ThreadLocation()


_threads = _Threads()
block_names: dict[str, str] = {}
"""Names of scopes that the script named itself and that are not modules, by scope path."""
# Caches: every operation looks up its location, mostly for few lines of few files.
_is_internal: dict[str, bool] = {}
_is_in_layer_folder: dict[str, bool] = {}
_locations: dict[tuple[str, int, str, Frames], Where] = {}


def thread_location() -> ThreadLocation:
    """Return the location state of this thread."""
    return _threads.location


def push_scope(name: str) -> None:
    """Enter a module or name scope: nodes created from now on have its path as their scope.

    An empty name adds nothing to the path, but still needs its `pop_scope`.
    """
    _threads.location.push_scope(name)


def push_block(name: str) -> None:
    """Enter a scope that printed graphs show as `name` only, without the path. An empty name adds nothing."""
    push_scope(name)
    # A block without a name belongs to the enclosing module.
    if name:
        block_names[_threads.location.scopes[-1]] = name


def pop_scope() -> None:
    """Leave the innermost scope."""
    _threads.location.scopes.pop()


def reset() -> None:
    """Leave all scopes and forget the names of blocks."""
    _threads.location.scopes.clear()
    block_names.clear()


def where() -> Where:
    """Return the location of the user's code that is running: file, line, scope, and call frames if they are recorded.

    Inside `fixed_location`, return the fixed location. Equal locations are one object.
    """
    location = _threads.location
    if location.fixed is not None:
        return location.fixed
    line, scopes = location.line, location.scopes
    scope = scopes[-1] if scopes else ""
    if line:
        last = line[0]
        if last.scope == scope:
            return last
        key = last.file, last.line, scope, last.frames
    else:
        frame = user_frame()
        key = frame.f_code.co_filename, frame.f_lineno, scope, _frames(frame) if location.keeps_frames else ()
    place = _locations.get(key)
    if place is None:
        place = _locations[key] = Where(*key)
    if line is not None:
        line[:] = (place,)
    return place


def enter_call(function: Any) -> CachedLocation | None:
    """Mark the start of a call of `function`, and return the state to pass to `leave_call` when it ends.

    During a call of a function of `lazytensor.nn` or `lazytensor.functional`, the user's line is computed once and
    cached for all nodes that the call creates, also by nested calls of such functions. During a call of any other
    function nothing is cached. Decorators that set `__wrapped__` are ignored.
    """
    location = _threads.location
    before = location.line
    if not _is_layer_function(function):
        location.line = None
    elif before is None:
        location.line = []
    return before


def _is_layer_function(function: Any) -> bool:
    """Return whether a function, without decorators that set `__wrapped__`, is one of `nn` or `functional`."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    file = code.co_filename
    is_layer = _is_in_layer_folder.get(file)
    if is_layer is None:
        is_layer = _is_in_layer_folder[file] = file.startswith(_LAYER_FOLDERS)
    return is_layer


def call_user_function(function: Any, *arguments: Any) -> Any:
    """Return `function(*arguments)`, for a function that a library function received and that may be the user's.

    Locations inside of it are computed as for user code.
    """
    before = enter_call(function)
    try:
        return function(*arguments)
    finally:
        leave_call(before)


def leave_call(before: CachedLocation | None) -> None:
    """Mark the end of a call; `before` is the result of `enter_call`."""
    _threads.location.line = before


def user_frame() -> FrameType:
    """Return the innermost call frame of user code, outside of the function that calls this one.

    Frames of this package, NumPy, `copy`, multiprocessing and the import machinery do not count. Return the outermost
    frame if all frames are internal.
    """
    # `inspect.stack()` would read source files for every frame, and this function runs for every new node.
    frame = sys._getframe(2)  # skip this frame and its caller, which is internal
    # The loop visits a dozen frames per node, so cached files are looked up here without a function call.
    while (outer := frame.f_back) is not None:
        file = frame.f_code.co_filename
        if not (_is_internal[file] if file in _is_internal else is_internal_file(file)):
            break
        frame = outer
    return frame


def _frames(frame: FrameType | None) -> Frames:
    """Return the user's frames from `frame` outwards, up to the module that runs as `__main__`.

    Each is (function name, file, line), innermost first; internal frames are left out. None gives an empty tuple.
    """
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
    """Record the call frames of each location in the block, for graphs that are printed. This is slower."""
    before, _threads.location.keeps_frames = _threads.location.keeps_frames, True
    try:
        yield
    finally:
        _threads.location.keeps_frames = before


def is_internal_file(file: str) -> bool:
    """Return whether a file belongs to this package, NumPy, `copy`, multiprocessing or the import machinery.

    Other files are the user's, also those of other libraries. The result is cached by file.
    """
    ours = _is_internal.get(file)
    if ours is None:
        ours = _is_internal[file] = file.startswith(_SKIPPED_PREFIXES)
    return ours


class fixed_location:
    """A context manager that gives all nodes created in the block the location `place`.

    The backward pass uses it: a gradient has the location of its forward operation. Blocks can be nested.
    """

    __slots__ = ("_before", "_place")

    def __init__(self, place: Where | None):
        self._place = place

    def __enter__(self) -> None:
        # Blocks can be nested: the gradient of a gradient is recorded while another location is fixed.
        self._before, _threads.location.fixed = _threads.location.fixed, self._place

    def __exit__(self, *error: object) -> None:
        _threads.location.fixed = self._before
