"""Where NumPy and tensors meet: all eight forms give what PyTorch gives, and raise where it does."""

import json
import operator
import pathlib
from typing import Any

import pytest

import cstorch_compat
from tests.golden.record_numpy_forms import NAMES, answer, expressions

RECORDED = json.loads((pathlib.Path(__file__).parents[2] / "golden" / "numpy_forms.json").read_text())
"""Recorded from PyTorch 2.13.0 with NumPy 2.4.6: type, dtype, shape, value and requires_grad, or class and text."""
OURS = {
    "after(t(), a(), lambda x, y: x.__setitem__(0, y[0]))": "we write what NumPy has",
    "after(t(), a(), lambda x, y: x.__setitem__(..., y))": "we write what NumPy has",
    "np.from_dlpack(h())": "a BufferError that says what to do; NumPy's own for a type that it has not",
    "t().__dlpack_device__()": "(1, 0): PyTorch's 1 has a name",
    "p().__dlpack_device__()": "(1, 0): PyTorch's 1 has a name",
    "t().__cuda_array_interface__": "absent, without PyTorch's advice to copy to a GPU",
}
"""Where we answer otherwise, and why."""
PARSED = ("argument", "invalid combination", "unexpected keyword", "can't be cast")
"""In texts of PyTorch's parser of calls, and where it has other names for types: we word these ourselves."""


@pytest.fixture(scope="module")
def scope():
    cstorch_compat.install()
    import torch  # noqa: PLC0415 - the shim is of this module alone

    names: dict[str, Any] = {"torch": torch, "operator": operator}
    exec(NAMES, names)
    yield names
    cstorch_compat.uninstall()


def difference(recorded: dict[str, Any], ours: dict[str, Any]) -> str:
    """What is not as it was recorded; "" if nothing is."""
    if "raises" in recorded:
        if recorded["raises"] not in ours.get("raises", ()):
            return f"raises {recorded['raises']}"
        if any(word in recorded["text"] for word in PARSED):
            return ""
        # Of the text the first sentence: what comes behind it, PyTorch words for its own user.
        return "" if recorded["text"].split(". ")[0].split("\n")[0] in ours["text"] else recorded["text"]
    for name in ("type", "dtype", "shape", "requires_grad"):
        if recorded.get(name) != ours.get(name):
            return f"{name} {recorded.get(name)}"
    return "" if is_close(recorded["value"], ours["value"]) else f"value {recorded['value']}"


def is_close(a: Any, b: Any) -> bool:
    """Whether numbers as text, or lists of them, are equal to 4 units of float32."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(is_close, a, b))
    try:
        x, y = float(a), float(b)
    except (TypeError, ValueError):
        return a == b
    return a == b or abs(x - y) <= 2.0**-21 * abs(x)


@pytest.mark.parametrize("form", expressions())
def test_a_form_answers_as_pytorch_does(scope, form):
    differences = {
        e: d for e in expressions()[form] if e not in OURS and (d := difference(RECORDED[e], answer(e, scope)))
    }
    assert not differences


def test_a_number_of_numpy_on_the_left_is_traced_in_a_step(script):
    done = script(
        """
        import numpy as np
        model = cstorch.compile(MLP(), cstorch.backend("CPU"))
        @cstorch.trace
        def step(batch):
            return np.float32(2) * model(batch[0]).sum()
        @cstorch.step_closure
        def show(a, b):
            print(torch.allclose(a, 2 * b))
        for batch in cstorch.utils.data.DataExecutor(loader(1), num_steps=1):
            show(step(batch), model(batch[0]).sum())
        """
    )
    assert done.stdout == "True\n", done.stderr
