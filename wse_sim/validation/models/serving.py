"""The model of a service on wafers that hold the weights and caches of a decoder-only model."""

from wse_sim.serving.decoder import PRESETS
from wse_sim.serving.serve import WEIGHT_BITS, decoding_rate
from wse_sim.validation.row_model import RowCase, RowModel, one_of, whole_number


def user_rate(case: RowCase) -> float:
    """Return the tokens per second of one user of the fastest plan."""
    return decoding_rate(case["model"], case.machine, case["wafers"], case["weight_bits"])


MODELS = {
    "inference_service": RowModel(
        "decoding for one user of a service, with weights and caches in the memory of the wafers",
        {
            "model": one_of("model", *PRESETS),
            "weight_bits": one_of("bits of a weight", *WEIGHT_BITS, default=WEIGHT_BITS[0]),
            "wafers": whole_number("wafers; without it the fewest that hold the model", default=None),
        },
        {"tokens/s/user": user_rate},
        is_simulated=False,
    ),
}
