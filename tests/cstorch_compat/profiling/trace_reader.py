"""A strict reader of traces in Chrome's format: it refuses what a viewer would show wrongly or leave out.

Perfetto's own reader is a program that is downloaded when it is first used, which a test may not do: `processor_rows`
asks one that is installed. The rules are those of the published format: phases and their fields, slices of a lane that
nest to the nanosecond, in which viewers count, arrows between slices.
"""

import csv
import gzip
import json
import math
import os
import pathlib
import shutil
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

FIELDS = {
    "M": {"name", "pid", "tid", "args"},
    "X": {"name", "pid", "tid", "ts", "dur", "args"},
    "C": {"name", "pid", "tid", "ts", "args"},
    "s": {"name", "cat", "id", "pid", "tid", "ts"},
    "f": {"name", "cat", "id", "pid", "tid", "ts", "bp"},
}


def nanoseconds(at_us: float) -> int:
    """A moment as viewers have it. Raises AssertionError if they would have to round it."""
    assert abs(at_us * 1000 - round(at_us * 1000)) < 1e-2, at_us
    return round(at_us * 1000)


@dataclass
class Trace:
    """A trace by (process, lane): its slices as (name, start, end, details), in microseconds."""

    slices: dict[tuple[str, str], list[tuple[str, float, float, dict]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    counters: dict[tuple[str, str], list[dict[str, float]]] = field(default_factory=lambda: defaultdict(list))
    arrows: list[tuple[str, tuple[str, str], tuple[str, str]]] = field(default_factory=list)

    def names(self, process: str, lane: str) -> list[str]:
        """The names on a lane, in the order of their starts."""
        return [name for name, *_ in self.slices[process, lane]]


def read(path: pathlib.Path) -> Trace:
    """The trace of a file. Raises AssertionError with the first rule that it breaks."""
    data = path.read_bytes()
    document = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    assert document["displayTimeUnit"] in ("ms", "ns")
    events: list[dict[str, Any]] = document["traceEvents"]
    for event in events:
        _check(event)
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert len(set(processes.values())) == len(processes), "two processes have one name"
    trace = Trace()
    for event in events:
        process, lane = processes[event["pid"]], lanes.get((event["pid"], event["tid"]), "")
        if event["ph"] == "X":
            assert lane, f"{event} is on a lane without a name"
            row = event["name"], event["ts"], event["ts"] + event["dur"], event["args"]
            trace.slices[process, lane].append(row)
        elif event["ph"] == "C":
            trace.counters[process, event["name"]].append(event["args"])
    for lane, slices in trace.slices.items():
        slices.sort(key=lambda s: (s[1], -s[2]))
        _check_nesting(lane, slices)
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    starts = [e for e in events if e["ph"] == "s"]
    assert len(ends) == len(starts) == len({e["id"] for e in starts}), "arrows with one end, or with one number"
    for start in starts:
        end = ends[start["id"]]
        assert (start["name"], start["cat"]) == (end["name"], end["cat"]) and start["ts"] <= end["ts"]
        source, target = ((processes[e["pid"]], lanes[e["pid"], e["tid"]]) for e in (start, end))
        for place, event in ((source, start), (target, end)):
            at = nanoseconds(event["ts"])
            assert any(nanoseconds(a) <= at <= nanoseconds(b) for _, a, b, _ in trace.slices[place]), (
                f"{event} is in no slice of {place}"
            )
        trace.arrows.append((start["name"], source, target))
    return trace


def _check(event: dict[str, Any]) -> None:
    phase = event["ph"]
    assert set(event) - {"cat"} == (FIELDS[phase] | {"ph"}) - {"cat"}, event
    assert isinstance(event["name"], str) and event["name"], event
    assert isinstance(event["pid"], int) and isinstance(event["tid"], int), event
    for name in ("ts", "dur"):
        value = event.get(name, 0.0)
        assert isinstance(value, int | float) and math.isfinite(value) and value >= 0, event
    if phase == "C":
        assert event["args"] and all(isinstance(v, int | float) for v in event["args"].values()), event


def _check_nesting(lane: tuple[str, str], slices: list[tuple[str, float, float, dict]]) -> None:
    open_ends: list[int] = []
    for name, start, end, _ in slices:
        while open_ends and open_ends[-1] <= nanoseconds(start):
            open_ends.pop()
        assert not open_ends or nanoseconds(end) <= open_ends[-1], f"{name} on {lane} overlaps the slice before it"
        open_ends.append(nanoseconds(end))


def processor() -> str | None:
    """Perfetto's trace processor on this machine, or the one that TRACE_PROCESSOR names."""
    return os.environ.get("TRACE_PROCESSOR") or shutil.which("trace_processor_shell")


def processor_rows(trace: pathlib.Path, *queries: str) -> list[list[list[str]]]:
    """What Perfetto's trace processor answers to each query, in rows of texts without their head."""
    program = processor()
    assert program is not None
    file = trace.with_suffix(".sql")
    file.write_text(";\n".join(queries) + ";\n")
    done = subprocess.run([program, "--query-file", str(file), str(trace)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [list(csv.reader(table.splitlines()))[1:] for table in done.stdout.strip().split("\n\n")]
