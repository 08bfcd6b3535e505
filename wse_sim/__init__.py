"""A wafer simulator: it places a finished program on a mesh of PEs and says how long a step takes, and why no less.

Kernels run on simulated cores as well, cycle by cycle, and closed forms are held to those runs and to published
measurements. It sees programs only as `lazytensor.ir.program.Program`; nothing of tensors, gradients or layers.
"""

from wse_sim.backends.mesh_backend import MeshBackend, MeshExecutable
from wse_sim.backends.pipeline_backend import PipelineBackend, PipelineExecutable
from wse_sim.backends.wafer_backend import WaferBackend, WaferExecutable
from wse_sim.cost_model.cost import Cost, cost
from wse_sim.host import APPLIANCE, Host
from wse_sim.layout import Layout, Rect
from wse_sim.machine import MACHINES, TINY, WSE1, WSE2, WSE3, Machine
from wse_sim.planner.dataflow import PRECISION_LEVELS
from wse_sim.planner.floorplan import Placement
from wse_sim.planner.kernel_selection import RECIPES, phase_program
from wse_sim.planner.modes import MODES, Plan, plan, simulate
from wse_sim.planner.prices import Prices
from wse_sim.planner.report import LayerRow, ModeReport, Report
from wse_sim.planner.timeline import Timeline
from wse_sim.sweeps.sweep import sweep
from wse_sim.sweeps.sweep_record import SweepRecord, to_frame
from wse_sim.viz import floor_plan, gantt

__all__ = [
    "APPLIANCE",
    "MACHINES",
    "MODES",
    "PRECISION_LEVELS",
    "RECIPES",
    "TINY",
    "WSE1",
    "WSE2",
    "WSE3",
    "Cost",
    "Host",
    "LayerRow",
    "Layout",
    "Machine",
    "MeshBackend",
    "MeshExecutable",
    "ModeReport",
    "PipelineBackend",
    "PipelineExecutable",
    "Placement",
    "Plan",
    "Prices",
    "Rect",
    "Report",
    "SweepRecord",
    "Timeline",
    "WaferBackend",
    "WaferExecutable",
    "cost",
    "floor_plan",
    "gantt",
    "phase_program",
    "plan",
    "simulate",
    "sweep",
    "to_frame",
]
