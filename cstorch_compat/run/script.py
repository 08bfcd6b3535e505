"""A script on the command line: its arguments, and how it is run."""

import argparse
import os
import pathlib
import runpy
import sys
from collections.abc import Callable

from cstorch_compat.names import releases


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Let a command take a script, the script's own arguments, and the release that it was written for."""
    parser.add_argument(
        "--api", choices=releases.RELEASES, metavar="RELEASE", help="the release of the API, such as 1.8"
    )
    parser.add_argument("script", help="the Python script")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the script")


def new_file(*endings: str) -> Callable[[str], pathlib.Path]:
    """A file on the command line that is to be written, with one of these endings, in a folder that is there."""

    def path_of(text: str) -> pathlib.Path:
        path = pathlib.Path(text)
        # Said before the script runs: its run may take hours.
        if not text.endswith(endings):
            raise argparse.ArgumentTypeError(f"expected a file that ends in {' or '.join(endings)}, got {text}")
        if not path.parent.is_dir():
            raise argparse.ArgumentTypeError(f"there is no folder {path.parent}")
        return path

    return path_of


def is_there(script: str) -> bool:
    """Whether there is such a file; says so if there is not."""
    is_file = os.path.isfile(script)
    if not is_file:
        print(f"lazywafer: there is no script {script}", file=sys.stderr)
    return is_file


def run_as_main(script: str, args: list[str]) -> None:
    """Run a script as `python script args` would. Raises whatever it raises."""
    # As Python does it for a script: its own folder comes first among those that are searched.
    sys.argv = [script, *args]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    runpy.run_path(script, run_name="__main__")
