"""Models of what passes before the first step of a job: programming, and the weights sent once."""

from wse_sim.host import APPLIANCE
from wse_sim.validation.reading import CycleReading
from wse_sim.validation.rows import MeasuredRow

_WEIGHT_BYTES = 2


def programming_seconds(row: MeasuredRow, cycles: CycleReading) -> float:
    """Programming a system, whatever the model is."""
    return APPLIANCE.programming_s


def sending_seconds(row: MeasuredRow, cycles: CycleReading) -> float:
    """The first weights, in 16 bits."""
    weights = round(row.params["params"] * _WEIGHT_BYTES)
    return APPLIANCE.start_seconds(weights) - APPLIANCE.start_seconds(0)


MODELS = {"prog_": programming_seconds, "send_w_": sending_seconds}
