"""Errors of data loading that also derive from the built-in exception that PyTorch raises."""

import pickle
import sys

from lazytensor.core import source
from lazytensor.errors import DataError


class DataOptionError(DataError, ValueError):
    """An option of a dataset, sampler or loader has an invalid value."""


class SampleTypeError(DataError, TypeError):
    """A sample has a type that cannot be collated or transformed."""


class OptionTypeError(DataError, TypeError):
    """An option has an invalid type."""


class WorkerError(DataError):
    """A worker of a loader died, exceeded its timeout, or raised an exception that the parent cannot raise again."""


class UnpicklableAttribute(DataError, AttributeError):
    """A process cannot be started because an object of it, such as a local function, cannot be pickled."""


class UnpicklableObject(DataError, pickle.PicklingError):
    """A process cannot be started because an object of it, such as a lambda of a module, cannot be pickled."""


class UnpicklableType(DataError, TypeError):
    """A process cannot be started because it gets an object of a type that cannot be pickled, such as an open file."""


def unpicklable_error(error: Exception) -> DataError:
    """Return the error for a worker that pickle's `error` prevents from starting; it has the type of `error` too."""
    kinds = ((pickle.PicklingError, UnpicklableObject), (AttributeError, UnpicklableAttribute))
    kind = next((ours for theirs, ours in kinds if isinstance(error, theirs)), UnpicklableType)
    other = "" if sys.platform == "win32" else ', pass multiprocessing_context="fork"'
    return kind(
        f"a worker process gets its dataset and functions by pickle: {error}",
        where=source.where(),
        hint=f"Define functions and classes at the top level of a module{other}, or set num_workers=0.",
    )


class SlowWorkerWarning(UserWarning):
    """A worker has not answered for a long time and may be blocked."""


def check_count(name: str, value: object) -> None:
    """Raise DataOptionError unless `value` is a positive integer; `name` names the option."""
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise DataOptionError(
            f"{name} should be a positive integer value, but got {name}={value!r}",
            where=source.where(),
            hint=f"Pass {name} as an integer above 0.",
        )


def check_flag(name: str, value: object) -> None:
    """Raise DataOptionError unless `value` is True or False; `name` names the option."""
    if not isinstance(value, bool):
        raise DataOptionError(
            f"{name} should be a boolean value, but got {name}={value!r}",
            where=source.where(),
            hint="Pass True or False.",
        )
