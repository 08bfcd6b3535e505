"""Models of the start of a job: programming the systems and sending the initial weights."""

from wse_sim.host import APPLIANCE
from wse_sim.validation.row_model import RowCase, RowModel, positive_number

_WEIGHT_BYTES = 2


def programming_seconds(case: RowCase) -> float:
    """Return the seconds for programming a system, a constant of the host. `case` is unused."""
    return APPLIANCE.programming_s


def sending_seconds(case: RowCase) -> float:
    """Return the seconds for sending the initial weights in 16 bits, without the fixed time of a start."""
    weights = round(case["weights"] * _WEIGHT_BYTES)
    return APPLIANCE.start_seconds(weights) - APPLIANCE.start_seconds(0)


MODELS = {
    "programming": RowModel("programming of a system at the start of a job", {}, {"s": programming_seconds}),
    "initial_weights": RowModel(
        "sending the initial weights of a model in 16 bits",
        {"weights": positive_number("number of weights")},
        {"s": sending_seconds},
    ),
}
