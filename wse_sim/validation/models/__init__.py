"""For each kernel of the rows, its phase program and the conversion of its cycles to the units of rows.

A model gets the parameters of a row, a machine, and a reading (phase, machine) -> cycles: closed forms or the simulated
fabric. So both columns of the table come from the same program, and a model can read neither the id of a row nor its
figure.
"""

from collections.abc import Mapping

from wse_sim.validation.models import job_start, language, parts, products, serving, solvers, stencils
from wse_sim.validation.row_model import RowModel

MODELS: Mapping[str, RowModel] = {
    **parts.MODELS,
    **products.MODELS,
    **stencils.MODELS,
    **solvers.MODELS,
    **language.MODELS,
    **serving.MODELS,
    **job_start.MODELS,
}
"""Kernel of a row -> the model that predicts it."""
