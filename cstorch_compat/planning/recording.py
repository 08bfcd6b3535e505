"""Record the training step of a script without computing values.

`record_script` returns its program for any batch size.
"""

import contextlib
import io
import logging
import os
import sys
from collections.abc import Callable, Iterator

from cstorch_compat.names import shim
from cstorch_compat.planning.plain_step import PlainStepRecorder
from cstorch_compat.planning.step_batch import StepBatch, StepRecorded
from cstorch_compat.planning.traced_steps import AbstractSession
from cstorch_compat.run import process, script, user_traceback
from cstorch_compat.run.file_journal import FileJournal
from lazytensor.core import abstract_step
from lazytensor.core.abstract_step import StepFamily, leading_extent
from lazytensor.core.dtype import DType, float16
from lazytensor.errors import LazyError, ShapeError, TraceError
from lazytensor.ir.graph import Graph
from lazytensor.ir.graph_function import inline_calls
from lazytensor.ir.program import Program

NO_STEP_MESSAGE = "the script ended without a call of a model or of a traced function"
"""The error for a script without a step."""
SCALE_HINT = (
    "Use the extent of the batch (x.shape[0] or len(x)), take the tensor from the data loader, or omit --batch."
)
"""The way out for a tensor whose extent does not follow the batch size, such as labels written as a list."""


def record_script(
    path: str,
    args: list[str] | None = None,
    api: str | None = None,
    half: DType = float16,
    shows_output: bool = False,
    shows_zeros: bool = False,
    on_graph: Callable[[Graph], None] | None = None,
    journal: FileJournal | None = None,
) -> StepFamily:
    """Return the training step of a script as a family of programs, one for each batch size.

    The script runs as `python path args` until its first step is recorded. Parameters have no values. The script may
    use plain PyTorch, cstorch, or an older release (`api`). It runs again, once or twice, when the program for another
    batch size is requested. `half` is the 16-bit type of mixed precision. What the script writes before its step is
    undone after each recording.

    shows_output: whether output of the script goes to stderr instead of being discarded
    shows_zeros: whether values that the step reads are zero instead of refused, for scripts that only print them
    on_graph: called with the graph of the first recording, before it is compiled
    journal: gets the list of changed files

    The state of the process's run (`process.RUN`) is reset meanwhile and restored afterwards. Models and tensors from
    before must not be used again. Raises TraceError, with the script's line, if the step reads a value and if the
    script fails only for another batch size. Other exceptions of the script propagate.
    """

    files = journal or FileJournal()

    def record(batch: StepBatch) -> tuple[int, Program]:
        # Reset the run for each recording, since a second step in the same run may differ from the first.
        with files, _temporary_run(path, half, batch, api):
            shown = io.StringIO()
            stream = sys.stderr if shows_output else shown
            with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
                try:
                    graph = _record_first_step(path, args or [], batch)
                except SystemExit as e:
                    text = script.format_exit(e, shown.getvalue())
                    hint = "Put the options of lazywafer before the script, and the options of the script after it."
                    raise TraceError(
                        text, where=path, hint=hint if args else "Fix the script so that it runs."
                    ) from None
            if on_graph is not None and not batch.wanted:
                on_graph(inline_calls(graph))
            return leading_extent(n.type for n in graph.inputs), _annotate_program(abstract_step.program_of(graph))

    own, program = record(StepBatch(shows_zeros=shows_zeros))

    def again(size: int) -> Program:
        try:
            return record(StepBatch(own, size, shows_zeros))[1]
        except ShapeError as e:
            what = f"the script's step has {own} samples; with {size} its shapes do not fit: {e.what}"
            hint = f"An extent of {own} is fixed in the script, such as labels in a list. {SCALE_HINT}"
            raise TraceError(what, where=e.where or path, hint=hint) from e
        except LazyError:
            raise
        except Exception as e:
            what = f"the script ran with its own batch size, but failed with {size}: {type(e).__name__}: {e}"
            hint = "Make it run twice in one process (os.makedirs(..., exist_ok=True)) and with any batch size."
            raise TraceError(what, where=user_traceback.find_user_line(e) or path, hint=hint) from e

    return StepFamily(own, program, again)


def _annotate_program(program: Program) -> Program:
    """Return the program with the settings of the script's backend, or unchanged if it has no backend."""
    backend = process.current_backend(raise_exception=False)
    return program if backend is None else backend.noted(program)


def _record_first_step(path: str, args: list[str], batch: StepBatch) -> Graph:
    """Run the script until its first step is recorded, and return the graph of the step.

    A script without an optimizer may end before, or read a value after its step: the operations recorded so far are
    then the step. Raises TraceError if there are none or if a value is read inside the step, and SystemExit if the
    script exits with an error.
    """
    with PlainStepRecorder(batch) as plain:
        try:
            script.run_as_main(path, args)
        except StepRecorded as e:
            return e.graph
        except SystemExit as e:
            if e.code not in (None, 0):
                raise
        except TraceError:
            # A script without optimizers may read results of a model, or its loss after a manual update. The step is
            # complete then.
            if not plain.is_over:
                raise
        graph = plain.finish()
        if graph is None:
            raise TraceError(NO_STEP_MESSAGE, where=path, hint="Plan a script that calls its model on a batch.")
        return graph


@contextlib.contextmanager
def _temporary_run(path: str, half: DType, batch: StepBatch, api: str | None) -> Iterator[None]:
    """Reset the run of the process for a recording and restore it afterwards.

    Also restores `sys.argv`, `sys.path`, environment variables and log handlers, and forgets the script's modules.
    """
    before = {**vars(process.RUN), "slots": dict(process.RUN.slots)}
    was_shimmed = shim.is_installed()
    argv, folders, modules, environment = sys.argv, list(sys.path), set(sys.modules), dict(os.environ)
    # Keep log files of the caller unchanged.
    handlers, logging.root.handlers = logging.root.handlers, []
    process.RUN.reset()
    shim.install(api)
    options = process.RUN.options
    # As in `check`, record the step for the wafer, whatever backend the script requests.
    options.backend, options.steps, options.half = "CSX", 1, half
    options.session = lambda backend: AbstractSession(batch)
    try:
        with abstract_step.mode():
            yield
    finally:
        process.RUN.reset()
        vars(process.RUN).update(before)
        sys.argv, sys.path[:], logging.root.handlers = argv, folders, handlers
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)
        # Forget the script's modules, because their models belong to this recording.
        folder = os.path.dirname(os.path.abspath(path))
        for name in set(sys.modules) - modules:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(folder + os.sep):
                del sys.modules[name]
        if not was_shimmed:
            shim.uninstall()
