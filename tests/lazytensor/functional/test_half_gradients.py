"""Results and gradients of half tensors have the bits of PyTorch 2.13, computed alone and compiled."""

import json
import pathlib

import pytest

import lazytensor as lt
import lazytensor.nn
from lazytensor.autograd.function import grad
from tests.golden.half_calls import CALLS

ROWS = json.loads((pathlib.Path(__file__).parents[2] / "golden" / "half_gradients.json").read_text())
TYPES = {"bfloat16": lt.bfloat16, "float16": lt.float16}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("repetitions", [1, 4])
def test_half_result_and_gradient_have_pytorchs_bits(row, repetitions):
    name, _, label = row.rpartition(" ")
    expected = ROWS[row]
    for _ in range(repetitions):  # repeated calls are compiled
        x = lt.tensor(expected["x"], dtype=TYPES[label], requires_grad=True)
        y = CALLS[name](lt, x)
        (gradient,) = grad(y, x, lt.tensor(expected["g"], dtype=TYPES[label]))
        assert (y.tolist(), gradient.tolist()) == (expected["y"], expected["gradient"])
