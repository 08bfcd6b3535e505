"""Models of the start of a job: programming the systems and sending the initial weights."""

from wse_sim.host import APPLIANCE
from wse_sim.validation.reading import CycleReading
from wse_sim.validation.rows import MeasuredRow

_WEIGHT_BYTES = 2


def programming_seconds(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the seconds for programming a system, a constant of the host. Both arguments are unused."""
    return APPLIANCE.programming_s


def sending_seconds(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the seconds for sending the initial weights in 16 bits, without the fixed time of a start.

    `cycles` is unused.
    """
    weights = round(row.params["params"] * _WEIGHT_BYTES)
    return APPLIANCE.start_seconds(weights) - APPLIANCE.start_seconds(0)


MODELS = {"prog_": programming_seconds, "send_w_": sending_seconds}
