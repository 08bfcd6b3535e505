"""Hypothesis strategies for tests of kernels and meshes.

`phase_programs.programs(side)` draws phase programs on which the closed forms are tested. `flow_meshes.meshes(even)`
draws valid meshes with flows of wavelets, on which laws of the fabric are tested. Needs the extra `testing`.
"""

from wse_sim.testing.flow_meshes import Flow, FlowMesh, meshes
from wse_sim.testing.phase_programs import programs

__all__ = ["Flow", "FlowMesh", "meshes", "programs"]
