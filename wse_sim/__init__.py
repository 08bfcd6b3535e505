"""A simulator of Cerebras' wafer-scale engine.

It plans a compiled program on a mesh of processing elements (PEs) and reports how long a step takes and which resource
limits it. Kernels also run on simulated cores, cycle by cycle. Closed-form cycle counts are tested against those runs
and against published measurements. The only input is `lazytensor.ir.program.Program`: the simulator does not depend on
tensors, gradients or layers.
"""

from lazytensor.system.moved_modules import deprecate_paths as _deprecate_paths
from wse_sim.backends.mesh_backend import MeshBackend, MeshExecutable
from wse_sim.backends.pipeline_backend import PipelineBackend, PipelineExecutable
from wse_sim.backends.wafer_backend import WaferBackend, WaferExecutable
from wse_sim.cost_model.cost import Cost, cost
from wse_sim.host import APPLIANCE, Host
from wse_sim.isa.core_program import Memory
from wse_sim.kernels.kernel import Allocator, MeshKernel, as_data, as_wavelets
from wse_sim.kernels.kernel_check import KernelCheck, check_kernel
from wse_sim.layout import Layout, Rect
from wse_sim.machine import MACHINES, TINY, WSE1, WSE2, WSE3, Machine
from wse_sim.phase import (
    AllReduce,
    Broadcast,
    Compute,
    Local,
    Par,
    Reduce,
    Repeat,
    Rounds,
    Seq,
    Shift,
    Stream,
)
from wse_sim.planner.dataflow import PRECISION_LEVELS
from wse_sim.planner.floorplan import Placement
from wse_sim.planner.kernel_selection import RECIPES, phase_program
from wse_sim.planner.modes import MODES, Plan, plan, simulate
from wse_sim.planner.prices import Prices
from wse_sim.planner.report import LayerRow, ModeReport, Report
from wse_sim.planner.resource_shares import RESOURCES, ResourceShare, resource_shares
from wse_sim.planner.timeline import Timeline
from wse_sim.serving.decoder import Decoder
from wse_sim.serving.report import ServingPlan
from wse_sim.serving.serve import serve
from wse_sim.sweeps.sweep import sweep
from wse_sim.sweeps.sweep_record import SweepRecord, to_frame
from wse_sim.viz import floor_plan, gantt

__all__ = [
    "APPLIANCE",
    "MACHINES",
    "MODES",
    "PRECISION_LEVELS",
    "RECIPES",
    "RESOURCES",
    "TINY",
    "WSE1",
    "WSE2",
    "WSE3",
    "Cost",
    "Decoder",
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
    "ServingPlan",
    "ResourceShare",
    "SweepRecord",
    "Timeline",
    "WaferBackend",
    "WaferExecutable",
    "cost",
    "floor_plan",
    "gantt",
    "phase_program",
    "plan",
    "serve",
    "resource_shares",
    "simulate",
    "sweep",
    "to_frame",
    "AllReduce",
    "Allocator",
    "Broadcast",
    "Compute",
    "KernelCheck",
    "Local",
    "Memory",
    "MeshKernel",
    "Par",
    "Reduce",
    "Repeat",
    "Rounds",
    "Seq",
    "Shift",
    "Stream",
    "as_data",
    "as_wavelets",
    "check_kernel",
]

_deprecate_paths(
    {
        "wse_sim.numbers.data": "wse_sim.reference.phase_reference",
        "wse_sim.pipeline.chain": "wse_sim.pipeline.layer_chain",
        "wse_sim.pipeline.price": "wse_sim.pipeline.cost",
        "wse_sim.pipeline.sites": "wse_sim.pipeline.layer_placement",
        "wse_sim.plan.layers": "wse_sim.planner.layers",
        "wse_sim.plan.stages": "wse_sim.planner.stages",
        "wse_sim.plan.wiring": "wse_sim.planner.dataflow",
        "wse_sim.price.cost": "wse_sim.cost_model.cost",
    },
    removed_packages=("wse_sim.numbers", "wse_sim.plan", "wse_sim.price"),
)


def __dir__() -> list[str]:
    """Return the public names and the dunder names; modules that are not public can be imported but are not listed."""
    return [*__all__, *(n for n in globals() if n.startswith("__"))]
