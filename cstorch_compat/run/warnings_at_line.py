"""Warnings that are reported at the user's line, however deep in this package they are raised."""

import warnings
from typing import Any

from lazytensor.core import source

_warning_registries: dict[str, dict[Any, Any]] = {}
"""The registry of issued warnings of each file.

Python keeps such a registry in each module to warn once per line.
"""


def warn(text: str) -> None:
    """Issue a UserWarning at the user's line. By default it is shown once per line."""
    place = source.where()
    warnings.warn_explicit(
        text, UserWarning, place.file, place.line, registry=_warning_registries.setdefault(place.file, {})
    )
