"""Call the closures of a traced step, which was not run, with the values of its first batch."""

import contextlib
import functools
from collections.abc import Iterator, Sequence

import numpy as np

from cstorch_compat.check.checked_step import CheckCapture, FindingRecorder
from cstorch_compat.check.script_errors import add_api_error
from cstorch_compat.check.write_guard import WriteStopped
from cstorch_compat.files.tree import flatten, map_tensors
from cstorch_compat.run.closures import ClosureCall
from cstorch_compat.run.user_traceback import find_user_line
from cstorch_compat.run.wafer_session import (
    ViewIdentity,
    cast_for_client,
    fetch_to_client,
    is_on_client,
    view_identity,
)
from lazytensor.ir.graph import leaf


class StepResults:
    """The values of a step for its closures, computed from the state before it.

    values: the value of each tensor that closures take
    is_exact: whether all values are those of the step; values that take long to compute are zeros
    """

    def __init__(self, capture: CheckCapture, calls: Sequence[ClosureCall]):
        """Compute what `calls` take from the device in the step `capture`, which must be active."""
        self.capture, self.is_exact = capture, True
        taken = (t for call in calls for _, t in flatten((call.args, call.kwargs)))
        self.fetches = [t for t in taken if not is_on_client(t)]
        self.values: dict[ViewIdentity, np.ndarray] = {}
        for t in self.fetches:
            value, is_exact = capture.result_of(cast_for_client(t.node))
            self.values[view_identity(t)] = value
            self.is_exact = self.is_exact and is_exact

    def hand_out(self) -> None:
        """Give the values to the storages that the step has created. The step must be over.

        As in a run, the script can then read them after the loop.
        """
        for t in self.fetches:
            if t.cell.epoch is self.capture and not t.view_ops:
                t.cell.node, t.cell.epoch = leaf(self.values[view_identity(t)].copy(), t.cell.type), None

    def call(self, calls: Sequence[ClosureCall], recorder: FindingRecorder, is_exact: bool) -> None:
        """Make the calls of closures. Errors of the Cerebras API become findings.

        Other errors may follow from the values, and are suppressed unless `is_exact`. A closure ends before it changes
        a file from before the check, or starts a process.
        """
        for call in calls:
            with _report_errors(recorder, is_suppressed=not is_exact):
                fetch = functools.partial(fetch_to_client, self.values)
                call.function(*map_tensors(call.args, fetch), **map_tensors(call.kwargs, fetch))


@contextlib.contextmanager
def _report_errors(recorder: FindingRecorder, is_suppressed: bool) -> Iterator[None]:
    """Add findings for errors of the Cerebras API in the block, and suppress other errors if `is_suppressed`.

    WriteStopped is always suppressed.
    """
    try:
        yield
    except WriteStopped:
        pass
    except Exception as e:
        if not add_api_error(recorder.findings, e, find_user_line(e)) and not is_suppressed:
            raise
