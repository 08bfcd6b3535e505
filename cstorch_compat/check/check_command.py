"""The `lazywafer check` command: run a script up to its first steps and print the findings."""

import argparse
import contextlib
import io
import json
import sys
import warnings

from cstorch_compat.check import report
from cstorch_compat.check.checked_step import FindingRecorder
from cstorch_compat.check.findings import Findings
from cstorch_compat.check.learning_rates import RateWatcher
from cstorch_compat.check.loaders import LoaderWatcher
from cstorch_compat.check.missing_names import find_missing_names
from cstorch_compat.check.outcome import STATUS_CRASHED, CheckOutcome
from cstorch_compat.check.plain_scripts import PlainScriptWatcher
from cstorch_compat.check.port_advice import advise_on_calls
from cstorch_compat.check.script_errors import add_api_error, first_line
from cstorch_compat.check.source_rules import check_closure_sources
from cstorch_compat.check.stand_ins import MissingModules
from cstorch_compat.check.trace_counts import CheckComplete
from cstorch_compat.check.traced_session import TRACED_STEPS, CheckSession
from cstorch_compat.check.write_guard import WriteGuard, WriteStopped
from cstorch_compat.names import shim
from cstorch_compat.run import process, script, user_traceback
from lazytensor.errors import LazyError
from lazytensor.ir.types import Where
from lazytensor.system.output_files import json_text
from lazytensor.system.terminal import escape_lines, print_escaped

HELP = """Trace the first steps of a script and list what the system would refuse. The script runs with two steps of
each loop, which are not executed. Files that it writes are removed or restored afterwards; the report lists them."""


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
    loaders = LoaderWatcher(findings)
    process.RUN.options.session = lambda backend: CheckSession(recorder, backend.store, outcome.summary, loaders)
    plain = PlainScriptWatcher(recorder, loaders, outcome.summary)
    # The model is not trained, so the script must not save it over an older file.
    guard = WriteGuard(outcome.journal, lambda: recorder.is_after_step or outcome.summary.is_untrained)
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
            RateWatcher(),
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
            outcome.stopped = outcome.stopped or f"the code after {_find_user_line(e, path)} ({first_line(e)})"
    check_closure_sources(findings, path)
    if outcome.summary.is_plain:
        advise_on_calls(findings, path)
    return findings, outcome


def _run_script(path: str, args: list[str], findings: Findings, outcome: CheckOutcome, shown: io.StringIO) -> None:
    """Run the script as `__main__` and record in `outcome` why it ended.

    An exit with a nonzero status counts as a crash if no loop was traced before.
    """
    try:
        script.run_as_main(path, args)
    except WriteStopped as e:
        outcome.stopped = f"the code after {_find_user_line(e, path)}, which {e}"
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

    A missing name or option and an error raised by the Cerebras API become findings. If a step was traced before, any
    other error counts as a consequence of the missing values, and otherwise as a crash of the script.
    """
    place = _find_user_line(e, path)
    is_refused = any(f.rule.severity == "refused" for f in findings.at(place))
    if add_api_error(findings, e, place) or (is_refused and isinstance(e, LazyError)):
        outcome.stopped = f"the code after {place}"
    # After the first step the script works with results that were not computed, so an error need not be its fault.
    elif outcome.summary.operations and not outcome.summary.is_exact:
        reason = f"{type(e).__name__}: {first_line(e)}"
        outcome.stopped = f"the code after {place}, which failed, perhaps for lack of computed results ({reason})"
    else:
        outcome.crash = user_traceback.format_traceback(e)


def _find_user_line(e: BaseException, path: str) -> Where:
    """Return the innermost line of user code in the traceback of `e`, or line 1 of `path` if there is none."""
    return user_traceback.find_user_line(e) or Where(path, 1)
