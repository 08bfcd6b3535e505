"""Command line parsing with one-line error messages that name the option, its value and what is allowed.

The functions return converters for the `type` argument of `argparse`'s `add_argument`.
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
    """An argument parser that exits with status 2 and a one-line error, without usage, for a wrong command line."""

    def error(self, message: str) -> NoReturn:
        """Print the message as one line to standard error, with a reference to --help, and exit with status 2."""
        told = re.sub(r"^argument (\S+): takes ", r"\1 takes ", message).removeprefix("argument ")
        print(escape_line(f"{self.prog}: {told}; see {self.prog} --help"), file=sys.stderr)
        raise SystemExit(2)


def _refusal_error(allowed: str, text: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"takes {allowed}, got {quote_value(text)}")


def whole_number(least: int, greatest: int) -> Converter:
    """Return a converter for decimal integers from `least` to `greatest`, both inclusive, without a sign.

    The converter takes a text and returns an int. It raises ArgumentTypeError for anything else.
    """

    def convert(text: str) -> int:
        # Check the digits: int() also accepts non-ASCII digits, and raises another error for thousands of digits.
        if not re.fullmatch(r"[0-9]{1,30}", text) or not least <= int(text) <= greatest:
            raise _refusal_error(f"a whole number from {least:,} to {greatest:,}", text)
        return int(text)

    return convert


def finite_number(least: float) -> Converter:
    """Return a converter for finite decimal numbers that are at least `least`, such as "-1.5e3".

    The converter takes a text and returns a float. It raises ArgumentTypeError for anything else.
    """

    def convert(text: str) -> float:
        is_decimal = re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text)
        if not is_decimal or not math.isfinite(float(text)) or float(text) < least:
            raise _refusal_error(f"a finite number of {least:g} or more", text)
        return float(text)

    return convert


def one_of(names: Iterable[Any]) -> Converter:
    """Return a converter that accepts the text of one of `names` and returns the name itself, which may be a number.

    It raises ArgumentTypeError for any other text.
    """
    by_text = {str(name): name for name in names}

    def convert(text: str) -> Any:
        if text not in by_text:
            raise _refusal_error(f"one of {', '.join(by_text)}", text)
        return by_text[text]

    return convert


def comma_separated(one: Converter) -> Converter:
    """Return a converter of a comma-separated list to a tuple. `one` converts each part, without blanks around it.

    If `one` refuses a part with ArgumentTypeError, the error names the whole text and says that several values are
    allowed. An empty text is one empty part.
    """

    def convert(text: str) -> tuple[Any, ...]:
        try:
            return tuple(one(part.strip()) for part in text.split(","))
        except argparse.ArgumentTypeError as e:
            allowed = str(e).removeprefix("takes ").partition(", got ")[0]
            raise _refusal_error(f"{allowed}, or several with commas between them", text) from None

    return convert


def new_file(*endings: str) -> Converter:
    """Return a converter for the path of an output file with one of the given endings, in an existing folder.

    The file may exist. The converter raises ArgumentTypeError for another ending, a name that is only the ending, a
    missing folder, and a folder as the file.
    """

    def convert(text: str) -> pathlib.Path:
        path = pathlib.Path(text)
        if not path.name.endswith(endings) or path.name in endings:
            raise _refusal_error(f"the name of a file that ends in {' or '.join(endings)}", text)
        # Check now, because the run of the script may take hours.
        if not os.path.isdir(path.parent):
            raise _refusal_error("a file in a folder that exists", text)
        if os.path.isdir(path):
            raise _refusal_error("the name of a file, not of a folder", text)
        return path

    return convert


def existing_file(text: str) -> pathlib.Path:
    """Return the path of an existing file. Raises ArgumentTypeError if there is none or it is a folder."""
    if not os.path.exists(text) or os.path.isdir(text):
        raise _refusal_error("a file that exists", text)
    return pathlib.Path(text)


def new_folder(text: str) -> pathlib.Path:
    """Return the path of a folder, which need not exist.

    Raises ArgumentTypeError for an empty text; nothing is created.
    """
    if not text:
        raise _refusal_error("the name of a folder", text)
    return pathlib.Path(text)


def machine_field_setting(text: str) -> str:
    """Return the text of a setting such as "wse2.hop_cycles=2". Raises ArgumentTypeError for another form."""
    target, equals, number = text.partition("=")
    machine, dot, field = target.partition(".")
    if not (machine and dot and field and equals and number):
        raise _refusal_error("MACHINE.FIELD=NUMBER, such as wse2.hop_cycles=2", text)
    return text


def nonempty_text(text: str) -> str:
    """Return the text. Raises ArgumentTypeError if it is empty."""
    if not text:
        raise _refusal_error("a name", text)
    return text
