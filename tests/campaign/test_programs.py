"""Drawn PyTorch programs hold laws that need no other package: equal bits in each run and in each thread.

`python -m tests.campaign programs N SEED --real PYTHON` compares many more with PyTorch.
"""

import pytest

from tests.campaign.programs.campaign import Campaign
from tests.campaign.programs.comparing import difference
from tests.campaign.programs.drawing import drawn

SEED = 38
COUNT = 120


@pytest.mark.process
def test_drawn_programs_give_equal_bits_in_each_run_and_in_each_thread():
    with Campaign(None) as campaign:
        assert [f"{f.number}, {f.pair}: {f.difference}" for f in campaign.findings(SEED, range(COUNT))] == []


def test_every_drawn_program_is_python():
    for number in range(COUNT):
        for statement in drawn(SEED, number).statements:
            compile(statement, "statement", "exec")


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        ([["a", [1.0]]], [["a", [1.0000001]]], "value"),
        ([["a", [float("nan")]]], [["a", [1.0]]], "value"),
        ([["a", [1]]], [["a", [True]]], "class"),
        (
            [["a", [["tensor", "torch.float32", [], True, [1.0], None]]]],
            [["a", [["tensor", "torch.float32", [], False, [1.0], None]]]],
            "requires_grad",
        ),
        ([["error", 1, ["ValueError"], ""]], [["error", 1, ["TypeError"], ""]], "error class"),
        ([["error", 1, ["ValueError"], ""]], [["a", [1]]], "refused by the first"),
        ([["a", [1]]], [["a", [1]], ["b", [1]]], "rows"),
    ],
)
def test_differences_of_two_runs_are_found(left, right, kind):
    found = difference(left, right)
    assert found is not None
    assert found.kind == kind
    assert difference(left, left) is None
