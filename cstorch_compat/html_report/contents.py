"""The data of the HTML report: the steps of a script with their plans, and excerpts of the script's source."""

import linecache
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cstorch_compat.html_report.module_tree import StepTexts, build_module_tree
from lazytensor.ir.program import Program
from wse_sim import Machine, Plan, ServingPlan
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
"""Number of source lines shown above and below a line that the report refers to."""
MAX_LINK_SQUARES = 80
"""Maximum number of squares along the longer side of the map of link loads."""


@dataclass(frozen=True)
class PageStep:
    """A step of a script: its program, its plan on `machine`, and its MLIR texts."""

    program: Program
    plan: Plan
    machine: Machine
    texts: StepTexts


def build_contents(
    script: str,
    steps: Sequence[PageStep],
    versions: Mapping[str, str],
    rows: Sequence[Mapping[str, Any]] = (),
    has_workers: bool = False,
    check: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the data of the report as a dict for JSON.

    `versions` are the versions of the installed software. `rows` are those of `lazywafer plan`.
    Their table has a column of input workers if `has_workers`. `check` has "verdict", "is_complete" and "findings" of
    `lazywafer check`; without it the report has no findings.
    """
    shown, graphs = [], _GraphTable()
    for step in steps:
        # Fold the layers as the plan did: the rows of a report are these layers, in the same order.
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
        "has_workers": has_workers,
        "check": dict(check) if check else None,
        "sources": _source_excerpts(_source_locations(shown, graphs.trees, rows)),
        "serving": [],
    }


def build_serving_contents(name: str, plans: Sequence[ServingPlan], versions: Mapping[str, str]) -> dict[str, Any]:
    """Return the data of a report on serving the model `name`: its plans, and no steps of a script.

    `versions` are the versions of the installed software.
    """
    return {**build_contents(name, (), versions), "serving": [_serving_data(plan) for plan in plans]}


def _serving_data(plan: ServingPlan) -> dict[str, Any]:
    """Return the figures of a plan of serving as texts, its gains as numbers, and its fields."""
    return {
        "title": plan.title,
        "verdict": plan.verdict,
        "figures": plan.figures().cells(),
        "gains": [asdict(gain) for gain in plan.shown_gains],
        "notes": plan.notes().splitlines(),
        "plan": plan.as_dict(),
    }


class _GraphTable:
    """The module trees of the steps. Plans of one recording for several batches share the tree of the first."""

    def __init__(self) -> None:
        self.trees: list[dict[str, Any]] = []
        self._known: list[StepTexts] = []

    def add(self, step: PageStep, number: Mapping[int, int]) -> int:
        """Add the module tree of a step, and return its index. Steps with the same `texts` object share one tree.

        `number` maps instructions to layers.
        """
        for n, texts in enumerate(self._known):
            if texts is step.texts:
                return n
        self.trees.append(build_module_tree(step.program, number, step.texts))
        self._known.append(step.texts)
        return len(self.trees) - 1


def _step_data(step: PageStep, layers: Sequence[Layer]) -> dict[str, Any]:
    """Return the data of a step without its graph and flows."""
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
    """Return size, clock, memory and peak rates of a machine, as a dict for JSON."""
    return {
        "name": machine.name,
        "width": machine.usable_width,
        "height": machine.usable_height,
        "clock_hz": machine.clock_hz,
        "sram_bytes": machine.sram_bytes_per_pe,
        "usable_bytes": machine.usable_bytes_per_pe,
        "edge_bytes_per_cycle": machine.edge_bits_per_cycle / 8,
        # A multiply-add counts as two operations, as in the report.
        "flops_per_cycle": {str(size): 2 * machine.per_cycle("product", size) for size in (2, 4)},
        # A copy reads and writes each byte.
        "move_bytes_per_cycle": 2 * 2 * machine.per_cycle("move", 2),
    }


def _mode_data(outcome: ModePlan, layers: Sequence[Layer]) -> dict[str, Any]:
    """Return the report of a plan in one mode as a dict for JSON, with bounds, rows, timeline and link loads.

    Bounds are sorted by rate, lowest first.
    """
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
    """Return the loads of the links as a map of squares of the mesh.

    "size" is the side of a square in cores, "bytes" the load of the busiest link. "shares" has rows of squares: the
    maximum of the links in a square, in percent of "bytes", rounded up.
    """
    loads = routes.core_bytes
    # A wafer has 850,000 cores, and a picture a few hundred pixels per side.
    size = ceil_div(max(loads.shape), MAX_LINK_SQUARES)
    padded = np.pad(loads, [(0, -extent % size) for extent in loads.shape])
    rows, columns = (extent // size for extent in padded.shape)
    squares = padded.reshape(rows, size, columns, size).max(axis=(1, 3))
    shares = np.ceil(100 * squares / routes.link_bytes).astype(int)
    return {"size": size, "bytes": routes.link_bytes, "shares": shares.tolist()}


def _bound_data(bound: RateBound) -> dict[str, Any]:
    """Return the data of a bound on the rate, with its name and advice."""
    return {**asdict(bound), "name": LIMIT_NAMES[bound.kind], "advice": LIMIT_ADVICE[bound.kind]}


def _row_data(row: LayerRow) -> dict[str, Any]:
    return asdict(row)


def _timeline_data(timeline: Timeline, names: Sequence[str]) -> dict[str, Any]:
    """Return the lanes of a timeline, its end, and its spans as [lane, layer, sweep, start, end, is critical, waiting].

    Lane, layer and sweep are indices; layer and sweep are -1 if unknown. Times are in cycles.
    """
    # Lists and indices are compact: a large model has thousands of spans.
    lanes = list(timeline.lanes)
    # Layers may have equal names, and a span has only the name. Use the first one.
    first = {name: n for n, name in reversed(list(enumerate(names)))}
    critical = {id(span) for span in timeline.critical_path()}
    spans = []
    for span in timeline.spans:
        # In pipelined mode a lane is a stage and a span is a sweep. In streaming mode the span's label has both.
        sweep = next((s for s in SWEEPS if s in span.label.split()), "")
        layer = first.get(span.label.removesuffix(sweep).rstrip(), first.get(span.lane, -1))
        lane, kind = lanes.index(span.lane), SWEEPS.index(sweep) if sweep else -1
        is_critical = int(id(span) in critical)
        spans.append([lane, layer, kind, span.start_cycles, span.end_cycles, is_critical, span.wait_cycles])
    return {"lanes": lanes, "spans": spans, "end": timeline.end_cycles}


def _stage_memory(wiring: Dataflow, layers: tuple[Layer, ...], placement: Placement) -> list[dict[str, Any]]:
    """Return for each stage a dict with the index of its first layer and the bytes per PE.

    The keys of the bytes are "state", "waiting" (samples in flight) and "working" (the current sample).
    """
    stages: list[dict[str, Any]] = []
    before = 0
    for stage, rect in zip(stages_of(wiring, layers, computed_again(wiring, layers)), placement.rects, strict=True):
        parts = {"state": stage.state_bytes, "waiting": stage.waiting_bytes, "working": stage.working_bytes}
        stages.append({"layer": before, **{name: size / rect.area for name, size in parts.items()}})
        # A stage has consecutive layers, in the same order.
        before += len(stage.layers)
    return stages


def _layer_flows(wiring: Dataflow, number: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """Return the bytes per step from layer to layer as (source, target, bytes), largest first.

    -1 is the wafer's edge. Flows inside a layer are left out.
    """
    between: dict[tuple[int, int], int] = {}
    for flow in find_flows(wiring):
        ends = number.get(flow.source, -1), number.get(flow.target, -1)
        # Flows inside a layer are not shown.
        if ends[0] != ends[1]:
            between[ends] = between.get(ends, 0) + flow.bytes
    return sorted(((a, b, size) for (a, b), size in between.items()), key=lambda flow: -flow[2])


def _source_locations(
    steps: Iterable[Mapping[str, Any]], graphs: Iterable[Mapping[str, Any]], rows: Iterable[Mapping[str, Any]]
) -> Iterable[str]:
    """Yield each source location in the report as "file:line". Locations may be repeated or empty."""
    modes = [mode for step in steps for mode in step["modes"].values()]
    # Rows may belong to machines without a complete plan on the page.
    for owner in (*modes, *rows):
        yield from (bound["where"] for bound in owner["bounds"])
    yield from (row["where"] for mode in modes for row in mode["rows"])
    for graph in graphs:
        yield from graph["places"]


def _source_excerpts(places: Iterable[str]) -> dict[str, dict[int, str]]:
    """Return excerpts of source files: for each file a dict from line numbers to lines.

    An excerpt has CONTEXT_LINES lines before and after each of `places` ("file:line"). Files that cannot be read are
    left out.
    """
    sources: dict[str, dict[int, str]] = {}
    for place in sorted({p for p in places if p}):
        # A file name may contain colons, and interactive or generated code has no file.
        file, _, line = place.rpartition(":")
        if not line.isdigit() or not os.path.isfile(file):
            continue
        # Read changed files again: in a notebook the process outlives many versions of a script.
        linecache.checkcache(file)
        lines = linecache.getlines(file)
        own = sources.setdefault(file, {})
        for n in range(max(1, int(line) - CONTEXT_LINES), min(len(lines), int(line) + CONTEXT_LINES) + 1):
            own[n] = lines[n - 1].rstrip("\n")
    return sources
