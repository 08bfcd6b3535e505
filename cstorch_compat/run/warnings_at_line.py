"""Warnings that name the user's line, however deep in the house they are raised."""

import warnings
from typing import Any

from lazytensor.core import source

# By file, what was said of its lines: Python keeps the like in each module, and says a thing once a line.
_warning_registries: dict[str, dict[Any, Any]] = {}


def warn(text: str) -> None:
    """Warn at the user's line, once if Python's filters do not say otherwise."""
    place = source.where()
    warnings.warn_explicit(
        text, UserWarning, place.file, place.line, registry=_warning_registries.setdefault(place.file, {})
    )
