"""Models of the start of a job: programming the systems and sending the initial weights."""

from wse_sim.host import APPLIANCE
from wse_sim.validation.row_model import RowCase, RowModel, positive_number

_WEIGHT_BYTES = 2


def programming_seconds(case: RowCase) -> float:
    """Return the seconds for programming a system, a constant of the host. `case` is unused."""
    return APPLIANCE.programming_s


def sending_seconds(case: RowCase) -> float:
    """Return the seconds for sending the initial weights in 16 bits."""
    return APPLIANCE.first_weights_seconds(round(case["weights"] * _WEIGHT_BYTES))


MODELS = {
    "programming": RowModel("programming of a system at the start of a job", {}, {"s": programming_seconds}),
    "initial_weights": RowModel(
        "sending the initial weights of a model in 16 bits",
        {"weights": positive_number("number of weights")},
        {"s": sending_seconds},
    ),
}
