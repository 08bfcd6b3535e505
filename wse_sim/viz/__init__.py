"""Drawings of plans, timelines and meshes as text. `viz.pictures` draws them with matplotlib (extra `viz`)."""

from wse_sim.fabric.tracing import space_time
from wse_sim.viz.meshes import Link, Stall, activity, busiest_links, heat_map, stalls
from wse_sim.viz.plans import floor_plan, gantt
from wse_sim.viz.size_tables import SizePoint, compare_sizes

__all__ = [
    "Link",
    "SizePoint",
    "Stall",
    "activity",
    "busiest_links",
    "compare_sizes",
    "floor_plan",
    "gantt",
    "heat_map",
    "space_time",
    "stalls",
]
