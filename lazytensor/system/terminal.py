"""Texts from outside (names of files and modules, values of options) on a terminal, which obeys control characters."""

import sys
from collections.abc import Mapping
from typing import Any, TextIO

MAX_SHOWN_LETTERS = 60
"""Letters of a value in a sentence about it."""


def escape_line(text: str) -> str:
    """Return one line of text with escapes in place of what a terminal obeys and of what has no UTF-8.

    >>> print(escape_line("red\\x1b[31m.py"))
    red\\x1b[31m.py
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def escape_lines(text: str) -> str:
    """Return a text of several lines so; its newlines stay, and its tabs."""
    return "\n".join("\t".join(map(escape_line, line.split("\t"))) for line in text.split("\n"))


def quote_value(value: str) -> str:
    """Return the value of an option in quotes, shortened in the middle of a sentence."""
    shown = repr(value if len(value) <= MAX_SHOWN_LETTERS else value[:MAX_SHOWN_LETTERS] + "...")
    return escape_line(shown)


def replace_surrogates(value: Any) -> Any:
    """Return plain data whose texts all have UTF-8: half of a surrogate pair, as in names of files, is an escape."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {replace_surrogates(key): replace_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [replace_surrogates(item) for item in value]
    return value


def print_escaped(text: str, stream: TextIO | None = None, end: str = "\n") -> None:
    """Print a text on a stream, stdout if there is none, with escapes for what the terminal obeys or cannot show."""
    stream = stream or sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    shown = escape_lines(text).encode(encoding, "backslashreplace").decode(encoding)
    print(shown, file=stream, end=end)
