"""The report: text for people, JSON for tools, and the exit status."""

import json

import pytest

from tests.conftest import lazywafer
from tests.cstorch_compat.check import test_plain_scripts as plain
from tests.cstorch_compat.check.faults import FAULTS, script

KEYS = """id severity title file line columns source_line operation module detail way_out suggestion source
    count""".split()
FAULTY = script(*[f for f in FAULTS if f.rule in ("LW101", "LW301")][:2])


@pytest.mark.process
def test_text_shows_line_reason_and_way_out(checked):
    text = checked(FAULTY, form="text")["text"]
    assert "LW101  script_0.py:" in text
    assert "    | best = out.sum().item()  # fault\n    |        ^^^^^^^^^^^^^^^^\n" in text
    assert "do:  Choose with torch.where(...)" in text
    assert text.rstrip().splitlines()[-1].startswith("NOT READY")


@pytest.mark.process
def test_clean_script_is_told_what_was_covered(checked):
    lines = checked(script(), form="text")["text"].rstrip().splitlines()
    assert lines[-1].startswith("READY")
    assert any(line.startswith("Covered: one step traced (script_0.py:") for line in lines)


def test_command_prints_json_alone_and_tells_by_its_status(tmp_path):
    (tmp_path / "train.py").write_text(FAULTY)
    done = lazywafer("check", "--json", "train.py", cwd=tmp_path)
    answer = json.loads(done.stdout)
    assert answer["schema"] == 1
    assert list(answer["findings"][0]) == KEYS
    assert (answer["status"], done.returncode) == (1, 1)
    assert answer["counts"]["refused"] == sum(f["severity"] == "refused" for f in answer["findings"])
    assert [p.name for p in tmp_path.iterdir()] == ["train.py"]


def test_missing_script_is_a_mistake_of_usage(tmp_path):
    done = lazywafer("check", "nowhere.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "nowhere.py does not exist" in done.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    "text",
    [
        script() + "torch.save(model.state_dict(), 'kept')\n",
        script() + "cstorch.save(model.state_dict(), 'kept')\n",
        plain.script().replace("print(loss.item())", "torch.save(model.state_dict(), 'kept')"),
    ],
    ids=["torch.save", "cstorch.save", "plain loop"],
)
def test_untrained_weights_are_not_saved(checked, tmp_path, text):
    kept = tmp_path / "kept"
    kept.write_text("trained")
    answer = checked(text)
    assert answer["exit"] == 0, answer
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept", "script_0.py"]
    assert kept.read_text() == "trained"
