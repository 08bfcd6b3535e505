"""Command lines whose errors are one sentence: the option, its value, and what is allowed.

The functions give what `argparse` takes as the `type` of an argument.
"""

import argparse
import math
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from lazytensor.system.terminal import escape_line, quote_value

Converter = Callable[[str], Any]


class Parser(argparse.ArgumentParser):
    """A parser that prints one line about a wrong command line, without the usage, and exits with status 2."""

    def error(self, message: str) -> NoReturn:
        """Print the message and exit."""
        told = re.sub(r"^argument (\S+): takes ", r"\1 takes ", message).removeprefix("argument ")
        print(escape_line(f"{self.prog}: {told}; see {self.prog} --help"), file=sys.stderr)
        raise SystemExit(2)


def _refusal_error(allowed: str, text: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"takes {allowed}, got {quote_value(text)}")


def whole_number(least: int, greatest: int) -> Converter:
    """A whole number in decimal digits, from `least` to `greatest`."""

    def convert(text: str) -> int:
        # By its digits: int() takes those of all scripts, and refuses more than some thousands by another error.
        if not re.fullmatch(r"[0-9]{1,30}", text) or not least <= int(text) <= greatest:
            raise _refusal_error(f"a whole number from {least:,} to {greatest:,}", text)
        return int(text)

    return convert


def finite_number(least: float) -> Converter:
    """A finite number in decimal digits, `least` or larger."""

    def convert(text: str) -> float:
        is_decimal = re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text)
        if not is_decimal or not math.isfinite(float(text)) or float(text) < least:
            raise _refusal_error(f"a finite number of {least:g} or more", text)
        return float(text)

    return convert


def one_of(names: Iterable[Any]) -> Converter:
    """One of some names or numbers; the value is the one itself, and no text."""
    by_text = {str(name): name for name in names}

    def convert(text: str) -> Any:
        if text not in by_text:
            raise _refusal_error(f"one of {', '.join(by_text)}", text)
        return by_text[text]

    return convert


def comma_separated(one: Converter) -> Converter:
    """Values with commas between them, as a tuple."""

    def convert(text: str) -> tuple[Any, ...]:
        try:
            return tuple(one(part.strip()) for part in text.split(","))
        except argparse.ArgumentTypeError as e:
            allowed = str(e).removeprefix("takes ").partition(", got ")[0]
            raise _refusal_error(f"{allowed}, or several with commas between them", text) from None

    return convert


def new_file(*endings: str) -> Converter:
    """The path of a file that is to be written, with one of these endings, in a folder that exists."""

    def convert(text: str) -> pathlib.Path:
        path = pathlib.Path(text)
        if not path.name.endswith(endings) or path.name in endings:
            raise _refusal_error(f"the name of a file that ends in {' or '.join(endings)}", text)
        # Told before a script runs: its run may take hours.
        if not os.path.isdir(path.parent):
            raise _refusal_error("a file in a folder that exists", text)
        if os.path.isdir(path):
            raise _refusal_error("the name of a file, not of a folder", text)
        return path

    return convert


def existing_file(text: str) -> pathlib.Path:
    """The path of a file that exists."""
    if not os.path.exists(text) or os.path.isdir(text):
        raise _refusal_error("a file that exists", text)
    return pathlib.Path(text)


def new_folder(text: str) -> pathlib.Path:
    """The path of a folder, which may not exist yet."""
    if not text:
        raise _refusal_error("the name of a folder", text)
    return pathlib.Path(text)


def nonempty_text(text: str) -> str:
    """A text that is not empty."""
    if not text:
        raise _refusal_error("a name", text)
    return text
