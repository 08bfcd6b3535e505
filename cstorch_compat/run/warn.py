"""Warnings that name the user's line, however deep in the house they are raised."""

import warnings

from lazytensor import source


def warn(text: str) -> None:
    """Warn at the user's line."""
    place = source.where()
    warnings.warn_explicit(text, UserWarning, place.file, place.line)
