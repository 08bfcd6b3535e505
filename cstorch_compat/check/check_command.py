"""The `lazywafer check` command: run a script up to its first steps and print the findings."""

import argparse
import contextlib
import io
import json
import sys
import traceback
import warnings

from cstorch_compat.check import report
from cstorch_compat.check.checked_step import FindingRecorder
from cstorch_compat.check.findings import Findings
from cstorch_compat.check.loaders import LoaderWatcher
from cstorch_compat.check.missing_names import find_missing_names
from cstorch_compat.check.outcome import STATUS_CRASHED, CheckOutcome
from cstorch_compat.check.plain_scripts import PlainScriptWatcher
from cstorch_compat.check.source_rules import check_closure_sources
from cstorch_compat.check.stand_ins import MissingModules
from cstorch_compat.check.trace_counts import CheckComplete
from cstorch_compat.check.traced_session import TRACED_STEPS, CheckSession
from cstorch_compat.check.write_guard import WriteGuard
from cstorch_compat.names import shim
from cstorch_compat.run import process, script, user_traceback
from lazytensor.errors import LazyError, NameMissing, OptionMissing
from lazytensor.ir.types import Where
from lazytensor.system.output_files import json_text
from lazytensor.system.terminal import escape_lines, print_escaped

HELP = """Trace the first step of a script and list what the system would refuse. The script runs up to its first step;
no step is computed. Files that it writes until then are removed or restored afterwards; the report lists them."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the `check` command and its arguments to the subparsers `commands`."""
    checker = commands.add_parser(
        "check", help="trace the first step and list what the system would refuse", description=HELP
    )
    checker.add_argument("--json", action="store_true", help="print the findings as JSON")
    checker.add_argument("--output", action="store_true", help="print the output of the script on stderr")
    script.add_arguments(checker)
    checker.set_defaults(execute=check_script)


def check_script(options: argparse.Namespace) -> int:
    """Check a script and print the report, as JSON if `options.json`.

    Returns 1 if something is refused, 2 if the script crashed or does not exist, and 0 otherwise.
    """
    if not script.check_file(options.script):
        return STATUS_CRASHED
    findings, outcome = run_check(options.script, options.args, options.output, options.api)
    if options.json:
        print(json_text(report.to_json_dict(findings, outcome), indent=1))
    else:
        print_escaped(report.format_report(findings, outcome))
    return outcome.status(findings)


def print_report_as_json() -> None:
    """Run a check in a child process of `cstorch_compat.check`.

    The last command-line argument is JSON with the keys "path", "args" and "api". Prints one line of JSON: a list of
    the report as text and the report as a dict.
    """
    asked = json.loads(sys.argv[-1])
    findings, outcome = run_check(asked["path"], asked["args"], api=asked["api"])
    print(json_text([escape_lines(report.format_report(findings, outcome)), report.to_json_dict(findings, outcome)]))


def run_check(
    path: str, args: list[str], shows_output: bool = False, api: str | None = None
) -> tuple[Findings, CheckOutcome]:
    """Run the script at `path` with the arguments `args` under observation and return its findings and the outcome.

    The loop over the data is left after the first steps; no step is computed. Output of the script is discarded, or
    printed to stderr if `shows_output`. Files that the script writes are removed or restored afterwards. `api` is the
    release of the Cerebras API, None for the current one. Installs the shim and changes the options of `process.RUN`.
    """
    findings, outcome = Findings(), CheckOutcome(path)
    shim.install(api)
    outcome.missing = find_missing_names(path)
    recorder = FindingRecorder(findings)
    process.RUN.options.backend, process.RUN.options.steps = "CSX", TRACED_STEPS
    process.RUN.options.session = lambda backend: CheckSession(recorder, backend.store, outcome.summary)
    loaders = LoaderWatcher(findings)
    plain = PlainScriptWatcher(recorder, loaders, outcome.summary)
    # The model is not trained, so the script must not save it after the step.
    guard = WriteGuard(lambda: recorder.is_after_step or outcome.summary.is_closed)
    # Keep the script's output out of the report, which may be JSON.
    shown = io.StringIO()
    stream = sys.stderr if shows_output else shown
    with contextlib.ExitStack() as watched:
        # Enter the journal first and the recorder second, because MissingModules reports to the recorder.
        for one in (
            outcome.journal,
            recorder,
            loaders,
            plain,
            MissingModules(findings),
            guard,
            warnings.catch_warnings(),
        ):
            watched.enter_context(one)
        for redirect in (contextlib.redirect_stdout, contextlib.redirect_stderr):
            watched.enter_context(redirect(stream))
        # The report contains the warnings of a run as findings with their lines.
        warnings.simplefilter("ignore")
        _run_script(path, args, findings, outcome, shown)
        try:
            plain.finish()
        except LazyError as e:
            outcome.stopped = outcome.stopped or f"the code after {_find_user_line(e, path)} ({_first_line(e)})"
    check_closure_sources(findings, path)
    return findings, outcome


def _run_script(path: str, args: list[str], findings: Findings, outcome: CheckOutcome, shown: io.StringIO) -> None:
    """Run the script as `__main__` and record in `outcome` why it ended.

    An exit with a nonzero status counts as a crash if no loop was traced before.
    """
    try:
        script.run_as_main(path, args)
    except CheckComplete as e:
        outcome.stopped = f"the code after {e}"
    # Scripts may end with sys.exit(main()). A nonzero status before any loop means that the script failed.
    except SystemExit as e:
        if e.code not in (None, 0) and not outcome.summary.loops:
            outcome.crash = script.format_exit(e, shown.getvalue())
    except BaseException as e:
        _record_stop(e, path, findings, outcome)


def _record_stop(e: BaseException, path: str, findings: Findings, outcome: CheckOutcome) -> None:
    """Classify the exception `e` that ended the script and record it in `outcome` or `findings`.

    If a step was traced before, the error counts as a consequence of the missing values. A missing name or option and
    an error raised by the Cerebras API become findings. Any other error is a crash of the script.
    """
    place = _find_user_line(e, path)
    # After the first step the script works with results that were not computed, so an error is not its fault.
    if outcome.summary.operations:
        outcome.stopped = f"the code after {place}, which needs computed results ({type(e).__name__}: {_first_line(e)})"
    elif isinstance(e, NameMissing | OptionMissing):
        findings.add("missing here", place, type(e).__name__, e.what, e.hint)
        outcome.stopped = f"the code after {place}"
    elif _is_api_error(e):
        findings.add("api", place, f"{type(e).__name__}", _first_line(e))
        outcome.stopped = f"the code after {place}"
    else:
        outcome.crash = user_traceback.format_traceback(e)


def _is_api_error(e: BaseException) -> bool:
    """Return whether `e` was raised by the emulated Cerebras API, which raises the same error on the system."""
    # Test the frame that raised it: user code may raise the same error type.
    innermost = [f for f, _ in traceback.walk_tb(e.__traceback__)][-1]
    name = innermost.f_globals.get("__name__", "")
    return name.startswith("cstorch_compat.") and not name.startswith(("cstorch_compat.names", "cstorch_compat.check"))


def _find_user_line(e: BaseException, path: str) -> Where:
    """Return the innermost line of user code in the traceback of `e`, or line 1 of `path` if there is none."""
    return user_traceback.find_user_line(e) or Where(path, 1)


def _first_line(e: BaseException) -> str:
    return str(e).strip().splitlines()[0] if str(e).strip() else ""
