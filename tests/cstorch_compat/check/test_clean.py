"""Scripts that are known to run: nothing in them is refused, and no risk is reported that is none."""

import pytest

from tests.conftest import ROOT

SCRIPTS = ROOT / "tests" / "scripts"
RELEASES = {
    "cbtorch_1_6": "1.6",
    "experimental_1_8": "1.8",
    "experimental_1_9": "1.9",
    "cstorch_2_0": "2.0",
    "cstorch_2_4": "2.4",
}


def complaints(answer: dict) -> list[tuple[str, str]]:
    assert (answer["crash"], len(answer["covered"]["loops"]) > 0) == (None, True), answer
    return [(f["id"], f["source_line"]) for f in answer["findings"] if f["severity"] != "note"]


@pytest.mark.process
@pytest.mark.parametrize("name", RELEASES)
def test_script_of_a_release_is_clean(checked, name):
    answer = checked(SCRIPTS / "releases" / f"{name}.py", "train", "8", api=RELEASES[name])
    assert (complaints(answer), answer["exit"]) == ([], 0)


@pytest.mark.process
@pytest.mark.parametrize("path", sorted((ROOT / "notebooks" / "scripts").glob("*.py")), ids=lambda p: p.stem)
def test_script_of_the_notebooks_is_clean(checked, path):
    answer = checked(path)
    assert (answer["findings"], answer["exit"]) == ([], 0)


def test_every_release_has_its_script_here():
    assert {p.stem for p in (SCRIPTS / "releases").glob("*_*.py")} == set(RELEASES)


# The original has no nn.LSTM: its flattened weights need an operation that the backend lacks. The transformer uses
# the fused layers.
@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "rules"), [("mlp", set()), ("cnn", set()), ("lstm", {"LW201"}), ("transformer", {"LW301"})]
)
def test_plain_script_is_clean_but_for_what_the_original_lacks(checked, name, rules):
    assert {rule for rule, _ in complaints(checked(SCRIPTS / f"{name}.py"))} == rules
