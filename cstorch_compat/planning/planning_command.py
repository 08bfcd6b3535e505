"""The `lazywafer plan` command: record a script's training step and print its predicted speed on Cerebras systems."""

import argparse
import sys
from dataclasses import replace
from typing import Any

from cstorch_compat.check.page_findings import check_for_page
from cstorch_compat.html_report.contents import PageStep
from cstorch_compat.html_report.module_tree import StepTexts
from cstorch_compat.html_report.write_report import make_texts, write_page
from cstorch_compat.planning.combinations import PLAN_MODES, PlanRequest, plan_rows, to_json_document
from cstorch_compat.planning.recording import record_script
from cstorch_compat.planning.row_printer import RowPrinter
from cstorch_compat.planning.serving_command import add_serving_arguments, check_serving_options, plan_serving
from cstorch_compat.run import script, user_traceback
from cstorch_compat.run.file_journal import FileJournal, format_file_changes
from lazytensor.core import dtype
from lazytensor.core.abstract_step import StepFamily
from lazytensor.errors import LazyError, TraceError
from lazytensor.system.command_line import comma_separated, new_file, one_of, whole_number
from lazytensor.system.output_files import json_text
from lazytensor.system.terminal import print_escaped
from wse_sim import MACHINES, PRECISION_LEVELS, Decoder, Machine, Prices, plan
from wse_sim.host import APPLIANCE
from wse_sim.serving.traced_decoder import decoder_of_program

MAX_SHOWN_PLANS = 6
"""Maximum number of complete plans on the HTML page."""
MAX_BATCH, MAX_SYSTEMS, MAX_WORKERS = 10_000_000, 1_000_000, 1_000_000
"""Maximum batch size, number of systems, and number of input workers of one system.

A batch of ten million samples is planned in seconds. The micro-batches of a batch of a billion take hours.
"""
HALF_TYPES = ("float16", "bfloat16", "cbfloat16")
"""The values of `--half`."""

HELP = """Record the first training step of a script and print a row for each combination of the options as soon as it
is known. The script runs up to its first step, and again to record the step for other batches. Files that it writes
until then are removed or restored afterwards; stderr lists them."""


def add_parser(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add the `plan` command and its arguments to the subparsers `commands`."""
    planner = commands.add_parser(
        "plan", help="print the predicted rates of a script's training step on systems", description=HELP
    )
    greatest_numbers = (MAX_BATCH, MAX_SYSTEMS, MAX_WORKERS)
    batches, systems, workers = (comma_separated(whole_number(1, greatest)) for greatest in greatest_numbers)
    machines = comma_separated(script.parse_machine_name)
    planner.add_argument(
        "--batch", type=batches, default=(), metavar="N,...", help="batch sizes (default: that of the script)"
    )
    planner.add_argument(
        "--machine",
        type=machines,
        default=("wse2",),
        metavar="NAME,...",
        help=f"machines: {', '.join(sorted(MACHINES))}, or systems such as CS-2 (default: wse2)",
    )
    planner.add_argument(
        "--systems", type=systems, default=(), metavar="N,...", help="numbers of systems (default: that of the script)"
    )
    planner.add_argument(
        "--workers",
        type=workers,
        default=(),
        metavar="N,...",
        help=f"input workers of one system (default: {APPLIANCE.workers}); adds a column to the table",
    )
    planner.add_argument(
        "--what-if",
        action="store_true",
        help="plan each row again with every resource twice as fast, and print the gains; takes several times as long",
    )
    planner.add_argument("--mode", default="auto", choices=PLAN_MODES, help="execution modes")
    planner.add_argument("--half", default="float16", choices=HALF_TYPES, help="the data type of matrix products")
    levels = sorted(PRECISION_LEVELS)
    planner.add_argument(
        "--pol", type=one_of(levels), choices=levels, help="precision level (default: that of the script)"
    )
    planner.add_argument(
        "--zeros", action="store_true", help="use zero for values that the step reads, instead of an error"
    )
    add_serving_arguments(planner)
    planner.add_argument("--json", action="store_true", help="print JSON as described by plan.schema.json")
    planner.add_argument("--html", type=new_file(".html"), metavar="FILE", help="also write a page for a browser")
    planner.add_argument("--output", action="store_true", help="print the output of the script on stderr")
    script.add_module_argument(planner)
    script.add_arguments(planner)
    # The recorded step and its plans live until the process ends; see `main`.
    planner.set_defaults(execute=plan_script, all_lives=True)


def plan_script(options: argparse.Namespace) -> int:
    """Plan a script and print the table, or JSON with `options.json`.

    Returns 0; 1 if the script cannot be recorded or the page cannot be written; 2 if there is no such script. Prints
    the files that the script has changed.
    """
    if not options.serve and not script.check_target(script.target_name(options)):
        return 2
    if wrong := check_serving_options(options):
        print_escaped(f"lazywafer plan: {wrong}", sys.stderr)
        return 2
    wanted = PlanRequest(
        options.batch,
        options.machine,
        options.systems,
        options.workers,
        options.mode,
        options.pol,
        has_resources=options.what_if,
    )
    journal = FileJournal()
    try:
        if options.serve:
            return plan_serving(options, lambda options: _record_decoder(options, journal))
        with RowPrinter(wanted, options.json) as printer:
            return _plan(options, wanted, journal, printer)
    except LazyError as e:
        print_escaped(f"lazywafer: {e}", sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of a pipe has closed it; `main` ends quietly
        raise
    except Exception as e:
        # The script itself failed: its traceback is enough.
        print_escaped(user_traceback.format_traceback(e), sys.stderr, end="")
        return 1
    finally:
        for line in format_file_changes(journal):
            print_escaped(f"lazywafer: {line}", sys.stderr)


def _record_decoder(options: argparse.Namespace, journal: FileJournal) -> Decoder:
    """Return the extents of the decoder-only model that a script calls.

    Raises LazyError if its first step has no such model, and the exceptions of the script.
    """
    family = record_script(
        script.target_name(options), options.args, options.api, shows_output=options.output, journal=journal
    )
    return decoder_of_program(family.program())


def _plan(options: argparse.Namespace, wanted: PlanRequest, journal: FileJournal, printer: RowPrinter) -> int:
    """Record the step, print its rows, and write the HTML page. Return 1 if the page cannot be written, else 0.

    Raises LazyError, and the exceptions of the script.
    """
    name, texts = script.target_name(options), list[StepTexts]()
    printer.status(f"recording the first step of {name}")
    family = record_script(
        name,
        options.args,
        options.api,
        getattr(dtype, options.half),
        options.output,
        options.zeros,
        (lambda graph: texts.append(make_texts(graph))) if options.html else None,
        journal,
    )
    printer.begin(family.batch_size)
    rows = plan_rows(family, wanted, printer.show)
    if options.json:
        print(json_text(to_json_document(name, family, rows), indent=1))
    else:
        printer.finish()
    if options.html is not None:
        printer.status(f"writing {options.html}")
        shown = _make_page_steps(family, wanted, texts[0])
        printer.status(f"checking {name}")
        found = check_for_page(name, options.args, options.api, family.program())
        listed = to_json_document("", family, rows)["rows"]
        try:
            write_page(options.html, name, shown, listed, has_workers=bool(wanted.workers), check=found)
        except OSError as e:
            printer.status("")
            print_escaped(f"lazywafer: --html cannot be written to {options.html}: {e.strerror or e}", sys.stderr)
            return 1
    return 0


def _make_page_steps(family: StepFamily, wanted: PlanRequest, texts: StepTexts) -> list[PageStep]:
    """Return complete plans for the HTML page: each machine with the first batch sizes, at most MAX_SHOWN_PLANS in all.

    Each machine has at least one plan. The number of systems is the first requested one.
    """
    sizes, steps = wanted.batches or (family.batch_size,), []
    mode = "auto" if wanted.mode == "all" else wanted.mode
    host = replace(APPLIANCE, workers=wanted.workers[0]) if wanted.workers else APPLIANCE
    for name in wanted.machines:
        machine = Machine.by_name(name)
        # Shared by all batch sizes, so that most kernels are priced once.
        prices = Prices(machine)
        # Each complete plan makes the page larger; the table has all rows.
        for size in sizes[: max(1, MAX_SHOWN_PLANS // len(wanted.machines))]:
            one = plan(
                family,
                machine,
                mode,
                batch_size=size,
                systems=wanted.systems[0] if wanted.systems else None,
                host=host,
                prices=prices,
                precision_level=wanted.precision_level,
            )
            steps.append(PageStep(family.program(size), one, machine, texts))
    return steps


def plan_step(options: argparse.Namespace) -> PageStep:
    """Return the plan of a script's training step, for `run` of a script that compiled nothing for the wafer.

    The script runs again. Raises LazyError if no step can be recorded, or if the script fails in the second run.
    """
    texts: list[StepTexts] = []
    try:
        family = record_script(
            script.target_name(options), options.args, options.api, on_graph=lambda g: texts.append(make_texts(g))
        )
    except LazyError:
        raise
    except Exception as e:
        what = f"the script ran, but failed in the second run that records its step: {type(e).__name__}: {e}"
        hint = "Change the script so that it can run twice, or use `lazywafer plan --html FILE` in another folder."
        raise TraceError(what, where=user_traceback.find_user_line(e), hint=hint) from e
    # With the script's batch size, as the run had.
    machine = Machine.by_name(options.machine)
    return PageStep(family.program(), plan(family.program(), machine, options.mode), machine, texts[0])
