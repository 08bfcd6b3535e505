"""`lazywafer example NAME`: write an example script into the working directory."""

import argparse
import ast
import pathlib
import sys
from collections.abc import Callable

from lazytensor.system.terminal import print_escaped

EXAMPLE_NAMES = ("gpt", "mnist")
"""The names of the examples."""
DATA_FOLDER = "digits"
"""The folder with the data of the example `mnist`."""
DigitsWriter = Callable[[pathlib.Path], str]
"""A function that writes digit images into a folder and returns a message."""
INSTALLED_SCRIPTS = pathlib.Path(__file__).parents[1] / "scripts"
"""The folder of the example scripts in an installed package."""
SCRIPTS = (
    INSTALLED_SCRIPTS if INSTALLED_SCRIPTS.is_dir() else pathlib.Path(__file__).parents[2] / "notebooks" / "scripts"
)
"""The folder of the example scripts: in the installed package, or `notebooks/scripts` in a checkout."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", write_digits: DigitsWriter) -> None:
    """Add the `example` command to the subparsers `commands`. `write_digits` writes the data of the example `mnist`."""
    writer = commands.add_parser(
        "example", help="write an example script into this folder; without a name, list the examples"
    )
    writer.add_argument("name", nargs="?", metavar="NAME", help="the example, such as mnist")
    writer.set_defaults(execute=lambda options: write_example(options.name, write_digits))


def write_example(name: str | None, write_digits: DigitsWriter) -> int:
    """Write the example `name` and its data into the working directory. Without a name, print all names.

    Returns the exit status: 0, or 2 if there is no such example, if the file exists already, or if it cannot be
    written.
    """
    if name is None:
        for each in EXAMPLE_NAMES:
            print(f"{each:8} {_first_line(_read_script(each))}")
        return 0
    if name not in EXAMPLE_NAMES:
        print_escaped(
            f"lazywafer: the example {name!r} does not exist: use one of {', '.join(EXAMPLE_NAMES)}", sys.stderr
        )
        return 2
    target = pathlib.Path(f"{name}.py")
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(_read_script(name))
        told = write_digits(pathlib.Path(DATA_FOLDER)) if name == "mnist" else ""
    except FileExistsError:
        print(f"lazywafer: {target} exists already: move it, or change to another folder", file=sys.stderr)
        return 2
    except OSError as e:
        print(f"lazywafer: {e.filename or target} cannot be written: {e.strerror}", file=sys.stderr)
        return 2
    if told:
        print(told)
    print(f"wrote {target}: lazywafer run --html {name}.html {target}")
    return 0


def _read_script(name: str) -> str:
    return (SCRIPTS / f"{name}.py").read_text(encoding="utf-8")


def _first_line(text: str) -> str:
    """Return the first line of the docstring of a source text."""
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
