"""Classes of the standard library and of a script that files may name with `weights_only=False`."""

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
from lazytensor.serialization.layout import file_error

_FRACTION_PATTERN = re.compile(r"[+-]?\d+(/\d+)?$")


def _make_fraction(*parts: Any) -> fractions.Fraction:
    # Text with an exponent could denote a number of any length.
    if not all(isinstance(p, int) or (isinstance(p, str) and _FRACTION_PATTERN.match(p)) for p in parts):
        raise file_error("the file has a fraction that is not a pair of integers")
    return fractions.Fraction(*parts)


_TIME_CLASSES = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone)
_PATH_CLASSES = (pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath)
VALUE_CLASSES: tuple[Any, ...] = (
    *_TIME_CLASSES,
    *_PATH_CLASSES,
    decimal.Decimal,
    _make_fraction,
    types.SimpleNamespace,
)
"""Callables that may be called with arguments from a file, because they only construct a value."""
_ALLOWED_CLASSES = (
    *_TIME_CLASSES,
    *_PATH_CLASSES,
    decimal.Decimal,
    argparse.Namespace,
    types.SimpleNamespace,
    uuid.UUID,
)
_CLASSES_BY_PATH: dict[str, Any] = {
    **{f"{kind.__module__} {kind.__name__}": kind for kind in _ALLOWED_CLASSES},
    # Python 3.13 moved its path classes.
    **{f"pathlib {kind.__name__}": kind for kind in _PATH_CLASSES},
    **{f"pathlib._local {kind.__name__}": kind for kind in _PATH_CLASSES},
    "fractions Fraction": _make_fraction,
    "copyreg _reconstructor": copyreg._reconstructor,  # type: ignore[attr-defined]
    "builtins getattr": getattr,
    "numpy ndarray": np.ndarray,
}
_DEFAULT_MISSING_HOOKS = (enum.Enum._missing_.__func__, enum.Flag._missing_.__func__)  # type: ignore[attr-defined]
_TRUSTED_PACKAGES = ("builtins", "collections", "lazytensor", "cstorch_compat")
_DEFAULT_NEW_METHODS = [kind.__new__ for kind in (object, dict, list, set, OrderedDict, Counter, defaultdict)]
# A file could trigger the code of these methods.
_CODE_RUNNING_METHODS = ("__setstate__", "__reduce__", "__del__", "__call__")


def find_standard_class(path: str) -> Any:
    """Return the class or function of the standard library with the path "module name", or None."""
    return _CLASSES_BY_PATH.get(path)


def find_imported(path: str) -> Any:
    """Return a class or function of an imported module, or None.

    `path` is "module name". A class is returned only if creating its objects from a file runs none of its code.
    """
    module, _, name = path.partition(" ")
    thing: Any = sys.modules.get(module)
    for part in name.split("."):
        # getattr would call the `__getattr__` of a module or metaclass.
        thing = vars(thing).get(part) if isinstance(thing, type | ModuleType) else None
    if isinstance(thing, FunctionType):
        return thing  # functions are referenced and not called
    if not isinstance(thing, type) or thing.__module__ in ("builtins", "os", "subprocess", "sys"):
        return None
    return thing if _is_plain(thing) else None


def _is_plain(kind: type) -> bool:
    """Return whether creating, filling and deleting an object of the class runs none of the class's code.

    Code of the trusted packages counts as harmless. Classes with another metaclass than those of plain classes,
    abstract classes and enumerations give False.
    """
    if type(kind) not in (type, abc.ABCMeta, enum.EnumMeta):
        return False
    if issubclass(kind, enum.Enum):
        return kind._missing_.__func__ in _DEFAULT_MISSING_HOOKS  # type: ignore[attr-defined]
    classes = [c for c in kind.__mro__ if c.__module__.partition(".")[0] not in _TRUSTED_PACKAGES]
    if issubclass(kind, Module):
        return not any(name in vars(c) for c in classes for name in ("__setstate__", "__del__"))
    if any(name in vars(c) for c in classes for name in _CODE_RUNNING_METHODS):
        return False
    # Python generates the `__new__` of a named tuple.
    is_named_tuple = issubclass(kind, tuple) and kind.__new__.__module__.startswith("namedtuple_")
    return is_named_tuple or any(kind.__new__ is new for new in _DEFAULT_NEW_METHODS)
