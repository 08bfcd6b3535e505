"""The command `validate`: prints what the model says about every published measurement."""

import argparse
import json
import pathlib
import sys
from typing import Any

from lazytensor.errors import LazyError
from wse_sim.validation import table
from wse_sim.validation.results import results
from wse_sim.validation.rows import MEASURED, load
from wse_sim.validation.simulated import simulated

HELP = "hold the wafer model to published measurements and print the errors"


def add_parser(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add `validate` to a command line."""
    parser = commands.add_parser("validate", help=HELP)
    parser.set_defaults(execute=execute)
    add_arguments(parser)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command, for both of its entries."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="every row with its source and errors, for tools")
    form.add_argument("--markdown", action="store_true", help="the table of errors that the READMEs show")
    parser.add_argument("--simulate", action="store_true", help="also cycle by cycle (half a minute)")
    parser.add_argument("--rows", type=pathlib.Path, default=MEASURED, metavar="FILE", help="other measured rows")


def execute(options: argparse.Namespace) -> int:
    """Print the table. Returns the exit status: 2 if there are no rows, and 0 however large the errors are."""
    try:
        rows = load(options.rows)
    except LazyError as e:
        print(f"validate: {e}", file=sys.stderr)
        return 2
    verdicts = results(rows, simulated if options.simulate else None)
    if options.json:
        print(json.dumps(table.as_dict(verdicts), indent=1))
    else:
        print(table.markdown(verdicts) if options.markdown else table.text(verdicts))
    return 0


def main(argv: list[str] | None = None) -> int:
    """Parse `argv`, by default that of the process, and print. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m wse_sim.validation", description=HELP)
    add_arguments(parser)
    return execute(parser.parse_args(argv))
