"""Write the record of a run as a trace in Chrome's format for Perfetto and chrome://tracing: the host, and the wafer.

The lanes of the wafer show simulated time. A step begins when the host passes it to the wafer, or when the previous one
has ended there, and takes the cycles of its plan. The time in which the host computes the step is on the host's lanes.
"""

import gzip
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cstorch_compat.names import installation
from cstorch_compat.profiling.spans import (
    CLOSURE_LANE,
    STEP_LANE,
    HostSpan,
    RunRecord,
    WaferStep,
    round_to_nanoseconds,
    slice_times,
)
from lazytensor.system.output_files import json_text, write_file_atomically
from wse_sim import Plan

HOST_PROCESS, WAFER_PROCESS = 1, 2
"""The numbers of the two processes in the trace."""
MAX_DETAILED_STEPS = 3
"""Number of steps of each program that are shown with all lanes. Later steps are one slice."""
FIRST_WAFER_FLOW_ID = 1 << 20
"""The first id of arrows to the wafer. Arrows from input workers have ids from 0."""
_VIEWER_NOTE = "Lanes of the wafer are simulated; a step begins when the host has it ready and the wafer is free."

TraceEvent = dict[str, Any]


def write_trace(path: pathlib.Path, record: RunRecord, planned: Sequence[Plan] = ()) -> None:
    """Write the trace of a run as JSON, compressed if the suffix of `path` is ".gz".

    `planned` are plans of steps that did not run. They are shown one after another on the wafer's lanes.
    """
    document = {
        "traceEvents": [*_host_events(record), *_wafer_events(record, planned)],
        "displayTimeUnit": "ns",
        "otherData": {**installation.find_versions(), "note": _VIEWER_NOTE},
    }
    text = json_text(document, allow_nan=False).encode()
    write_file_atomically(path, gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def _name_events(process: int, name: str, lanes: Mapping[str, int]) -> Iterator[TraceEvent]:
    """Yield the events that name a process and its lanes and define their order.

    `lanes` maps the name of a lane to its number, by which viewers sort.
    """
    yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}
    for lane, thread in lanes.items():
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": lane}}
        # Viewers sort lanes by number only with this event.
        yield {"ph": "M", "name": "thread_sort_index", "pid": process, "tid": thread, "args": {"sort_index": thread}}


def _slice_event(process: int, thread: int, name: str, start_us: float, long_us: float, **details: Any) -> TraceEvent:
    """Return the event of a slice."""
    return {
        "ph": "X",
        "name": name,
        "pid": process,
        "tid": thread,
        **slice_times(start_us, long_us),
        "args": details,
    }


def _flow_events(
    number: int, name: str, source: tuple[int, int, float], target: tuple[int, int, float]
) -> Iterator[TraceEvent]:
    """Yield the events of an arrow from `source` to `target`, each (process, lane, microseconds) inside a slice."""
    for ph, (process, thread, at), more in (("s", source, {}), ("f", target, {"bp": "e"})):
        place = {"pid": process, "tid": thread, "ts": round_to_nanoseconds(at)}
        yield {"ph": ph, "id": number, "name": name, "cat": "flow", **place, **more}


def _host_events(record: RunRecord) -> Iterator[TraceEvent]:
    """Yield the events of the host: spans, arrows from input workers to steps, and the number of samples."""
    others = sorted({s.lane for s in record.spans} - {STEP_LANE, CLOSURE_LANE})
    lanes = {lane: n + 1 for n, lane in enumerate((STEP_LANE, CLOSURE_LANE, *others))}
    yield from _name_events(HOST_PROCESS, "host", lanes)
    steps = [s for s in record.spans if s.lane == STEP_LANE]
    # Outer slices first: if two begin at the same time, a viewer takes the first for the outer one.
    for span in sorted(record.spans, key=lambda s: (s.start_s, -s.end_s)):
        start, end = _to_microseconds(record, span.start_s), _to_microseconds(record, span.end_s)
        yield _slice_event(HOST_PROCESS, lanes[span.lane], span.name, start, end - start, **span.details)
    for number, (share, step) in enumerate(_match_shares_to_steps(record.spans, steps)):
        source = HOST_PROCESS, lanes[share.lane], _to_microseconds(record, share.start_s)
        yield from _flow_events(
            number, "input", source, (HOST_PROCESS, lanes[STEP_LANE], _to_microseconds(record, step.start_s))
        )
    for at, samples in record.samples:
        yield _counter_event(HOST_PROCESS, "samples", _to_microseconds(record, at), **{"so far": samples})


def _match_shares_to_steps(spans: Sequence[HostSpan], steps: Sequence[HostSpan]) -> Iterator[tuple[HostSpan, HostSpan]]:
    """Yield each span of an input worker with the step that uses its data.

    This is the first step with the number in the span's detail "feeds" that begins after the span. Spans without such a
    step are left out.
    """
    # Each loop numbers its steps from the beginning, so the data belongs to the next step of that number.
    of_number: dict[int, list[HostSpan]] = {}
    for step in steps:
        if step.name == f"step {step.details.get('step')}":
            of_number.setdefault(step.details["step"], []).append(step)
    for share in spans:
        waiting = of_number.get(share.details.get("feeds", -1), [])
        fed = next((s for s in waiting if s.start_s >= share.start_s), None)
        if fed is not None:
            yield share, fed


def _wafer_events(record: RunRecord, planned: Sequence[Plan]) -> Iterator[TraceEvent]:
    """Yield the events of the wafer.

    These are steps, arrows from the host, bytes at the edge, and the lanes of the first MAX_DETAILED_STEPS steps of
    each program.
    """
    steps = [(s, s.executable.plan) for s in record.wafer if getattr(s.executable, "plan", None) is not None]
    steps += [(WaferStep(n + 1, record.start_s, p), p) for n, p in enumerate(planned)]
    if not steps:
        return
    # Lanes in the order of the first step that uses them.
    names = dict.fromkeys(lane for _, plan in steps for lane in _plan_lanes(plan))
    lanes = {lane: n + 1 for n, lane in enumerate(("step", *names))}
    yield from _name_events(WAFER_PROCESS, f"{steps[0][1].report.machine}, simulated", lanes)
    free, shown = 0.0, dict[int, int]()
    for number, (step, plan) in enumerate(steps):
        start = max(free, _to_microseconds(record, step.start_s))
        report = plan.report
        long = report.step_cycles / report.clock_hz * 1e6
        free = start + long
        about = {"step": step.number, "cycles": report.step_cycles, "mode": report.mode, "verdict": report.verdict}
        yield _slice_event(WAFER_PROCESS, lanes["step"], f"step {step.number}", start, long, **about)
        yield _counter_event(WAFER_PROCESS, "edge, bytes of a step", start, **_edge_bytes(plan))
        if not planned:
            handed = HOST_PROCESS, 1, _to_microseconds(record, step.start_s)
            yield from _flow_events(
                FIRST_WAFER_FLOW_ID + number, "hand over", handed, (WAFER_PROCESS, lanes["step"], start)
            )
        shown[id(plan)] = shown.get(id(plan), 0) + 1
        if shown[id(plan)] <= MAX_DETAILED_STEPS:
            yield from _lane_events(plan, lanes, start)


def _plan_lanes(plan: Plan) -> Sequence[str]:
    """Return the lanes of the timeline of the plan's chosen mode, or () if it has no timeline."""
    timeline = plan.chosen.timeline
    return tuple(timeline.lanes) if timeline is not None else ()


def _lane_events(plan: Plan, lanes: Mapping[str, int], start_us: float) -> Iterator[TraceEvent]:
    """Yield the spans of a plan's timeline for a step that begins at `start_us`, without their waiting."""
    timeline, microseconds = plan.chosen.timeline, 1e6 / plan.report.clock_hz
    for span in timeline.spans if timeline is not None else ():
        cycles = span.end_cycles - span.busy_start_cycles
        if cycles:
            begin = start_us + span.busy_start_cycles * microseconds
            yield _slice_event(WAFER_PROCESS, lanes[span.lane], span.label, begin, cycles * microseconds, cycles=cycles)


def _edge_bytes(plan: Plan) -> dict[str, int]:
    """Return the bytes per step into and out of the wafer."""
    return {"in": plan.report.chosen.edge_bytes_in, "out": plan.report.chosen.edge_bytes_out}


def _counter_event(process: int, name: str, at_us: float, **values: float) -> TraceEvent:
    """Return the event of a counter."""
    return {"ph": "C", "name": name, "pid": process, "tid": 0, "ts": round_to_nanoseconds(at_us), "args": values}


def _to_microseconds(record: RunRecord, at_s: float) -> float:
    """Return a time in microseconds since the start of the record."""
    return (at_s - record.start_s) * 1e6
