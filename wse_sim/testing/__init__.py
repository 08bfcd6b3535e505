"""Hypothesis strategies for tests of kernels and meshes: phase programs, and meshes with flows of wavelets.

`phase_programs.programs(side)` draws what closed forms are held to, `flow_meshes.meshes(even)` legal meshes for laws of
the fabric. Needs the extra `testing`.
"""

from wse_sim.testing.flow_meshes import Flow, FlowMesh, meshes
from wse_sim.testing.phase_programs import programs

__all__ = ["Flow", "FlowMesh", "meshes", "programs"]
