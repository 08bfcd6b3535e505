"""Lower phase programs to routes and core programs, and run them as wavelets."""

from wse_sim.fabric.lowering.reductions import ALGORITHMS
from wse_sim.fabric.lowering.simulate import mesh_of, simulate_phase

__all__ = ["ALGORITHMS", "mesh_of", "simulate_phase"]
