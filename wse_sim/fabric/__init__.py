"""A cycle-by-cycle simulator of the wafer: core programs, routes of colours, and an engine that moves every wavelet."""

from wse_sim.fabric.lowering import ALGORITHMS, mesh_of, simulate_phase
from wse_sim.fabric.mesh import EAST, NORTH, RAMP, SOUTH, WEST, Mesh, check
from wse_sim.fabric.run import RunResult, simulate
from wse_sim.fabric.tracing import Moment, space_time, trace
from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import CoreProgram, Memory, Received, Sent

__all__ = [
    "ALGORITHMS",
    "EAST",
    "NORTH",
    "RAMP",
    "SOUTH",
    "WEST",
    "Builder",
    "Memory",
    "Mesh",
    "Moment",
    "CoreProgram",
    "Received",
    "RunResult",
    "Sent",
    "check",
    "mesh_of",
    "simulate",
    "simulate_phase",
    "space_time",
    "trace",
]
