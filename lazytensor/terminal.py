"""Texts from outside (names of files and modules, values of options) on a terminal, which obeys control characters."""

SHOWN_LETTERS = 60
"""Letters of a value in a sentence about it."""


def printable(text: str) -> str:
    """Return one line of text with escapes in place of what a terminal obeys and of what has no UTF-8.

    >>> print(printable("red\\x1b[31m.py"))
    red\\x1b[31m.py
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def printable_lines(text: str) -> str:
    """Return a text of several lines so; its newlines stay, and its tabs."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def quoted(value: str) -> str:
    """Return the value of an option in quotes, shortened in the middle of a sentence."""
    shown = repr(value if len(value) <= SHOWN_LETTERS else value[:SHOWN_LETTERS] + "...")
    return printable(shown)
