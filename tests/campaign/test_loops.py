"""Drawn training loops hold their laws, and loops that were recorded give the real package's answers.

`python -m tests.campaign loops N SEED --real PYTHON` compares many more with the package itself.
"""

import pytest

from tests.campaign.loops.campaign import LAWS, findings, shrunk
from tests.campaign.loops.comparing import difference
from tests.campaign.loops.drawing import SIMPLEST, drawn
from tests.campaign.loops.recorded import recorded
from tests.campaign.loops.rendering import script
from tests.campaign.loops.serving import Answer, Servers

RECORDED = recorded()
ANSWERS = [(name, backend) for name, (_, answers) in RECORDED.items() for backend in answers]
DRAWN = 1
SEED = 1


@pytest.fixture(scope="module")
def servers():
    # Compiling the steps of each script would take longer than to interpret them.
    with pytest.MonkeyPatch.context() as patch, Servers() as started:
        patch.setenv("LT_JIT", "0")
        yield started


@pytest.mark.process
@pytest.mark.parametrize("name, backend", ANSWERS)
def test_recorded_loop_gives_the_real_packages_answer(servers, name, backend):
    loop, answers = RECORDED[name]
    found = difference(answers[backend], servers.answer("ours", script(loop), backend))
    assert found is None, str(found)


@pytest.mark.process
@pytest.mark.parametrize("number", range(DRAWN))
def test_drawn_loop_is_equal_on_both_backends_in_repetition_and_continuation(servers, number):
    loop = drawn(SEED, number)
    # Otherwise two refusals would be equal.
    for backend in ("CPU", "CSX"):
        assert servers.answer("ours", script(loop), backend).error is None
    assert [str(f.difference) for f in findings(servers, loop, ["CPU and CSX", *LAWS]) if f.reason is None] == []


def test_every_drawn_loop_is_a_script():
    for number in range(300):
        compile(script(drawn(SEED, number)), "script", "exec")


@pytest.mark.parametrize(
    "left, right, kind",
    [
        ([["loss", ["torch.float32", [2], [1.0, 2.0]]]], [["loss", ["torch.float32", [2], [1.0, 2.1]]]], "value"),
        ([["loss", 1.0]], [["loss", True]], "type"),
        ([["loss", 1.0]], [["loss", float("nan")]], "value"),
        ([["loss", {"a": 1}]], [["loss", {"b": 1}]], "names"),
        ([["loss", 1.0], ["end"]], [["loss", 1.0]], "missing lines"),
        ([["loss", 1.0], ["end"]], [["end"], ["loss", 1.0]], "order"),
    ],
)
def test_differences_of_printed_lines_are_found(left, right, kind):
    assert difference(Answer(left, None), Answer(left, None)) is None
    assert difference(Answer(left, None), Answer(right, None)).kind == kind


def test_errors_differ_by_type_and_line():
    error = {"type": "ValueError", "line": 3, "text": "", "kinds": ["ValueError"]}
    own = {**error, "type": "OptionInvalid", "kinds": ["OptionInvalid", "LazyError", "ValueError"]}
    assert difference(Answer([], error), Answer([], own)) is None
    assert difference(Answer([], error), Answer([], {**own, "line": 4})).kind == "error line"
    assert difference(Answer([], error), Answer([], {**own, "kinds": ["KeyError"]})).kind == "error type"
    assert difference(Answer([], error), Answer([], None)).kind == "accepted by one"


def test_shrinking_leaves_what_makes_the_difference():
    loop = {"seed": 1, "rows": 7, "layers": [["Linear", 8], ["Dropout"], ["Linear", 3]], "summaries": True}

    def has_dropout(smaller):
        return ["Dropout"] in smaller.get("layers", SIMPLEST["layers"])

    assert shrunk(loop, has_dropout) == {"seed": 1, "layers": [["Dropout"]]}
