"""Bad calls of operations: our own errors at the user's line, of PyTorch's types, and none of NumPy's."""

import builtins
import collections
import contextlib
import gc
import json
import pathlib
import weakref

import numpy as np
import pytest

import lazytensor as lt
from cstorch_compat.names.mirror_modules import get_mirror
from lazytensor.errors import ArgumentInvalid, LazyError
from tests.campaign import calls
from tests.campaign.bad_calls import campaign, judged

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "bad_calls.json"
CASES = range(600)
RECORDED = json.loads(GOLDEN.read_text())
AGREEMENT = 0.985
"""The share of calls refused by both whose error is of PyTorch's type; the others have two faults, mostly."""
ALONE = 0.005
"""The share of calls that run here and not in PyTorch, or there and not here: what no rule tells apart."""

torch = get_mirror("torch")


@pytest.mark.slow
def test_no_bad_call_raises_an_error_of_others():
    counts, bad = campaign(torch, 2, CASES)
    assert not bad and sum(counts.values()) == len(CASES)


@pytest.mark.slow
@pytest.mark.parametrize("seed", RECORDED["seeds"])
def test_what_pytorch_refuses_is_refused_by_its_types_and_nothing_else(seed):
    """Recorded from PyTorch 2.13.0."""
    counts = collections.Counter()
    for case, letter in enumerate(RECORDED["seeds"][seed]):
        name, error = RECORDED["types"][letter], calls.asked(torch, calls.drawn(int(seed), case))
        both = bool(name) and error is not None
        counts["both"] += both
        counts["same"] += both and isinstance(error, getattr(builtins, name))
        counts["alone"] += bool(name) != (error is not None)
    assert counts["both"] > 1500 and counts["same"] / counts["both"] > AGREEMENT
    assert counts["alone"] / len(RECORDED["seeds"][seed]) < ALONE


NUMBERS_OF_NUMPY = {
    "pow": lambda x, n: torch.pow(x, n(2)),
    "where": lambda x, n: torch.where(x > 0, x, n(2)),
    "topk": lambda x, n: torch.topk(x, n(2)).values,
    "max_pool2d": lambda x, n: torch.nn.functional.max_pool2d(x[None], n(2)),
    "method": lambda x, n: x.clamp(n(2)),
}


@pytest.mark.parametrize("name", NUMBERS_OF_NUMPY)
def test_numbers_of_numpy_count_as_those_of_python(name):
    x = lt.ones(4, 4)
    expected, seen = (NUMBERS_OF_NUMPY[name](x, n) for n in (int, np.int64))
    assert (seen.dtype, seen.tolist()) == (expected.dtype, expected.tolist())


AS_PYTORCH = {
    "two numbers": (lambda: torch.add(2, 3), 5),
    "true division of numbers": (lambda: torch.div(1, 2), 0.5),
    "alpha before what is added": (lambda: lt.ones(2).add_(0.5, lt.ones(2)), [1.5, 1.5]),
    "value before factors": (lambda: lt.ones(2).addcmul_(0.5, lt.ones(2), lt.ones(2)), [1.5, 1.5]),
    "value before quotients": (lambda: torch.addcdiv(lt.ones(2), 0.5, lt.ones(2), lt.ones(2)), [1.5, 1.5]),
    "one bias": (lambda: torch.nn.functional.linear(lt.ones(1, 2), lt.ones(2, 2), lt.tensor(1.0)), [[3.0, 3.0]]),
    "a type behind the dimension": (lambda: torch.softmax(lt.ones(2), 0, torch.float64), [0.5, 0.5]),
    "an empty index": (lambda: torch.scatter(lt.ones(2), 0, lt.ones(0, 5), lt.ones(3)), [1.0, 1.0]),
    "a number of dimensions in a tensor": (lambda: torch.tensordot(lt.ones(2), lt.ones(2), lt.tensor(1.0)), 2.0),
    "far outside": (lambda: torch.triu(lt.ones(1, 2), -(1 << 63)), [[1.0, 1.0]]),
    "a norm over several dimensions": (
        lambda: torch.nn.functional.normalize(lt.ones(2, 2), 2, (0, 1)),
        [[0.5] * 2] * 2,
    ),
}


@pytest.mark.parametrize("name", AS_PYTORCH)
def test_what_pytorch_runs_is_run(name):
    """Recorded from PyTorch 2.13.0."""
    call, expected = AS_PYTORCH[name]
    assert call().tolist() == expected


F = torch.nn.functional
REFUSED = {
    "a number for a tensor": (lambda: torch.maximum(lt.ones(2), 0), TypeError),
    "a number that is asked for a method": (lambda: F.smooth_l1_loss(lt.ones(2), 1), AttributeError),
    "integers without a kernel": (lambda: F.gelu(lt.ones(2).long()), NotImplementedError),
    "truth values without a kernel": (lambda: lt.ones(2).bool().abs(), NotImplementedError),
    "labels that are no probabilities": (
        lambda: F.binary_cross_entropy_with_logits(lt.ones(2), lt.ones(2).long()),
        RuntimeError,
    ),
    "a mask of numbers": (lambda: lt.ones(2).masked_fill(lt.ones(2), 1.0), RuntimeError),
    "a number of 71 bits": (lambda: lt.ones(2) + (1 << 70), OverflowError),
    "a dimension that a number has not": (lambda: lt.tensor(1.0).sum(5), IndexError),
    "lists of unlike lengths": (lambda: torch.tensor([[1], [2, 3]]), ValueError),
    "a number beside lists": (lambda: torch.tensor([[1], 2]), TypeError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_pytorch_refuses_is_refused_at_the_line_of_the_call(name):
    """Recorded from PyTorch 2.13.0."""
    call, kind = REFUSED[name]
    with pytest.raises(kind) as e:
        call()
    assert "test_bad_calls.py:" in str(e.value) or name.startswith("a dimension")


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


def _faulty(*_):
    raise AttributeError("of the user")


def _backward_with_hook():
    x = lt.ones(3).requires_grad_()
    x.register_hook(_faulty)
    x.sum().backward()


class _Custom(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    backward = staticmethod(_faulty)


CALLING_BACK = {
    "hook": lambda: _backward_with_hook(),
    "custom gradient": lambda: _Custom.apply(lt.ones(3).requires_grad_()).sum().backward(),
    "vmap": lambda: torch.vmap(_faulty)(lt.ones(3)),
    "apply_": lambda: lt.ones(3).apply_(_faulty),
    "map_": lambda: lt.ones(3).map_(lt.ones(3), _faulty),
    "distance": lambda: F.triplet_margin_with_distance_loss(*lt.ones(3, 2, 2), distance_function=_faulty),
}


@pytest.mark.parametrize("name", CALLING_BACK)
def test_exception_of_a_function_of_the_users_passes(name):
    with pytest.raises(AttributeError, match="of the user") as e:
        CALLING_BACK[name]()
    assert not isinstance(e.value, LazyError)


WRONG_COUNTS = {
    "missing": lambda: torch.topk(lt.ones(3)),
    "too many": lambda: lt.ones(3).abs(1, 2),
    "unknown name": lambda: torch.abs(lt.ones(3), word=1),
    "twice": lambda: torch.flatten(lt.ones(3), 0, start_dim=1),
}


@pytest.mark.parametrize("name", WRONG_COUNTS)
def test_arguments_missing_too_many_or_unknown_are_a_type_error_of_ours_at_the_users_line(name):
    with pytest.raises(ArgumentInvalid, match=r"test_bad_calls.py:\d+: (topk|abs|flatten)\(\)"):
        WRONG_COUNTS[name]()


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.where(lt.ones(2) > 0, {}, 1),
        lambda: lt.ones(2).view({}),
        lambda: torch.stack({"a": 1}),
        lambda: lt.ones(2).expand("word"),
        lambda: torch.nn.functional.pad(lt.ones(2), {"a": 1}),
        lambda: lt.ones(2) + (1 << 70),
        lambda: lt.ones(2).norm(p="word"),
    ],
)
def test_no_exception_of_python_or_numpy_reaches_the_user(call):
    with pytest.raises(LazyError, match=r"test_bad_calls\.py:"):
        call()


def test_errors_of_others_are_seen():
    try:
        {}["word"]
    except KeyError as e:
        assert "not ours" in judged(e)
    assert "NumPy" in judged(ValueError("operands could not be broadcast together"))


@pytest.mark.parametrize("call", [lambda x: x.view(3), lambda x: x.topk("word"), lambda x: x.abs(1, 2)])
def test_a_refused_call_keeps_no_operand_alive(call):
    x = lt.ones(2)
    alive = weakref.ref(x)
    gc.disable()
    try:
        with contextlib.suppress(LazyError):
            call(x)
        del x
        assert alive() is None
    finally:
        gc.enable()
