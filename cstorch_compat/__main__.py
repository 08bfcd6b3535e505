"""The command-line interface: `lazywafer COMMAND`.

`python -m cstorch_compat SCRIPT` is short for `lazywafer run SCRIPT`.
"""

import argparse
import atexit
import contextlib
import gc
import importlib
import linecache
import os
import pathlib
import select
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from cstorch_compat.check import check_command as checking
from cstorch_compat.check.own_files import read_script_files
from cstorch_compat.check.page_findings import check_for_page
from cstorch_compat.ckpt import ckpt_command as ckpt
from cstorch_compat.html_report.write_report import make_page_step, write_page
from cstorch_compat.names import completion, coverage, examples, installation, shim, stubs
from cstorch_compat.names.mirror_modules import Mirror
from cstorch_compat.planning import opt_command, published_runs
from cstorch_compat.planning import planning_command as planning
from cstorch_compat.profiling import spans
from cstorch_compat.profiling.trace_file import write_trace
from cstorch_compat.run import process, script, signals, user_traceback
from lazytensor import config
from lazytensor.core import pytorch_release
from lazytensor.errors import LazyError
from lazytensor.runtime import instruction_timing
from lazytensor.system import command_line, private_files
from lazytensor.system.output_files import json_text, write_file_atomically
from lazytensor.system.terminal import escape_line, escape_lines, print_escaped
from wse_sim import MACHINES, Machine, Report
from wse_sim.contest import contest_command as placing
from wse_sim.validation import command as validating

MAX_CLOSURE_LAG = 1_000_000
"""Largest accepted value of `--closure-lag`, in steps. Each step of lag keeps the results of one step in memory."""


def _make_parser() -> tuple[argparse.ArgumentParser, Collection[str]]:
    """Return the argument parser and the names of its commands."""
    parser: argparse.ArgumentParser = command_line.Parser(
        prog="lazywafer",
        description="Run cstorch scripts without a Cerebras system.",
        epilog="environment:\n" + (config.__doc__ or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lazywafer {installation.VERSION}")
    commands = parser.add_subparsers(dest="command", required=True)
    runner = commands.add_parser("run", help="run a script, then print how its step would run on the wafer")
    runner.add_argument(
        "--machine",
        type=script.parse_machine_name,
        default="wse2",
        metavar="NAME",
        help=f"the simulated machine: {', '.join(sorted(MACHINES))}, or a system such as CS-2 (default: wse2)",
    )
    runner.add_argument("--mode", default="auto", choices=["auto", "pipelined", "streaming"], help="execution mode")
    runner.add_argument(
        "--closure-lag",
        type=command_line.whole_number(0, MAX_CLOSURE_LAG),
        default=0,
        metavar="K",
        help="run the closures of each step K steps later (default: 0)",
    )
    runner.add_argument(
        "--strict", action="store_true", help="raise an error for state that is first created inside a step"
    )
    runner.add_argument(
        "--numbers",
        choices=pytorch_release.RELEASES,
        help="draw the random numbers of this PyTorch release (with cstorch: 2.4)",
    )
    runner.add_argument("--verbose", action="store_true", help="print the whole report: bounds, layers, routes")
    runner.add_argument(
        "--profile", action="store_true", help="also print the time of each line of the script in the host's steps"
    )
    script.add_output_arguments(runner)
    script.add_module_argument(runner)
    script.add_arguments(runner)
    runner.set_defaults(execute=run_script)
    checking.add_parser(commands)
    planning.add_parser(commands)
    opt_command.add_parser(commands)
    placing.add_parser(commands)
    coverage.add_parser(commands)
    examples.add_parser(commands, _write_digits)
    stubs.add_parser(commands)
    ckpt.add_parser(commands)
    validating.add_parser(commands, published_runs.record_run)
    informer = commands.add_parser("info", help="print versions, BLAS, threads and the cache folder")
    informer.add_argument("--json", action="store_true", help="print JSON")
    informer.set_defaults(execute=lambda options: print_info(options.json))
    keeper = commands.add_parser("cache", help="print the number and size of the cached kernels, and their folder")
    keeper.add_argument("--clear", action="store_true", help="remove all cached kernels first")
    keeper.set_defaults(execute=lambda options: print_cache(options.clear))
    completion.add_parser(commands, parser)
    _describe_commands(parser)
    return parser, commands.choices


def _write_digits(folder: pathlib.Path) -> str:
    """Write the digit images for the example `mnist` into `folder`. Return the message to print."""
    # Imported here because the import takes 80 ms, which only the `examples` command needs.
    told: str = importlib.import_module("cstorch_compat.torchvision.datasets.mnist").write_digits(folder)
    return told


def _describe_commands(parser: argparse.ArgumentParser) -> None:
    """Set the description of each subcommand that has none to its line in the list of commands, recursively."""
    for actions in parser._actions:
        if isinstance(actions, argparse._SubParsersAction):
            for row in actions._choices_actions:
                command = actions.choices[row.dest]
                # Keep a description that the command has set itself; it is longer.
                command.description = command.description or f"{str(row.help)[:1].upper()}{str(row.help)[1:]}."
                _describe_commands(command)


def main(argv: list[str] | None = None) -> int:
    """Run the command line `argv` (default: `sys.argv[1:]`) and return the exit status.

    A broken pipe on standard output ends the command silently with status 141. A signal prints its name and gives 128
    plus its number. Raises SystemExit for `--help`, `--version` and invalid arguments, as argparse does. Planning
    commands disable the garbage collector of the process if `argv` is None.
    """
    _open_standard_streams()
    try:
        # The contexts also cover the reports after a script and all other commands that write files.
        with signals.raise_on_signals(), _printable_warnings():
            options = _make_parser()[0].parse_args(argv)
            # A plan and its recorded step live until the process ends. Searching them for reference cycles, also at
            # exit, takes a third of a plan's time. The collector stays on if the caller passed `argv`.
            if argv is None and "all_lives" in options:
                gc.disable()
                atexit.register(gc.freeze)
            status: int = options.execute(options)
            sys.stdout.flush()
    except SystemExit:
        # argparse exits after printing help or an error.
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.flush()
            raise
        return _handle_lost_reader()
    except BrokenPipeError:
        return _handle_lost_reader()
    except BaseException as e:
        stopped = signals.find_signal_status(e)
        if stopped is None:
            raise
        signals.print_signal(stopped)
        return stopped
    return status


@contextlib.contextmanager
def _printable_warnings() -> Iterator[None]:
    """Replace control characters in the file names of printed warnings by escapes while the context is active.

    The escapes prevent a terminal from interpreting the control characters.
    """
    shown = warnings.formatwarning

    def show(message: Any, category: Any, filename: str, lineno: int, line: str | None = None) -> str:
        line = linecache.getline(filename, lineno) if line is None else line
        return shown(message, category, escape_line(filename), lineno, line)

    warnings.formatwarning = show
    try:
        yield
    finally:
        if warnings.formatwarning is show:
            warnings.formatwarning = shown


def _open_standard_streams() -> None:
    """Open /dev/null for each standard stream that is closed.

    Otherwise the next opened file, such as a checkpoint, would get the stream's file descriptor and receive its output.
    """
    for number, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor, which is `number`
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


def _has_lost_reader() -> bool:
    """Return whether standard output is a pipe whose reader has closed it.

    Return False if stdout has no file descriptor.
    """
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
    except OSError:
        # stdout is an in-memory stream, as in tests and notebooks.
        return False
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _handle_lost_reader() -> int:
    """Redirect standard output to /dev/null after a broken pipe. Return 141, the exit status of SIGPIPE."""
    # Otherwise Python's flush at exit would report the broken pipe again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


def run_script(options: argparse.Namespace) -> int:
    """Run the `lazywafer run` command: execute a script with the shim installed, then print and write its reports.

    Returns the exit status: the script's own if it is not 0, 2 if the script does not exist, 1 if an output file cannot
    be written or no step was found to report on. Sets the options of `process.RUN` from the command line. With
    `--profile`, prints the host's time per instruction. If the script failed, the reports of the steps before the error
    are printed, and the trace of `--trace` is written.
    """
    script.parse_trailing_options(
        options, lambda: [f.path.read_text(encoding="utf-8") for f in read_script_files(options.script)]
    )
    if not script.check_target(script.target_name(options)):
        return 2
    chosen = process.RUN.options
    chosen.machine, chosen.mode, chosen.progress = options.machine, options.mode, True
    chosen.closure_lag, chosen.strict = options.closure_lag, options.strict
    chosen.keeps_compilations = options.html is not None
    # Install the shim before the script is read: the script's imports must resolve to this package.
    shim.install(options.api, options.numbers)
    record = spans.start_recording() if options.trace is not None else None
    with instruction_timing.follow() if options.profile else contextlib.nullcontext() as timings:
        status = _execute(script.target_name(options), options.args)
    if timings is not None:
        print_escaped(timings.text())
    if status == 0:
        return _report_run(options, record)
    if record is not None:
        # Write the trace of a failed run too, up to the error.
        _write_output("--trace", options.trace, lambda path: write_trace(path, record))
    # The steps before the error were compiled for the wafer. After a signal, the command ends at once.
    if status <= signals.STATUS_BASE:
        _print_reports(options, _compiled_reports())
    return status


def _execute(path: str, args: list[str]) -> int:
    """Run a script or module as `__main__` and return its exit status.

    An exception of the script is printed with its traceback and gives 1. A signal gives 128 plus its number. If the
    error is a refusal of this package, a hint to run `lazywafer check` is printed too. Raises BrokenPipeError only if
    standard output has lost its reader.
    """
    try:
        script.run_as_main(path, args)
    except SystemExit as e:
        return _exit_status(e)
    except BrokenPipeError as e:
        # A lost reader of standard output is no error. A broken pipe or socket of the script is.
        if _has_lost_reader():
            raise
        _print_error(e)
        return 1
    except BaseException as e:
        # As in a shell: 128 plus the number of the signal.
        status = signals.find_signal_status(e)
        if status is not None:
            # An exception raised while the signal was handled is still the script's error.
            if not isinstance(e, KeyboardInterrupt | signals.RunStopped):
                _print_error(e)
            signals.print_signal(status)
            return status
        # Also catch exceptions that do not derive from Exception, so that no internal frames are shown.
        _print_error(e)
        if user_traceback.is_refusal(e) and pathlib.Path(path).is_file():
            print_escaped(
                f"\nRun `lazywafer check {shlex.quote(path)}` to list everything that the system refuses.", sys.stderr
            )
        return 1
    return 0


def _exit_status(e: SystemExit) -> int:
    """Return the exit status of a SystemExit as Python computes it. A text is printed to stderr and gives 1."""
    # sys.exit accepts a text, which Python prints before it exits with 1.
    if e.code is None or isinstance(e.code, int):
        return e.code or 0
    print(e.code, file=sys.stderr)
    return 1


def _print_error(e: BaseException) -> None:
    """Print the traceback of `e` to stderr, starting at the script's first frame.

    Adds a note to two kinds of errors. UnboundLocalError gets a hint on `global` and `nonlocal`. ImportError of a name
    from an emulated module gets the reason why the name is missing.
    """
    if isinstance(e, UnboundLocalError):
        e.add_note(_scope_hint(e))
    module = sys.modules.get(e.name or "") if isinstance(e, ImportError) else None
    if isinstance(module, Mirror):
        # The error of `from torch import x` does not say why x is missing. Reading the attribute raises the reason.
        try:
            getattr(module, str(e).split("'")[1])
        except AttributeError as reason:
            # The reason names the line of this getattr; replace it with the line of the import.
            place, _, words = str(reason).partition(": ")
            e.add_note(f"{user_traceback.find_user_line(e) or place}: {words}")
    try:
        told = user_traceback.format_traceback(e)
    except Exception:  # the working folder may be deleted, or the error's `__str__` may fail
        told = "".join(traceback.format_exception(e))
    print_escaped(told, sys.stderr, end="")


def _scope_hint(e: UnboundLocalError) -> str:
    """Return the hint for a function that assigns a variable of the enclosing scope without declaring it."""
    last = traceback.extract_tb(e.__traceback__)[-1]
    name = getattr(e, "name", None) or next(iter(str(e).split("'")[1:2]), "a name")
    return (
        f"{last.filename}:{last.lineno}: {last.name} assigns {name!r}, so Python treats it as a local variable.\n"
        f"  Write `global {name}` at the beginning of {last.name}, or `nonlocal {name}` if a function encloses it."
    )


def _report_run(options: argparse.Namespace, record: spans.RunRecord | None) -> int:
    """Print and write the reports of a run. Return the exit status: 0, or 1 if a report or file is missing.

    The reports are those of the steps compiled for CSX. If the run compiled none and a report, page or trace is
    requested, the script runs once more to record its step. A file that cannot be written does not prevent the others.
    Reports are printed after all files are written, followed by the timing of each loop.
    """
    # A script may have made no backend, and a backend may have compiled nothing.
    backend = process.current_backend(raise_exception=False)
    is_csx = backend is not None and backend.is_csx
    reports, steps, status = _compiled_reports(), [], 0
    if backend is not None and is_csx:
        steps = [make_page_step(c, Machine.by_name(options.machine)) for c in backend.compilations]
    elif options.report or options.html or record is not None:
        # Nothing was compiled for the wafer. Run the script again to record its step.
        try:
            steps = [planning.plan_step(options)]
        except LazyError as e:
            print_escaped(f"lazywafer: no step can be reported: {e}", sys.stderr)
            status = 1
        reports = [step.plan.report for step in steps]
    has_step = status == 0
    if options.html and has_step:
        name = script.target_name(options)
        found = check_for_page(name, options.args, options.api, steps[0].program) if steps else None
        status |= _write_output("--html", options.html, lambda path: write_page(path, name, steps, check=found))
    if options.report and has_step:
        status |= _write_output("--report", options.report, lambda path: _write_reports(path, reports))
    if record is not None:
        # The record already contains runs on the wafer.
        plans = [] if record.wafer else [step.plan for step in steps]
        status |= _write_output("--trace", options.trace, lambda path: write_trace(path, record, plans))
    # Print after all files are written, because the reader of a pipe may close it after a few lines.
    _print_reports(options, reports)
    # Print the loops' timings last, where they are visible: reports of large models are long.
    for loop in backend.loops if backend is not None and is_csx else ():
        print_escaped(loop.text())
    return status


def _compiled_reports() -> list[Report]:
    """Return the reports of the steps that the run has compiled for the wafer."""
    backend = process.current_backend(raise_exception=False)
    return [r for r in backend.reports if r is not None] if backend is not None else []


def _print_reports(options: argparse.Namespace, reports: Sequence[Report]) -> None:
    """Print the reports, in full with `--verbose`."""
    for number, report in enumerate(reports, 1):
        name = "A step" if len(reports) == 1 else f"Step {number} of {len(reports)}"
        print_escaped(f"\n{report.text() if options.verbose else report.summary(name)}")
    if reports and not options.verbose:
        print_escaped("`lazywafer run --verbose` prints bounds, layers and routes; `--html FILE` writes a page.")


def _write_output(option: str, path: pathlib.Path, write: Callable[[pathlib.Path], None]) -> int:
    """Call `write(path)` for the command-line option `option`.

    Return 0, or 1 if it raised; the error is printed to stderr.
    """
    try:
        write(path)
    except OSError as e:
        print_escaped(f"lazywafer: {option} cannot be written to {path}: {e.strerror or e}", sys.stderr)
    except Exception as e:
        _print_error(e)
    else:
        return 0
    return 1


def _write_reports(path: pathlib.Path, reports: Sequence[Report]) -> None:
    """Write the reports to `path`: as JSON if the suffix is ".json", as text otherwise."""
    if path.suffix == ".json":
        write_file_atomically(path, json_text([r.as_dict() for r in reports], indent=1) + "\n")
    else:
        write_file_atomically(path, escape_lines("\n\n".join(r.text() for r in reports)) + "\n")


def print_cache(clear: bool = False) -> int:
    """Print the folder, number and size of the cached kernels. If `clear`, remove them first. Return 0."""
    count, size = private_files.trim_cache(0 if clear else sys.maxsize)
    most = f"at most {private_files.MAX_CACHE_BYTES / 1e6:.0f}"
    print_escaped(f"{config.current().cache_folder}: {count} kernels, {size / 1e6:.1f} MB of {most}")
    return 0


def print_info(as_json: bool = False) -> int:
    """Print versions, BLAS, threads and the cache folder, as text or as JSON. Return 0."""
    if as_json:
        print(json_text(installation.collect_information(), indent=1))
        return 0
    for name, value in installation.collect_information().items():
        print_escaped(f"{name:15} {value}")
    return 0


if __name__ == "__main__":
    # `python -m cstorch_compat SCRIPT` runs a script, as `python SCRIPT` would.
    names = {"-h", "--help", "--version", *_make_parser()[1]}
    names_script = len(sys.argv) > 1 and sys.argv[1] not in names
    sys.exit(main(["run", *sys.argv[1:]] if names_script else None))
