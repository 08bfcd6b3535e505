"""Classes of Python's standard library and of a script that files may name with `weights_only=False`."""

import abc
import argparse
import copyreg
import datetime
import decimal
import enum
import fractions
import pathlib
import re
import sys
import types
import uuid
from collections import Counter, OrderedDict, defaultdict
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from lazytensor.nn.module import Module
from lazytensor.serialization.layout import refused

_FRACTION = re.compile(r"[+-]?\d+(/\d+)?$")


def _fraction(*parts: Any) -> fractions.Fraction:
    # Text with an exponent would be a number of any length.
    if not all(isinstance(p, int) or (isinstance(p, str) and _FRACTION.match(p)) for p in parts):
        raise refused("the file has a fraction that is no pair of integers")
    return fractions.Fraction(*parts)


_TIMES = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone)
_PATHS = (pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath)
VALUE_CLASSES: tuple[Any, ...] = (*_TIMES, *_PATHS, decimal.Decimal, _fraction, types.SimpleNamespace)
"""What is called with the arguments of a file: each makes a value of them and does nothing else."""
_CLASSES = (*_TIMES, *_PATHS, decimal.Decimal, argparse.Namespace, types.SimpleNamespace, uuid.UUID)
_STANDARD: dict[str, Any] = {
    **{f"{kind.__module__} {kind.__name__}": kind for kind in _CLASSES},
    # Python 3.13 has moved its paths.
    **{f"pathlib {kind.__name__}": kind for kind in _PATHS},
    **{f"pathlib._local {kind.__name__}": kind for kind in _PATHS},
    "fractions Fraction": _fraction,
    "copyreg _reconstructor": copyreg._reconstructor,  # type: ignore[attr-defined]
    "builtins getattr": getattr,
    "numpy ndarray": np.ndarray,
}
_MISSING = (enum.Enum._missing_.__func__, enum.Flag._missing_.__func__)  # type: ignore[attr-defined]
_TRUSTED = ("builtins", "collections", "lazytensor", "cstorch_compat")
_PLAIN_NEW = [kind.__new__ for kind in (object, dict, list, set, OrderedDict, Counter, defaultdict)]
# Constructors and setters of state are code that a file could set off.
_RUNNING = ("__setstate__", "__reduce__", "__del__", "__call__")


def standard(path: str) -> Any:
    """Return the class or function of the standard library that a file calls "module name", or None."""
    return _STANDARD.get(path)


def imported(path: str) -> Any:
    """Return a class or function of a module that is imported already, if reading it from a file runs no code of it."""
    module, _, name = path.partition(" ")
    thing: Any = sys.modules.get(module)
    for part in name.split("."):
        # Not `getattr`, which calls the `__getattr__` of a module or of a metaclass.
        thing = vars(thing).get(part) if isinstance(thing, type | ModuleType) else None
    if isinstance(thing, FunctionType):
        return thing  # named, and not called
    if not isinstance(thing, type) or thing.__module__ in ("builtins", "os", "subprocess", "sys"):
        return None
    return thing if _is_plain(thing) else None


def _is_plain(kind: type) -> bool:
    """Return whether no code of the class runs when a file makes an object of it, fills it, and drops it."""
    if type(kind) not in (type, abc.ABCMeta, enum.EnumMeta):
        return False
    if issubclass(kind, enum.Enum):
        return kind._missing_.__func__ in _MISSING  # type: ignore[attr-defined]
    classes = [c for c in kind.__mro__ if c.__module__.partition(".")[0] not in _TRUSTED]
    if issubclass(kind, Module):
        return not any(name in vars(c) for c in classes for name in ("__setstate__", "__del__"))
    if any(name in vars(c) for c in classes for name in _RUNNING):
        return False
    # `__new__` of a named tuple is made by Python.
    is_named_tuple = issubclass(kind, tuple) and kind.__new__.__module__.startswith("namedtuple_")
    return is_named_tuple or any(kind.__new__ is new for new in _PLAIN_NEW)
