"""Errors of this package that a script may also catch as the built-in one that PyTorch raises."""

from lazytensor.core import source
from lazytensor.errors import DataError


class DataOptionError(DataError, ValueError):
    """An option of a data set, a sampler or a loader has a value that it cannot have."""


class SampleTypeError(DataError, TypeError):
    """A sample is of a type that cannot be put into a batch or be transformed."""


class OptionTypeError(DataError, TypeError):
    """An option is of a type that it cannot have."""


class WorkerError(DataError):
    """A worker of a loader died, took too long, or raised what cannot be raised again in the parent."""


class SlowWorkerWarning(UserWarning):
    """A worker has made nothing for so long that it may never again."""


def check_count(name: str, value: object) -> None:
    """Refuse anything but a positive integer."""
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise DataOptionError(
            f"{name} should be a positive integer value, but got {name}={value!r}",
            where=source.where(),
            hint=f"Give {name} as a whole number above 0.",
        )


def check_flag(name: str, value: object) -> None:
    """Refuse anything but True and False."""
    if not isinstance(value, bool):
        raise DataOptionError(
            f"{name} should be a boolean value, but got {name}={value!r}",
            where=source.where(),
            hint="Write True or False.",
        )
