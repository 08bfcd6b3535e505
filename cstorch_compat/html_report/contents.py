"""What the page shows, as plain data: the steps of a script with their plans, and the lines of the script they name."""

import linecache
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cstorch_compat.html_report.module_tree import StepTexts, build_module_tree
from lazytensor.ir.program import Program
from wse_sim import Machine, Plan
from wse_sim.layout import ceil_div
from wse_sim.planner.bounds import LIMIT_ADVICE, LIMIT_NAMES, RateBound
from wse_sim.planner.dataflow import Dataflow, find_flows, wire
from wse_sim.planner.floorplan import Placement
from wse_sim.planner.layers import SWEEPS, Layer, fold
from wse_sim.planner.modes.mode_plan import ModePlan
from wse_sim.planner.report import LayerRow
from wse_sim.planner.routing import Routes
from wse_sim.planner.stages import computed_again, stages_of
from wse_sim.planner.timeline import Timeline

CONTEXT_LINES = 4
"""Lines of a script shown above and below one that is named."""
MAX_LINK_SQUARES = 80
"""Squares along the longer side of the picture of the links."""


@dataclass(frozen=True)
class PageStep:
    """A step of a script: its program, what it takes on `machine`, and its texts."""

    program: Program
    plan: Plan
    machine: Machine
    texts: StepTexts


def build_contents(
    script: str, steps: Sequence[PageStep], versions: Mapping[str, str], rows: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """All that the page shows, ready for JSON; `rows` are those of `lazywafer plan`."""
    shown, graphs = [], _GraphTable()
    for step in steps:
        # Folded again as the plan did it: rows of a report are these layers, in this order.
        wiring = wire(step.program)
        layers = fold(wiring)
        number = {i: n for n, layer in enumerate(layers) for i in layer.every_kernel}
        own = _step_data(step, layers)
        if placement := step.plan.pipelined.placement:
            own["modes"]["pipelined"]["stages"] = _stage_memory(wiring, layers, placement)
        shown.append({**own, "flows": _layer_flows(wiring, number), "graph": graphs.add(step, number)})
    return {
        "script": script,
        "versions": dict(versions),
        "steps": shown,
        "graphs": graphs.trees,
        "rows": list(rows),
        "sources": _source_excerpts(_source_locations(shown, graphs.trees, rows)),
    }


class _GraphTable:
    """The graphs of the steps; plans of one recording for several batches have one, that of the first."""

    def __init__(self) -> None:
        self.trees: list[dict[str, Any]] = []
        self._known: list[StepTexts] = []

    def add(self, step: PageStep, number: Mapping[int, int]) -> int:
        """The number of the step's graph."""
        for n, texts in enumerate(self._known):
            if texts is step.texts:
                return n
        self.trees.append(build_module_tree(step.program, number, step.texts))
        self._known.append(step.texts)
        return len(self.trees) - 1


def _step_data(step: PageStep, layers: Sequence[Layer]) -> dict[str, Any]:
    report = step.plan.report
    modes = {name: _mode_data(getattr(step.plan, name), layers) for name in ("pipelined", "streaming")}
    return {
        "machine": _machine_data(step.machine),
        "systems": report.systems,
        "batch": report.batch_size,
        "mode": report.mode,
        "band": report.error_band,
        "modes": modes,
    }


def _machine_data(machine: Machine) -> dict[str, Any]:
    return {
        "name": machine.name,
        "width": machine.usable_width,
        "height": machine.usable_height,
        "clock_hz": machine.clock_hz,
        "sram_bytes": machine.sram_bytes_per_pe,
        "usable_bytes": machine.usable_bytes_per_pe,
        "edge_bytes_per_cycle": machine.edge_bits_per_cycle / 8,
        # Two operations for each multiply-add, as the report counts them.
        "flops_per_cycle": {str(size): 2 * machine.per_cycle("fma", size) for size in (2, 4)},
        # A copy reads and writes: two bytes for each one that is moved.
        "move_bytes_per_cycle": 2 * 2 * machine.per_cycle("move", 2),
    }


def _mode_data(outcome: ModePlan, layers: Sequence[Layer]) -> dict[str, Any]:
    report = outcome.report
    head = {key: value for key, value in asdict(report).items() if key not in ("rows", "bounds")}
    return {
        **head,
        "bounds": [_bound_data(b) for b in sorted(report.bounds, key=lambda b: b.samples_per_s)],
        "rows": [_row_data(row) for row in report.rows],
        "timeline": _timeline_data(outcome.timeline, [layer.name for layer in layers]) if outcome.timeline else None,
        "held": list(outcome.held_bytes),
        "links": _link_loads(outcome.routes) if outcome.routes and outcome.routes.link_bytes else None,
    }


def _link_loads(routes: Routes) -> dict[str, Any]:
    """Squares of the mesh from its corner on: the fullest link in each, in percent of the fullest of all."""
    loads = routes.core_bytes
    # A picture has some hundred pixels, and a wafer 850,000 cores.
    size = ceil_div(max(loads.shape), MAX_LINK_SQUARES)
    padded = np.pad(loads, [(0, -extent % size) for extent in loads.shape])
    rows, columns = (extent // size for extent in padded.shape)
    squares = padded.reshape(rows, size, columns, size).max(axis=(1, 3))
    shares = np.ceil(100 * squares / routes.link_bytes).astype(int)
    return {"size": size, "bytes": routes.link_bytes, "shares": shares.tolist()}


def _bound_data(bound: RateBound) -> dict[str, Any]:
    return {**asdict(bound), "name": LIMIT_NAMES[bound.kind], "advice": LIMIT_ADVICE[bound.kind]}


def _row_data(row: LayerRow) -> dict[str, Any]:
    return asdict(row)


def _timeline_data(timeline: Timeline, names: Sequence[str]) -> dict[str, Any]:
    """Lanes, and spans as [lane, layer or -1, sweep, start, end, whether it is critical]."""
    # Lists instead of records, and numbers instead of names: a large model has thousands of spans.
    lanes = list(timeline.lanes)
    # Two layers may have one name; a span does not say which of them it is.
    first = {name: n for n, name in reversed(list(enumerate(names)))}
    critical = {id(span) for span in timeline.critical_path()}
    spans = []
    for span in timeline.spans:
        # A lane of a pipeline is a stage, and its spans are sweeps; on the mesh a span says both.
        sweep = next((s for s in SWEEPS if s in span.label.split()), "")
        layer = first.get(span.label.removesuffix(sweep).rstrip(), first.get(span.lane, -1))
        lane, kind = lanes.index(span.lane), SWEEPS.index(sweep) if sweep else -1
        is_critical = int(id(span) in critical)
        spans.append([lane, layer, kind, span.start_cycles, span.end_cycles, is_critical])
    return {"lanes": lanes, "spans": spans, "end": timeline.end_cycles}


def _stage_memory(wiring: Dataflow, layers: tuple[Layer, ...], placement: Placement) -> list[dict[str, Any]]:
    """Of each stage its first layer, and what a PE of it holds: state, samples in flight, the one that is worked on."""
    stages: list[dict[str, Any]] = []
    before = 0
    for stage, rect in zip(stages_of(wiring, layers, computed_again(wiring, layers)), placement.rects, strict=True):
        parts = {"state": stage.state_bytes, "waiting": stage.waiting_bytes, "working": stage.working_bytes}
        stages.append({"layer": before, **{name: size / rect.area for name, size in parts.items()}})
        # Stages are runs of layers, in the same order.
        before += len(stage.layers)
    return stages


def _layer_flows(wiring: Dataflow, number: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """Bytes of a step from layer to layer, -1 for the wafer's edge: [source, target, bytes], the largest first."""
    between: dict[tuple[int, int], int] = {}
    for flow in find_flows(wiring):
        ends = number.get(flow.source, -1), number.get(flow.target, -1)
        # What stays in a layer crosses nothing.
        if ends[0] != ends[1]:
            between[ends] = between.get(ends, 0) + flow.bytes
    return sorted(((a, b, size) for (a, b), size in between.items()), key=lambda flow: -flow[2])


def _source_locations(
    steps: Iterable[Mapping[str, Any]], graphs: Iterable[Mapping[str, Any]], rows: Iterable[Mapping[str, Any]]
) -> Iterable[str]:
    """Every place of a script that the page names, as file:line."""
    modes = [mode for step in steps for mode in step["modes"].values()]
    # Rows may be of machines that the page does not show whole.
    for owner in (*modes, *rows):
        yield from (bound["where"] for bound in owner["bounds"])
    yield from (row["where"] for mode in modes for row in mode["rows"])
    for graph in graphs:
        yield from graph["places"]


def _source_excerpts(places: Iterable[str]) -> dict[str, dict[int, str]]:
    """By file, the lines around each place that is named, by number; what cannot be read is left out."""
    sources: dict[str, dict[int, str]] = {}
    for place in sorted({p for p in places if p}):
        # A file may have colons in its name, or be none at all: code that was typed or made.
        file, _, line = place.rpartition(":")
        if not line.isdigit() or not os.path.isfile(file):
            continue
        # Read anew where it has changed: in a notebook the process outlives many versions of a script.
        linecache.checkcache(file)
        lines = linecache.getlines(file)
        own = sources.setdefault(file, {})
        for n in range(max(1, int(line) - CONTEXT_LINES), min(len(lines), int(line) + CONTEXT_LINES) + 1):
            own[n] = lines[n - 1].rstrip("\n")
    return sources
