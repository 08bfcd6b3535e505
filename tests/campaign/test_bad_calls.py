"""Bad calls of operations: our own errors at the user's line, of PyTorch's types, and none of NumPy's."""

import builtins
import json
import pathlib

import pytest

import lazytensor as lt
from cstorch_compat.names.mirror import mirror
from lazytensor.errors import ArgumentInvalid
from tests.campaign import calls
from tests.campaign.bad_calls import campaign, judged

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "bad_calls.json"
CASES = range(600)
AGREEMENT = 0.98
"""The share of calls refused by both whose error is of PyTorch's type; the others are told by an error of ours too."""

torch = mirror("torch")


@pytest.mark.slow
def test_no_bad_call_raises_an_error_of_others():
    counts, bad = campaign(torch, 2, CASES)
    assert not bad and sum(counts.values()) == len(CASES)


@pytest.mark.slow
def test_errors_have_the_types_that_pytorch_raises():
    """Recorded from PyTorch 2.13.0."""
    refused = same = 0
    for case, name in enumerate(json.loads(GOLDEN.read_text())):
        error = calls.asked(torch, calls.drawn(1, case))
        if name and error is not None:
            refused += 1
            same += isinstance(error, getattr(builtins, name))
    assert refused > 300 and same / refused > AGREEMENT


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: lt.sum([1, 2], 0), r"sum\(\): argument 'input' \(position 1\) must be Tensor, not list"),
        (lambda: lt.flatten(lt.ones(3), 0, lt.ones(2)), r"argument 'end_dim' \(position 3\) must be int, not Tensor"),
        (lambda: lt.topk(lt.ones(3), "word"), r"argument 'k' \(position 2\) must be int, not str"),
    ],
)
def test_argument_that_does_not_fit_is_named(call, words):
    with pytest.raises(ArgumentInvalid, match=words) as e:
        call()
    assert "test_bad_calls.py:" in str(e.value)


def test_error_of_a_function_of_the_users_stands():
    def faulty(x):
        raise AttributeError("of the user")

    with pytest.raises(AttributeError, match="of the user"):
        torch.vmap(faulty)(lt.ones(3))


def test_errors_of_others_are_seen():
    try:
        {}["word"]
    except KeyError as e:
        assert "not ours" in judged(e)
    assert "NumPy" in judged(ValueError("operands could not be broadcast together"))
