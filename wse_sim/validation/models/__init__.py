"""For each family of rows the phase program of its kernel, and how its cycles become the row's unit.

A model is a function (row, cycles) -> value, where `cycles(phase, machine)` reads a phase program: by the closed forms,
or on the simulated fabric. So both columns of the table come from the same program.
"""

from collections.abc import Callable, Mapping

from wse_sim.validation.models import job_start, kernels, language, parts
from wse_sim.validation.reading import CycleReading
from wse_sim.validation.rows import MeasuredRow

Model = Callable[[MeasuredRow, CycleReading], float]

MODELS: Mapping[str, Model] = {**parts.MODELS, **kernels.MODELS, **language.MODELS, **job_start.MODELS}
"""The beginning of a row's id -> its model. The longest beginning counts, here and among the rows not covered."""
