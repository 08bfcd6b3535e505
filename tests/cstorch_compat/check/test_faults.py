"""Each planted fault is found at its line, by its rule, and nothing else is."""

import pathlib
import re

import pytest

from cstorch_compat.check.findings import SEVERITIES
from cstorch_compat.check.rules import RULES
from tests.cstorch_compat.check.faults import BATCHES, FAULTS, Fault, applied, script

ROOT = pathlib.Path(__file__).parents[3]


def fault_line(text: str) -> int:
    return next(i for i, line in enumerate(text.splitlines(), 1) if "# fault" in line)


@pytest.mark.process
def test_frame_is_clean(checked):
    answer = checked(script())
    assert answer["findings"] == []
    assert (answer["exit"], answer["crash"]) == (0, None)
    assert answer["covered"]["operations"] > 20


@pytest.mark.process
@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f"{f.rule}-{f.code.strip()[:30]}")
def test_planted_fault_is_found_at_its_line(checked, fault: Fault):
    text = script(fault)
    answer = checked(text)
    found = [(f["id"], f["line"]) for f in answer["findings"] if f["id"] not in fault.also]
    assert found == [(fault.rule, fault_line(text))], answer
    assert answer["exit"] == any(f["severity"] == "refused" for f in answer["findings"])
    # A line to copy is right as it stands.
    if any(f["suggestion"] for f in answer["findings"]):
        again = checked(applied(text, answer["findings"]))
        assert (again["findings"], again["crash"]) == ([], None)


@pytest.mark.process
def test_gradients_that_are_set_to_zero_are_no_change_of_the_step(checked):
    answer = checked(script().replace("zero_grad()", "zero_grad(set_to_none=False)"))
    assert answer["findings"] == []


@pytest.mark.process
@pytest.mark.parametrize("batches", ["range(4)", "itertools.count()"])
def test_generator_with_enough_batches_is_no_finding(checked, batches):
    text = script(Fault("", "before", "import itertools"))
    loader = "    return torch.utils.data.DataLoader(Data(), batch_size=4, drop_last=True)"
    assert checked(text.replace(loader, BATCHES.replace("range(3)", batches)))["findings"] == []


def test_every_rule_has_a_planted_fault():
    elsewhere = {"LW502"}  # in test_plain_scripts.py and test_graph.py
    assert {rule.id for rule in RULES.values()} - {f.rule for f in FAULTS} == elsewhere


def test_rules_have_ids_of_their_own_and_say_all():
    assert len({rule.id for rule in RULES.values()}) == len(RULES)
    for rule in RULES.values():
        assert rule.severity in SEVERITIES
        assert all((rule.title, rule.why.endswith("."), rule.way_out.endswith("."), rule.source))


@pytest.mark.process
def test_all_faults_of_one_script_are_found_in_one_run(checked):
    chosen = {f.rule: f for f in FAULTS if f.slot in ("step", "forward") and not (f.replaces or f.also)}
    text = script(*chosen.values())
    marked = {i for i, line in enumerate(text.splitlines(), 1) if "# fault" in line}
    answer = checked(text)
    assert len(marked) >= 18
    assert marked <= {f["line"] for f in answer["findings"]}
    assert set(chosen) <= {f["id"] for f in answer["findings"]}
    assert answer["exit"] == 1


def test_every_refusal_in_the_packages_has_a_rule():
    given = set()
    for package in ("lazytensor", "cstorch_compat"):
        for path in (ROOT / package).rglob("*.py"):
            given |= set(re.findall(r'\brefuse\(\s*f?"([^"{]+)', path.read_text(encoding="utf-8")))
    assert given - {"read "} <= set(RULES) | {"eager optimizer"}
    assert {"read ", "device", "metric", "unknown name"} <= given
