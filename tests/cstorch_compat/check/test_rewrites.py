"""Lines to copy: what `check` proposes has the value of the line that it replaces, and breaks no rule."""

import ast
import os
import textwrap
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from cstorch_compat.check.rewrites import REWRITES, RewriteContext, suggest_line
from cstorch_compat.check.rules import RULES
from tests.cstorch_compat.check.faults import Fault, applied, script

LAYERS = "self.fc3 = nn.Linear(8, 8)"
SETUP = """
from cstorch_compat.names.mirror_modules import get_mirror as mirror
torch, nn, F = (mirror(path) for path in ("torch", "torch.nn", "torch.nn.functional"))
torch.manual_seed(0)
x, y, token = torch.randn(4, 6), torch.arange(4) % 3, torch.arange(4)
out, h, Data = torch.rand(4, 3) + 0.1, torch.randn(4, 8), lambda: [torch.ones(6)] * 16
self = nn.Module()
self.fc1, self.fc3, self.table = nn.Linear(6, 8), nn.Linear(8, 8), nn.Embedding(8, 8)
"""
"""What the lines of the frame of planted faults see, without a wafer."""
ADVISED = [
    ("LW105", "step", "kept = out[out > 0.5].sum()"),
    ("LW105", "step", "kept = out[out.sum(-1) > 1.0].sum() + 1"),
    ("LW105", "step", "kept = out[out.sum(-1) > 1.0].mean()"),
    ("LW105", "step", "kept = torch.mean(out[out > 0.5])"),
    ("LW105", "step", "kept = (x[x != 0]).mean()"),
    ("LW105", "step", "kept = out.masked_select(out > 0.5).sum()"),
    ("LW105", "step", "ö, kept = 1, torch.sum(out[(out > 0.5) & (out < 2)])"),
    ("LW105", "step", "cube = x.reshape(4, 3, 2); kept = cube[y != 0].mean()"),
    ("LW106", "step", "out = torch.add(out, out * 2, alpha=out.mean())"),
    ("LW106", "step", "out = out.sub(out, alpha=out.mean())"),
    ("LW106", "step", "out = torch.addcmul(out, out, out, value=out.mean())"),
    ("LW106", "step", "out = out.addcdiv(out, out + 1, value=out.mean())"),
    ("LW107", "step", "hot = F.one_hot(y, 3)"),
    ("LW107", "step", "hot = F.one_hot(y + 1, num_classes=4).float()"),
    ("LW201", "step", "far = torch.erfc(out)"),
    ("LW201", "step", "far = out.exp2()"),
    ("LW201", "step", "far = torch.hypot(out, out - 1)"),
    ("LW202", "step", "out = torch.lerp(out, out * 2, 0.25)"),
    ("LW202", "step", "out = out.lerp(out + 1, weight=0.25)"),
    ("LW202", "forward", "h = h + torch.mv(h, self.fc1.bias).unsqueeze(1)"),
    ("LW202", "forward", "h = h + (h @ self.fc1.bias + 1).unsqueeze(1)"),
    ("LW305", "forward", "h = h @ self.fc3.weight.t()"),
    ("LW305", "forward", "h = torch.matmul(h, self.fc3.weight.T) * 2"),
    ("LW305", "forward", "h = h.mm(self.fc3.weight.mT)"),
    ("LW306", "forward", "h = h + self.table.weight[token]"),
]
"""Rule, slot and line: every rewrite of the table, in its spellings."""
LOADER = "return torch.utils.data.DataLoader(Data(), batch_size=4, drop_last=True)"
WORDS_ONLY = [
    ("LW105", "step", "kept = out[out > 0.5]"),  # its shape is the question
    ("LW105", "step", "kept = out[out > 0.5].max()"),  # zeros would count
    ("LW105", "step", "kept = out[out > 0.5].sum(0)"),
    ("LW105", "step", "kept = F.relu(out[y != 0]).sum()"),
    ("LW107", "step", "hot = F.one_hot(y)"),
    ("LW107", "step", "hot = F.one_hot(y, -1)"),
    ("LW305", "forward", "g = self.fc3.weight.t() @ h.t()"),
    ("LW306", "forward", "g = self.fc1.bias[token]"),  # no table of rows
    ("LW306", "forward", "h = h + self.table.weight[token, token].sum()"),
]
"""Findings whose way out is told in words: no other line is known to have the same value."""


@pytest.fixture(scope="module")
def advised(check_script) -> dict[str, dict[str, Any]]:
    """The finding of each line above, all in one script, and what a check says when all advice is taken."""
    lines = [(slot, line) for _, slot, line in ADVISED + WORDS_ONLY]
    faults = [Fault("", slot, line) for slot, line in lines]
    text = script(*faults, Fault("", "layers", LAYERS))
    answer = check_script(text)
    found = {(f["source_line"], f["id"]): f for f in answer["findings"]}
    again = check_script(applied(text, answer["findings"]))
    return {"found": found, "again": again}


def values(line: str) -> dict[str, Any]:
    """What a line assigns, in a scope like that of the frame."""
    space: dict[str, Any] = {}
    exec(SETUP, space)
    exec(line, space)
    targets = {n.id for n in ast.walk(ast.parse(line)) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return {n: np.asarray(space[n].detach() if hasattr(space[n], "detach") else space[n]) for n in targets}


@pytest.mark.process
@pytest.mark.parametrize(("rule", "slot", "line"), ADVISED)
def test_advice_leaves_no_finding_and_keeps_the_numbers(advised, rule, slot, line):
    other = advised["found"][line, rule]["suggestion"]
    assert other and other != line
    assert [f for f in advised["again"]["findings"] if f["source_line"] == other] == []
    before, after = values(line), values(other)
    assert before.keys() == after.keys()
    for name, value in before.items():
        np.testing.assert_allclose(after[name], value, rtol=1e-5, atol=1e-6)


HALVES = st.sampled_from(["out", "(out * 2)", "(out + 1)", "out.abs()", "out[:, :]"])
OPERANDS = HALVES | st.just("torch.exp(out)")  # which gives a float32 in a step: lerp would not mix the two
ROWS = st.sampled_from(["h", "(h * 2)", "h.abs()", "F.relu(h)", "torch.tanh(h)"])
NUMBERS = st.sampled_from(["0.25", "2", "-1.5", "1e-3"])
BOUNDS = st.sampled_from(["0.2", "0.5", "0.7"])
KINDS = st.sampled_from(["sum", "mean"])
SPELLINGS = {
    "step": (
        st.builds("kept = {0}[out {2} {1}].{3}()".format, OPERANDS, BOUNDS, st.sampled_from("<>"), KINDS),
        st.builds("total = torch.{2}(({0})[out > {1}])".format, OPERANDS, BOUNDS, KINDS),
        st.builds("rows = {0}[{0}.{2}(-1) > {1}].{2}()".format, OPERANDS, BOUNDS, KINDS),
        st.builds(
            "a = torch.{2}({0}, {1}, alpha={1}.mean())".format, OPERANDS, OPERANDS, st.sampled_from(["add", "sub"])
        ),
        st.builds("b = torch.addcmul({0}, {1}, out, value={1}.mean())".format, OPERANDS, OPERANDS),
        st.builds("g = {0}.addcdiv({1}, out.exp() + 1, value={1}.mean())".format, OPERANDS, OPERANDS),
        st.builds("hot = F.one_hot(y + {0}, {0} + 3)".format, st.integers(0, 3)),
        st.builds("c = torch.{1}({0})".format, OPERANDS, st.sampled_from(["erfc", "exp2"])),
        st.builds("d = torch.hypot({0}, {1} - {2})".format, OPERANDS, OPERANDS, NUMBERS),
        st.builds("e = torch.lerp({0}, {1}, {2})".format, HALVES, HALVES, NUMBERS),
        st.builds("f = ({0}).lerp({1}, weight={2})".format, HALVES, HALVES, NUMBERS),
    ),
    "forward": (
        st.builds("row = torch.mv({0}, self.fc1.bias) * {1}".format, ROWS, NUMBERS),
        st.builds("col = {0} @ self.fc1.bias + {1}".format, ROWS, NUMBERS),
        st.builds("p = {0} @ self.fc3.weight.{1} * {2}".format, ROWS, st.sampled_from(["t()", "T", "mT"]), NUMBERS),
        st.builds("q = {0}.mm(self.fc3.weight.t())".format, ROWS),
        st.builds("r = {0} * self.table.weight[token]".format, ROWS),
    ),
}
"""By slot, lines that break the rules which have a rewrite: a line for each way."""
USES = (
    Fault("", "step", "out = out + (e + f) * 1e-3"),
    Fault("", "forward", "h = h + (row + col).unsqueeze(1) * 1e-3"),
)
"""Lines that need what cannot be lowered: code whose result is not needed is not lowered."""
PROGRAMS = st.fixed_dictionaries({slot: st.tuples(*lines) for slot, lines in SPELLINGS.items()})
CAMPAIGN = bool(os.environ.get("CAMPAIGN"))
DRAWN = settings(max_examples=60 if CAMPAIGN else 2, derandomize=not CAMPAIGN, phases=[Phase.generate], database=None)


@pytest.mark.slow
@DRAWN
@given(drawn=PROGRAMS)
def test_all_advice_on_a_drawn_program_leaves_no_finding_and_keeps_the_numbers(check_script, drawn):
    lines = [(slot, line) for slot, lines in drawn.items() for line in lines]
    text = script(*(Fault("", slot, line) for slot, line in lines), *USES, Fault("", "layers", LAYERS))
    findings = check_script(text)["findings"]
    new = {f["source_line"]: f["suggestion"] for f in findings}
    assert new.keys() == {line for _, line in lines}
    assert None not in new.values()
    assert check_script(applied(text, findings))["findings"] == []
    for line, other in new.items():
        (name, before), (same, after) = (*values(line).items(), *values(other).items())
        assert name == same
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


def test_every_rewrite_is_in_a_drawn_program():
    spelled = "".join(repr(line) for lines in SPELLINGS.values() for line in lines)
    for key, name in REWRITES:
        assert key == "uneven batches" or {"[]": "[", "matmul": "@"}.get(name, name) in spelled, name


@pytest.mark.process
@pytest.mark.parametrize(("rule", "slot", "line"), WORDS_ONLY)
def test_where_no_line_has_the_same_value_there_is_none_to_copy(advised, rule, slot, line):
    assert advised["found"][line, rule]["suggestion"] is None


def test_every_rewrite_is_applied_by_a_test():
    ids = {rule.key: rule.id for rule in RULES.values()}
    for key, name in REWRITES:
        word = {"[]": "[", "matmul": "@"}.get(name, name)
        assert key == "uneven batches" or any(ids[key] == rule and word in line for rule, _, line in ADVISED), name


@pytest.mark.process
def test_advice_for_a_short_last_batch_is_to_drop_it(check_script):
    other = LOADER.replace("batch_size=4, drop_last=True", "batch_size=5, shuffle=False")
    text = script(Fault("LW404", "setup", "", ((LOADER, other),)))
    answer = check_script(text)
    assert [f["id"] for f in answer["findings"]] == ["LW404"]
    assert check_script(applied(text, answer["findings"]))["findings"] == []
    # The batches that stay are those that were.
    new = answer["findings"][0]["suggestion"].replace("return ", "b = list(") + ")"
    assert values(new)["b"].shape == (3, 5, 6)


IMPORTS = {
    "import torch as th": "th.sum(x)",
    "from torch import nn\nimport torch": "nn.functional.linear(x, w)",
    "import torch\nfrom torch.nn import functional as fun": "fun.linear(x, w)",
    "from torch import nn": "nn.functional.linear(x, w)",
}


@pytest.mark.parametrize(("imports", "answer"), IMPORTS.items())
def test_names_are_spelled_as_the_script_imports_them(imports, answer):
    line = "th.mean(x)" if "sum" in answer else "out = x @ w.t()"
    if "sum" in answer:
        place = RewriteContext("no kernel", "out = th.hypot(a, b)", (6, 20), (), imports)
        assert suggest_line(place) == "out = th.sqrt(a ** 2 + b ** 2)"
    else:
        place = RewriteContext("transposed weight", line, (6, len(line)), ((4, 6), (6, 3)), imports)
        assert suggest_line(place) == f"out = {answer}"


def test_method_of_what_a_function_of_torch_gives_is_rewritten():
    line = "f = torch.tanh(out).lerp(out, weight=2)"
    assert (
        suggest_line(RewriteContext("no lowering", line, (4, len(line))))
        == "f = (torch.tanh(out) + 2 * (out - torch.tanh(out)))"
    )


@pytest.mark.parametrize("line", ["torch.lerp(*a)", "F.one_hot(y, **options)", "not python (", "x @ v"])
def test_what_cannot_be_read_gets_no_line(line):
    for rule, _ in REWRITES:
        if (rule, line) != ("no lowering", "x @ v"):
            assert suggest_line(RewriteContext(rule, line, (0, len(line)))) == ""
    assert suggest_line(RewriteContext("no lowering", textwrap.dedent(line), None)) == ""
