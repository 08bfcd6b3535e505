"""`cstorch.profiler`: the kernels of the wafer in some steps of a run, as a trace for chrome://tracing and Perfetto.

The cycles come from the simulated machine's report. In pipelined mode every layer has a lane and works in every step.
In weight-streaming mode the layers run one after another. Waiting times are not shown.
"""

import gzip
import json
import pathlib
import re
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

from cstorch_compat.profiling.spans import slice_times
from cstorch_compat.run.process import RunLocal

HOST_ACTIVITY = re.compile(r"[A-Z]+\d+")
"""The form of a name in `host_activities`."""


def schedule(*, start_step: int, end_step: int) -> Callable[[], list[int]]:
    """Return a function that returns the steps to profile, [start_step, end_step], both inclusive.

    Raises ValueError if `start_step` > `end_step`.
    """
    if start_step > end_step:
        raise ValueError(
            "The value of start step should be less than or equal to end_step"
            "\n  Pass a start_step that is at most end_step."
        )
    return lambda: [start_step, end_step]


class ProfilerRegistry:
    """The active profile of the run."""

    _profiler = RunLocal["profile | None"](lambda: None)

    @classmethod
    def set_profiler(cls, profiler: "profile") -> None:
        """Make `profiler` the active profile."""
        cls._profiler.value = profiler

    @classmethod
    def unset_profiler(cls) -> None:
        """Make no profile active."""
        cls._profiler.value = None

    @classmethod
    def get_profiler(cls) -> "profile | None":
        """Return the active profile, or None."""
        return cls._profiler.value


class profile:
    """A context manager that profiles the loops in its block. Only CSX runs can be profiled.

    `schedule` is the result of the function `schedule`. `host_activities` are names of hosts, such as ACTHOST0; they
    are checked and have no effect. `on_trace_ready` is called with the profile at the end of the block, if a loop has
    run.
    """

    def __init__(
        self,
        *,
        schedule: Callable[[], list[int]],
        host_activities: list[str] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
    ):
        self.schedule, self.host_activities, self.on_trace_ready = schedule, host_activities, on_trace_ready
        self.report: Any = None

    def __enter__(self) -> "profile":
        ProfilerRegistry.set_profiler(self)
        return self

    def __exit__(self, *_: object) -> None:
        # Unset it before the handler, which may run a loop.
        ProfilerRegistry.unset_profiler()
        if self.on_trace_ready is not None and self.report is not None:
            self.on_trace_ready(self)

    def configure_profiler(self, is_csx: bool, num_steps: int) -> None:
        """Check that a loop of `num_steps` steps can be profiled.

        Raises RuntimeError if the backend is no CSX. Raises ValueError unless 1 <= start <= end < `num_steps`, and for
        invalid host names.
        """
        if not is_csx:
            raise RuntimeError('Only CSX backend can be profiled\n  Create the backend with cstorch.backend("CSX").')
        start, end = self.schedule()
        # As in the original's message, the last step cannot be profiled.
        if not 1 <= start <= end < num_steps:
            raise ValueError(
                f"profiling step range should be between 1(inclusive) and {num_steps}(exclusive), instead it is "
                f"{start}:{end}"
                "\n  Pass a range of steps within these limits."
            )
        if not all(HOST_ACTIVITY.fullmatch(name) for name in self.host_activities or ()):
            raise ValueError(
                "Incorrect host. Please input the hostname first followed by the server number. For ex - ACTHOST0, "
                "WGTHOST0, CSX0, CSX1, etc"
                "\n  Write the host name before its number."
            )

    def take(self, report: Any) -> None:
        """Store the report of a loop that has ended."""
        self.report = report

    def get_summary(self) -> list[dict[str, Any]] | None:
        """Return the layers with their cycles per step and share, largest first, or None if nothing was profiled."""
        if self.report is None:
            return None
        # Avoid a division by zero if the program has no cycles.
        total = sum(row.cycles for row in self.report.rows) or 1
        rows = sorted(self.report.rows, key=lambda row: -row.cycles)
        return [
            {"name": row.label, "kernels": row.kernels, "cycles": row.cycles, "share": row.cycles / total}
            for row in rows
        ]

    def export_chrome_trace(self, path: Any) -> None:
        """Write the trace as JSON, compressed if `path` ends in ".gz". Does nothing if nothing was profiled."""
        if self.report is None:
            return
        trace = {
            "traceEvents": list(_trace_events(self.report, *self.schedule())),
            "displayTimeUnit": "ns",
            "otherData": {"machine": self.report.machine, "mode": self.report.mode, "clock_hz": self.report.clock_hz},
        }
        opened = gzip.open if str(path).endswith(".gz") else open
        with opened(path, "wt") as file:
            json.dump(trace, file)


def _trace_events(report: Any, start_step: int, end_step: int) -> Iterator[dict[str, Any]]:
    """Yield the layers of the steps from `start_step` to `end_step` as complete events of Chrome's trace format.

    Times are in microseconds. In pipelined mode each layer has a lane; otherwise all layers share one and run one after
    another. Layers without cycles are left out.
    """
    is_pipelined = report.mode == "pipelined"
    microseconds = 1e6 / report.clock_hz
    rows = [row for row in report.rows if row.cycles]
    # Number from 1, because Perfetto reserves process and lane 0 for the idle processor.
    yield {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": f"{report.machine}, simulated"}}
    for lane, name in enumerate([row.label for row in rows] if is_pipelined else ["wafer"], 1):
        yield {"ph": "M", "name": "thread_name", "pid": 1, "tid": lane, "args": {"name": name}}
    for step in range(start_step, end_step + 1):
        # Steps begin `step_cycles` apart: in pipelined mode the cycles of the slowest layer, otherwise those of all
        # layers.
        begin = (step - start_step) * report.step_cycles
        for lane, row in enumerate(rows, 1):
            yield {
                "ph": "X",
                "name": row.label,
                "cat": "layer",
                "pid": 1,
                "tid": lane if is_pipelined else 1,
                **slice_times(begin * microseconds, row.cycles * microseconds),
                "args": {
                    "step": step,
                    "kernels": row.kernels,
                    "where": row.where,
                    "cycles": row.cycles,
                    "flops": row.flops,
                    "rect": row.rect,
                },
            }
            begin += 0 if is_pipelined else row.cycles


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """Return a function for `on_trace_ready` that writes the trace into the folder `dir_name` for TensorBoard's plugin.

    The folder is created. The file name begins with `worker_name` (default: the host name) and contains the time.
    `use_gzip` compresses the file.
    """
    worker = worker_name or socket.gethostname()

    def handle(profiler: profile) -> None:
        folder = pathlib.Path(dir_name)
        # The plugin reads all files with this suffix. The time distinguishes several loops.
        folder.mkdir(parents=True, exist_ok=True)
        ending = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"
        profiler.export_chrome_trace(folder / f"{worker}.{time.time_ns()}{ending}")

    return handle
