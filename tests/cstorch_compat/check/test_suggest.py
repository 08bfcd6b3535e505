"""Suggestions: a rewritten expression has the value of the one that it replaces."""

import ast

import numpy as np
import pytest

from cstorch_compat.check.suggest import REWRITES, suggestion

SETUP = """
from cstorch_compat.names.mirror import mirror
torch, F = mirror("torch"), mirror("torch.nn.functional")
torch.manual_seed(0)
x, y, w, v = torch.randn(4, 6), torch.rand(4, 6) + 1, torch.randn(3, 6), torch.randn(6)
i, t = torch.tensor([2, 0, 1]), torch.tensor(0.25)
"""
EXPRESSIONS = [
    ("transposed weight", "x @ w.t()"),
    ("transposed weight", "torch.matmul(x, w.T)"),
    ("transposed weight", "x.mm(w.t())"),
    ("no lowering", "x @ v"),
    ("no lowering", "torch.mv(x, v)"),
    ("no lowering", "torch.lerp(x, y, 0.25)"),
    ("no lowering", "x.lerp(y + 1, weight=0.25)"),
    ("no kernel", "torch.erfc(x)"),
    ("no kernel", "torch.exp2(x)"),
    ("no kernel", "torch.hypot(x, y)"),
    ("counting", "F.one_hot(i, 4)"),
    ("counting", "F.one_hot(i, num_classes=3)"),
    ("decay", "torch.add(x, y * 2, alpha=t)"),
    ("decay", "x.sub(y, alpha=t)"),
    ("decay", "torch.addcmul(x, x, y, value=t)"),
    ("decay", "x.addcdiv(x, y, value=t)"),
    ("indexed weight", "w[i]"),
]


@pytest.mark.parametrize(("rule", "expression"), EXPRESSIONS)
def test_suggestion_keeps_the_value(rule, expression):
    line = f"    out = {expression} + 0  # here"
    found = suggestion(rule, line, (10, 10 + len(expression)))
    assert found.startswith("out = ") and found.endswith(" + 0  # here")
    other = found.removeprefix("out = ").removesuffix(" + 0  # here")
    assert other != expression
    ast.parse(other, mode="eval")
    values = _values(expression, other)
    np.testing.assert_allclose(values[0], values[1], rtol=1e-5, atol=1e-6)


def _values(*expressions: str) -> list[np.ndarray]:
    space: dict = {}
    exec(SETUP, space)
    return [eval(e, space).numpy() for e in expressions]


def test_loader_is_told_to_drop_the_last_batch():
    line = "return DataLoader(data, batch_size=3, shuffle=True)"
    found = suggestion("uneven batches", line, (7, len(line)))
    assert found == "return torch.utils.data.DataLoader(data, batch_size=3, shuffle=True, drop_last=True)"


@pytest.mark.parametrize("line", ["x @ y", "torch.lerp(*a)", "F.one_hot(y)", "not python ("])
def test_what_cannot_be_rewritten_gets_no_suggestion(line):
    for rule, _ in REWRITES:
        if (rule, line) != ("no lowering", "x @ y"):
            assert suggestion(rule, line, (0, len(line))) == ""
    assert suggestion("no lowering", "x @ y", None) == ""
