"""A script on the command line: its arguments, and running it as `__main__`."""

import argparse
import contextlib
import functools
import importlib.util
import linecache
import os
import re
import runpy
import sys
import types
from collections.abc import Callable, Iterable, Iterator

from cstorch_compat.names import releases
from lazytensor.system.command_line import Parser, new_file, one_of
from lazytensor.system.terminal import escape_line, quote_value
from wse_sim.machine import MACHINES, canonical_machine_name

STDIN_NAME, MODULE_PREFIX = "-", "-m "
"""The name of standard input as a script, and the prefix of a module name in a target."""
MAX_PRINTED_LINES = 3
"""Number of lines shown of a script's output before it exited. An argument parser prints its error last."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for a script, its own arguments, and the API release to a command."""
    parser.add_argument(
        "--api", choices=releases.RELEASES, metavar="RELEASE", help="the release of the Cerebras API, such as 1.8"
    )
    parser.add_argument("script", help="the Python script")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the script")


def add_module_argument(parser: argparse.ArgumentParser) -> None:
    """Add `-m`, as of Python, to a command."""
    parser.add_argument(
        "-m",
        action="store_true",
        dest="is_module",
        help="run a module instead of a file, as python -m does; - is standard input",
    )


def parse_machine_name(text: str) -> str:
    """Return the name of the machine that an option names, such as "wse2" for "CS-2".

    Raises ArgumentTypeError, which lists the machines, for any other text.
    """
    name: str = one_of(sorted(MACHINES))(canonical_machine_name(text))
    return name


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options `--report`, `--html` and `--trace` to a command."""
    parser.add_argument(
        "--report",
        type=new_file(".json", ".txt"),
        metavar="FILE",
        help="also write the report to FILE.json or FILE.txt",
    )
    parser.add_argument("--html", type=new_file(".html"), metavar="FILE", help="also write a page for a browser")
    parser.add_argument(
        "--trace", type=new_file(".json", ".json.gz"), metavar="FILE", help="also write a timeline of the run"
    )


def parse_trailing_options(options: argparse.Namespace, texts: Callable[[], Iterable[str]]) -> None:
    """Parse --report, --html and --trace after the script name, and output options that follow, as lazywafer's own.

    If a source text of `texts()` contains the name of one of the three that is given, all remain arguments of the
    script. Otherwise updates `options` in place and prints a message. Does nothing if none of the three is given.
    """
    behind = {arg.partition("=")[0] for arg in options.args} & {"--report", "--html", "--trace"}
    # The script may define an option of that name, or derive it from an argument's name.
    if not behind or any(re.search(rf"\b{name[2:]}\b", text) for text in texts() for name in behind):
        return
    parser = Parser(prog="lazywafer run", add_help=False, allow_abbrev=False)
    add_output_arguments(parser)
    at = next(i for i, arg in enumerate(options.args) if arg.partition("=")[0] in behind)
    _, rest = parser.parse_known_args(options.args[at:], options)
    options.args = [*options.args[:at], *rest]
    print(
        f"lazywafer: {', '.join(sorted(behind))} is used by lazywafer, because the script does not define it",
        file=sys.stderr,
    )


def target_name(options: argparse.Namespace) -> str:
    """Return what to run as one string: a file, "-" for standard input, or "-m " and the name of a module."""
    return f"{MODULE_PREFIX}{options.script}" if getattr(options, "is_module", False) else options.script


def check_target(script: str) -> bool:
    """Return whether the target of `target_name` exists. Prints an error if it does not."""
    if script.startswith(MODULE_PREFIX):
        return _has_module(script.removeprefix(MODULE_PREFIX))
    return script == STDIN_NAME or check_file(script)


def check_file(script: str) -> bool:
    """Return whether the file `script` exists. Prints an error if it does not."""
    is_known = os.path.isfile(script)
    if not is_known:
        print(f"lazywafer: the script {escape_line(script) or quote_value(script)} does not exist", file=sys.stderr)
    return is_known


def _has_module(name: str) -> bool:
    """Return whether a module can be imported from the working directory or `sys.path`.

    Prints an error if it cannot.
    """
    with _prepend_to_path(os.getcwd()):
        try:
            is_known = importlib.util.find_spec(name) is not None
        except (ImportError, ValueError):
            # The parent package does not exist or is no package, or a part of the name is empty.
            is_known = False
    if not is_known:
        print(f"lazywafer: the module {escape_line(name) or quote_value(name)} does not exist", file=sys.stderr)
    return is_known


@contextlib.contextmanager
def _prepend_to_path(folder: str) -> Iterator[None]:
    """Prepend `folder` to `sys.path` while the context is active."""
    before = list(sys.path)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path[:] = before


def run_as_main(script: str, args: list[str]) -> None:
    """Run a script as `python TARGET ARGS` would. Changes `sys.argv` and `sys.path`, and does not restore them.

    `script` is a target as `target_name` returns it: a file, a module after MODULE_PREFIX, or STDIN_NAME for
    standard input. Exceptions of the script propagate.
    """
    # As in Python, the script's folder or the working directory is first in the search path.
    sys.argv = [script, *args]
    if script.startswith(MODULE_PREFIX):
        sys.path.insert(0, os.getcwd())
        runpy.run_module(script.removeprefix(MODULE_PREFIX), run_name="__main__", alter_sys=True)
    elif script == STDIN_NAME:
        sys.path.insert(0, "")
        _run_text(_read_standard_input())
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
        runpy.run_path(script, run_name="__main__")


@functools.cache
def _read_standard_input() -> str:
    """Return the text of standard input. The first result is cached, because a pipe can be read only once."""
    # Cached, because a plan runs a script more than once and a pipe can be read only once.
    return sys.stdin.read()


def _run_text(text: str) -> None:
    """Run a script given as text in a new module, which is `__main__` while it runs."""
    module, before = types.ModuleType("__main__"), sys.modules["__main__"]
    # Let tracebacks and HTML pages show the lines of a script that has no file.
    linecache.cache["<stdin>"] = len(text), None, text.splitlines(keepends=True), "<stdin>"
    sys.modules["__main__"] = module
    try:
        exec(compile(text, "<stdin>", "exec"), vars(module))
    finally:
        sys.modules["__main__"] = before


def format_exit(e: SystemExit, printed: str) -> str:
    """Return a text that says that the script exited, with the last lines of its output `printed`."""
    lines = [f"the script exited with {e.code!r}", *printed.rstrip().splitlines()[-MAX_PRINTED_LINES:]]
    return "\n    ".join(lines)
