"""Functions and methods take PyTorch's argument names, which `argument_names.txt` has for each of their forms."""

import contextlib
import operator
import pathlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cstorch_compat.names.mirror_modules import get_mirror

torch = get_mirror("torch")
TABLE = pathlib.Path(__file__).parents[2] / "golden" / "argument_names.txt"
ABSENT = {
    "out_dtype": "products have the type of their operands",
    "cudnn_enabled": "there is no GPU",
    "layout": "Tensor.to and normal keep the strided layout",
    "pin_memory": "Tensor.to and normal have no memory to pin",
    "reverse": "an older form of sort that PyTorch's own documentation does not have",
    "align_to_window": "not in PyTorch's documentation",
    "implicit": "not in PyTorch's documentation",
    "_disable_byteorder_record": "not in PyTorch's documentation",
    "out": "normalize writes no result to a given tensor",
    "generator": "random activations draw from the default generator",
}
"""Arguments that are refused, with the reason."""
OTHER_FORMS = {
    "torch.detach",  # the method itself, whose operand is `self`
    "torch.feature_dropout",  # `training`, as in torch.nn.functional
    "torch.from_dlpack",  # `device` and `copy`
    "torch.normal",  # `input`, a form of compiled graphs
    "torch.histogram",  # a positional `bins`
    "torch.Tensor.histogram",
    "torch.hspmm",  # `mat1`, as sparse products by their older names
    "torch.native_batch_norm",  # arguments that may be None, and have to be given
    "torch.native_group_norm",
    "torch.native_layer_norm",
    "torch.batch_norm",
    "torch.instance_norm",
    "torch.randint_like",  # `high` alone
    "torch.repeat_interleave",  # `repeats` alone
    "torch.result_type",  # `scalar` and `tensor`
    "torch.Tensor.set_",  # an offset into a storage
    "torch.nn.functional.elu_",  # names of PyTorch's kernel
    "torch.nn.functional.rrelu_",
}
"""Functions that lack a form, with the arguments of that form."""


class Nothing:
    """A value that no function accepts, so that each call ends after its arguments are bound."""


def rows() -> Iterator[tuple[str, list[list[str]]]]:
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, _, forms = line.partition(": ")
            yield name, [form.split() for form in forms.split(" | ")]


def unknown_arguments(function: Callable[..., Any], form: list[str], *first: Any) -> Iterator[str]:
    """Yield the errors of calls with the required arguments, and with one of the others too, that name an argument."""
    required = {word: Nothing() for word in form if not word.endswith("?")}
    for extra in (None, *(word[:-1] for word in form if word.endswith("?"))):
        arguments = required if extra is None else {**required, extra: Nothing()}
        try:
            function(*first, **arguments)
        except TypeError as error:
            text = str(error).partition("\n")[0]
            if "unexpected keyword" in text or "missing" in text:
                yield text
        except Exception:
            continue


def test_functions_accept_the_argument_names_of_pytorch():
    gaps = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, forms in rows():
            with contextlib.suppress(AttributeError):
                function = operator.attrgetter(name.removeprefix("torch."))(torch)
                first = (torch.ones(2, 2),) if name.startswith("torch.Tensor.") else ()
                errors = [e for form in forms for e in unknown_arguments(function, form, *first)]
                errors = [e for e in errors if not any(f"argument '{word}'" in e for word in ABSENT)]
                if errors and name not in OTHER_FORMS:
                    gaps[name] = errors
    assert gaps == {}


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda t: t.addmm(input=t.ones(1, 1), mat1=t.ones(1, 2), mat2=t.ones(2, 1)), 3.0),
        (lambda t: t.ones(2).addcdiv(tensor1=t.tensor(4.0), tensor2=t.tensor(2.0)), 3.0),
        (lambda t: t.ones(2).addcmul_(tensor1=t.tensor(4.0), tensor2=t.tensor(2.0), value=0.5), 5.0),
        (lambda t: t.lerp(t.zeros(2), end=t.ones(2), weight=0.25), 0.25),
        (lambda t: t.bmm(t.ones(1, 2, 3), mat2=t.ones(1, 3, 2)), 3.0),
        (lambda t: t.acos(input=t.ones(2)), 0.0),
        (lambda t: t.relu_(input=-t.ones(2)), 0.0),
        (lambda t: t.nn.functional.linear(input=t.ones(2), weight=t.ones(2, 2)), 2.0),
        (lambda t: t.ones(2).tile(dims=(2, 2)), 1.0),
        (lambda t: t.ones(2).repeat(repeats=(3, 1)), 1.0),
        (lambda t: t.ones(2).to(other=t.ones(1, dtype=t.float64)), 1.0),
        (lambda t: t.zeros(3).uniform_(**{"from": 2.0, "to": 2.0}), 2.0),
        (lambda t: t.stack(t.ones(4).split(split_size=2)), 1.0),
        (lambda t: t.embedding(t.ones(3, 2), t.tensor([1, 2])), 1.0),
        (lambda t: t.dropout(t.ones(4), 0.5, False), 1.0),
        (lambda t: t.batch_norm(t.ones(2, 3), t.ones(3), t.ones(3), t.ones(3), t.ones(3), False, 0.1, 0.0, True), 1.0),
        (
            lambda t: t.instance_norm(t.ones(1, 2, 3), None, t.tensor([5.0, 5.0]), None, None, True, 0.1, 1e-5, True),
            5.0,
        ),
        (lambda t: t.embedding_bag(t.ones(4, 2), t.tensor([0, 1, 2]), t.tensor([0]))[0], 3.0),
    ],
)
def test_arguments_by_name_have_the_effect_of_positional_ones(call, expected):
    assert (call(torch) == expected).all()


def test_random_tensors_like_another_draw_from_the_given_generator():
    for name in ("rand", "randn"):
        generator = torch.Generator().manual_seed(3)
        drawn = getattr(torch, f"{name}_like")(torch.ones(4), generator=generator)
        assert torch.equal(drawn, getattr(torch, name)(4, generator=generator.manual_seed(3)))
