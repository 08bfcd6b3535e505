"""The command `validate`: print the model's figure for every published measurement."""

import argparse
import pathlib
import sys
from dataclasses import replace
from typing import Any

from lazytensor.errors import LazyError
from lazytensor.system.command_line import Parser, existing_file, machine_field_setting, nonempty_text
from lazytensor.system.output_files import json_text
from lazytensor.system.terminal import print_escaped
from wse_sim.planner.modes import Source
from wse_sim.validation import table
from wse_sim.validation.example_rows import EXAMPLE_TEXT
from wse_sim.validation.machine_settings import describe_settings, set_machines
from wse_sim.validation.placements import make_placement_table, place_nets, placements_as_dict
from wse_sim.validation.results import results
from wse_sim.validation.rows import MEASURED_FILE, MeasuredRow, choose_rows, load
from wse_sim.validation.served_rates import plan_served_rates, served_rates_table, write_served_rates
from wse_sim.validation.simulated import simulated_cycles
from wse_sim.validation.whole_runs import PlannedRun, StepRecorder, plan_runs, write_runs

HELP = "compare the wafer model with published measurements and print its errors"


def add_parser(commands: "argparse._SubParsersAction[Any]", record: StepRecorder | None = None) -> None:
    """Add the command `validate` to the subparsers `commands` of a command line.

    `record` returns the recorded step of a published script; without it whole runs cannot be planned.
    """
    parser = commands.add_parser("validate", help=HELP)
    parser.set_defaults(execute=execute, recorder=record)
    add_arguments(parser)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command, and the positional names of rows, to a parser."""
    parser.add_argument(
        "names",
        nargs="*",
        type=nonempty_text,
        metavar="NAME",
        help="prefixes of row ids, families or kernels (default: all rows)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print each row with its source and errors as JSON")
    form.add_argument("--markdown", action="store_true", help="print the tables of errors of the READMEs")
    parser.add_argument("--simulate", action="store_true", help="also simulate the rows cycle by cycle (a minute)")
    parser.add_argument(
        "--recorded", action="store_true", help="use the recorded plans of whole runs, and do not plan them again"
    )
    parser.add_argument("--record", action="store_true", help="record the planned runs, for the error bands of reports")
    parser.add_argument(
        "--placement", action="store_true", help="compare networks in pipelined mode with their area bound"
    )
    parser.add_argument("--serving", action="store_true", help="compare plans of serving with published rates")
    parser.add_argument(
        "--rows",
        type=existing_file,
        default=MEASURED_FILE,
        metavar="FILE",
        help="predict the rows of this file (JSON, or CSV if its name ends in .csv)",
    )
    parser.add_argument(
        "--set",
        type=machine_field_setting,
        action="append",
        default=[],
        dest="settings",
        metavar="MACHINE.FIELD=NUMBER",
        help="hold a machine with another number to the rows, for example wse2.hop_cycles=2; may be repeated",
    )
    parser.add_argument("--example", action="store_true", help="print an example of a file of rows")
    parser.add_argument("--kernels", action="store_true", help="list the kernels of rows, their units and parameters")


def execute(options: argparse.Namespace) -> int:
    """Print the tables. Return 2, with the error on stderr, for an invalid file, name or setting, else 0.

    The status depends neither on the size of errors nor on rows that cannot be predicted. Whole runs are planned if
    `options.recorder` is given and `--recorded` is not. With `--record` also write the planned runs to the file that
    error bands are read from.
    """
    if options.example or options.kernels:
        print_escaped(EXAMPLE_TEXT if options.example else table.kernel_text())
        return 0
    if options.serving:
        return _print_serving(options)
    try:
        if options.placement:
            return _print_placement(options)
        machines = set_machines(options.settings)
        is_packaged = options.rows == MEASURED_FILE
        if options.record and (machines or not is_packaged):
            raise LazyError(
                "--record stores the published runs on the presets", hint="Leave out --rows and --set with --record."
            )
        rows = choose_rows(load(options.rows), options.names)
        rows = rows if is_packaged else [_find_script(row, options.rows.parent) for row in rows]
        record = None if options.recorded else options.recorder
        runs = plan_runs(rows, _announce_scripts(record), machines) if record else None
    except LazyError as e:
        print_escaped(f"validate: {e}", sys.stderr)
        return 2
    if options.record and runs is not None:
        write_runs(run for run in runs.values() if isinstance(run, PlannedRun))
    verdicts = results(rows, simulated_cycles if options.simulate else None, runs, machines)
    if options.json:
        print(json_text(table.as_dict(verdicts), indent=1))
        return 0
    for line in describe_settings(machines):
        print_escaped(f"with {line}")
    if options.markdown:
        print_escaped("\n\n".join(part for part in (table.markdown(verdicts), table.runs_markdown(verdicts)) if part))
    else:
        print_escaped(table.text(verdicts))
    return 0


def _find_script(row: MeasuredRow, folder: pathlib.Path) -> MeasuredRow:
    """Return the row of a user's file with the script as a full path. A relative path starts at `folder`."""
    return replace(row, script=str((folder / row.script).resolve())) if row.script else row


def _print_serving(options: argparse.Namespace) -> int:
    """Print the table of published rates of serving, and record the rates with `--record`. Return 0."""
    rates, unplanned = plan_served_rates()
    if options.record:
        write_served_rates(rates)
    if options.json:
        print(json_text([vars(rate) for rate in rates], indent=1))
        return 0
    rate_table = served_rates_table(rates)
    print_escaped(rate_table.markdown() if options.markdown else rate_table.text())
    print_escaped("\n".join(("", "Not predicted:", *(f"  {r.row.id}: {r.reason}" for r in unplanned))))
    return 0


def _print_placement(options: argparse.Namespace) -> int:
    """Print the table of placed networks and return 0.

    Raise LazyError without a recorder of scripts, or for an unknown network.
    """
    if options.recorder is None:
        raise LazyError(
            "this command cannot record the scripts of networks", hint="Use `lazywafer validate --placement`."
        )
    placed = place_nets(options.names, _announce_scripts(options.recorder))
    if options.json:
        print(json_text(placements_as_dict(placed), indent=1))
    else:
        table_of_nets = make_placement_table(placed)
        print_escaped(table_of_nets.markdown() if options.markdown else table_of_nets.text())
    return 0


def _announce_scripts(record: StepRecorder) -> StepRecorder:
    """Return a recorder that prints a line on stderr before it calls `record`.

    Planning all scripts takes minutes.
    """

    def announced(script: str, args: tuple[str, ...]) -> Source:
        print(" ".join(("validate: planning", script, *args)), file=sys.stderr, flush=True)
        return record(script, args)

    return announced


def main(argv: list[str] | None = None) -> int:
    """Parse `argv`, by default the arguments of the process, and print the tables. Return the exit status.

    Scripts cannot be recorded here, so whole runs are those recorded last. Wrong arguments raise SystemExit.
    """
    parser = Parser(prog="python -m wse_sim.validation", description=HELP)
    parser.set_defaults(recorder=None)
    add_arguments(parser)
    return execute(parser.parse_args(argv))
