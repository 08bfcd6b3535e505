"""For each family of rows, the phase program of its kernel and the conversion of its cycles to the row's unit.

A model is a function (row, cycles) -> value. `cycles(phase, machine)` is a reading: closed forms or the simulated
fabric. Both columns of the table therefore come from the same program.
"""

from collections.abc import Callable, Mapping

from wse_sim.validation.models import job_start, kernels, language, parts
from wse_sim.validation.reading import CycleReading
from wse_sim.validation.rows import MeasuredRow

Model = Callable[[MeasuredRow, CycleReading], float]

MODELS: Mapping[str, Model] = {**parts.MODELS, **kernels.MODELS, **language.MODELS, **job_start.MODELS}
"""Prefix of row ids -> the model. The longest matching prefix counts, including those of rows not covered."""
