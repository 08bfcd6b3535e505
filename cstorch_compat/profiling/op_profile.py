"""What the wafer does in some steps of a run, kernel by kernel, as a trace that chrome://tracing and Perfetto show.

The cycles are those of the simulated machine's report. In pipelined mode every kernel has a lane of its own, and all of
them work in every step; in streaming mode they come one after the other. What a kernel waits for is not shown.
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


def schedule(*, start_step: int, end_step: int) -> Callable[[], list[int]]:
    """The steps to profile, both included. Raises ValueError if the first one is after the last."""
    if start_step > end_step:
        raise ValueError("The value of start step should be less than or equal to end_step")
    return lambda: [start_step, end_step]


class ProfilerRegistry:
    """The profile whose block is running."""

    _profiler = RunLocal["profile | None"](lambda: None)

    @classmethod
    def set_profiler(cls, profiler: "profile") -> None:
        """Make a profile the running one."""
        cls._profiler.value = profiler

    @classmethod
    def unset_profiler(cls) -> None:
        """No profile is running."""
        cls._profiler.value = None

    @classmethod
    def get_profiler(cls) -> "profile | None":
        """The running profile, if there is one."""
        return cls._profiler.value


class profile:
    """Profiles the executions in its block, on the CSX backend alone; `on_trace_ready` is given it at the end.

    `schedule` is what the function of that name gives. `host_activities` are the names of hosts, such as ACTHOST0; only
    the wafer is simulated in enough detail to be shown.
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
        # Before the handler, which may run a loop of its own.
        ProfilerRegistry.unset_profiler()
        if self.on_trace_ready is not None and self.report is not None:
            self.on_trace_ready(self)

    def configure_profiler(self, is_csx: bool, num_steps: int) -> None:
        """Check that an execution can be profiled. Raises RuntimeError off CSX, ValueError for steps it has not."""
        if not is_csx:
            raise RuntimeError("Only CSX backend can be profiled")
        start, end = self.schedule()
        # The bounds are those of the original's message: the last step cannot be profiled.
        if not 1 <= start <= end < num_steps:
            raise ValueError(
                f"profiling step range should be between 1(inclusive) and {num_steps}(exclusive), instead it is "
                f"{start}:{end}"
            )
        if not all(HOST_ACTIVITY.fullmatch(name) for name in self.host_activities or ()):
            raise ValueError(
                "Incorrect host. Please input the hostname first followed by the server number. For ex - ACTHOST0, "
                "WGTHOST0, CSX0, CSX1, etc"
            )

    def take(self, report: Any) -> None:
        """Take the report of an execution that is over."""
        self.report = report

    def get_summary(self) -> list[dict[str, Any]] | None:
        """The layers by cycles in a step, the largest first; None if nothing was profiled."""
        if self.report is None:
            return None
        # A program of no cycles has no shares to divide.
        total = sum(row.cycles for row in self.report.rows) or 1
        rows = sorted(self.report.rows, key=lambda row: -row.cycles)
        return [
            {"name": row.label, "kernels": row.kernels, "cycles": row.cycles, "share": row.cycles / total}
            for row in rows
        ]

    def export_chrome_trace(self, path: Any) -> None:
        """Write the trace as JSON, compressed if the name ends in .gz; nothing if nothing was profiled."""
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
    """The layers of each step as complete events; times in microseconds."""
    is_pipelined = report.mode == "pipelined"
    microseconds = 1e6 / report.clock_hz
    rows = [row for row in report.rows if row.cycles]
    # From 1 on: process and lane 0 are the idle processor's in Perfetto.
    yield {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": f"{report.machine}, simulated"}}
    for lane, name in enumerate([row.label for row in rows] if is_pipelined else ["wafer"], 1):
        yield {"ph": "M", "name": "thread_name", "pid": 1, "tid": lane, "args": {"name": name}}
    for step in range(start_step, end_step + 1):
        # The distance of two steps: in pipelined mode the cycles of the slowest kernel, else those of all.
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
    """What `on_trace_ready` can be: it writes the trace into a folder, named as TensorBoard's plug-in looks for it."""
    worker = worker_name or socket.gethostname()

    def handle(profiler: profile) -> None:
        folder = pathlib.Path(dir_name)
        # The plug-in reads everything that ends like this; the number keeps several executions apart.
        folder.mkdir(parents=True, exist_ok=True)
        ending = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"
        profiler.export_chrome_trace(folder / f"{worker}.{time.time_ns()}{ending}")

    return handle
