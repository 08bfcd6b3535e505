"""Escape external text (file names, module names, option values) for terminals, which interpret control characters."""

import sys
from collections.abc import Mapping
from typing import Any, TextIO

MAX_SHOWN_LETTERS = 60
"""Maximum number of characters of a value that are shown in a message."""


def escape_line(text: str) -> str:
    r"""Return one line of text with control characters and characters without a UTF-8 encoding replaced by escapes.

    >>> print(escape_line("red\x1b[31m.py"))
    red\x1b[31m.py
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def escape_lines(text: str) -> str:
    """Return text with several lines, escaped as by `escape_line`; newlines and tabs are kept."""
    return "\n".join("\t".join(map(escape_line, line.split("\t"))) for line in text.split("\n"))


def quote_value(value: str) -> str:
    """Return a value in quotes, escaped as by `repr`, on one line.

    A value of more than `MAX_SHOWN_LETTERS` characters is truncated, with "..." inside the quotes.
    """
    shown = repr(value if len(value) <= MAX_SHOWN_LETTERS else value[:MAX_SHOWN_LETTERS] + "...")
    return escape_line(shown)


def replace_surrogates(value: Any) -> Any:
    """Return a copy of plain data with lone surrogates in its strings replaced by escapes.

    Plain data are strings, mappings, lists and tuples. Tuples become lists, and mappings dicts, whose keys are replaced
    too. Other values are unchanged.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {replace_surrogates(key): replace_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [replace_surrogates(item) for item in value]
    return value


def print_escaped(text: str, stream: TextIO | None = None, end: str = "\n") -> None:
    """Print text to a stream (default stdout), with escapes for characters that it cannot display; lines stay lines.

    These are control characters, and characters that its encoding lacks. A stream without an encoding counts as UTF-8.
    """
    stream = stream or sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    shown = escape_lines(text).encode(encoding, "backslashreplace").decode(encoding)
    print(shown, file=stream, end=end)
