"""Utilities for folders and environment variables: `cerebras.pytorch.utils.utils`."""

import os
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def get_dir_size(path: Any) -> int:
    """Return the total size in bytes of all files below the folder `path`."""
    return sum(p.stat().st_size for p in pathlib.Path(path).rglob("*") if p.is_file())


@contextmanager
def override_env_vars(**kwargs: Any) -> Iterator[None]:
    """Return a context manager that sets environment variables and restores them at the end. None unsets a variable."""
    # None means an unset variable, in both directions.
    before = {name: os.environ.get(name) for name in kwargs}
    try:
        _set_variables(kwargs)
        yield
    finally:
        _set_variables(before)


def _set_variables(values: dict[str, Any]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = str(value)
