"""`lazywafer completion SHELL`: what a shell reads to complete commands and options, written by shtab."""

import argparse
import importlib
import sys
from typing import Any

SHELLS = ("bash", "zsh", "tcsh")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", whole: argparse.ArgumentParser) -> None:
    """Describe the command; `whole` is the parser of all commands."""
    writer = commands.add_parser("completion", help="print what a shell completes commands with (the extra completion)")
    writer.add_argument("shell", choices=SHELLS, help="the shell; as in: lazywafer completion bash > FILE")
    writer.set_defaults(execute=lambda options: print_completion(whole, options.shell))


def print_completion(parser: argparse.ArgumentParser, shell: str) -> int:
    """Print the completion. Returns the exit status: 1 where shtab is not installed."""
    # Imported when it is asked for: no other command needs it.
    try:
        shtab: Any = importlib.import_module("shtab")
    except ModuleNotFoundError:
        print("lazywafer: completion needs shtab: pip install lazywafer[completion]", file=sys.stderr)
        return 1
    print(shtab.complete(parser, shell=shell))
    return 0
