"""The report: text for people, JSON for tools, and the exit status."""

import json

import pytest

from tests.conftest import python
from tests.cstorch_compat.check import test_plain as plain
from tests.cstorch_compat.check.faults import FAULTS, script

KEYS = """id severity title file line columns source_line operation module detail way_out suggestion source
    count""".split()


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    path = tmp_path_factory.mktemp("check") / "train.py"
    path.write_text(script(*[f for f in FAULTS if f.rule in ("LW101", "LW301")][:2]))
    return path


def check(path, *options):
    return python("-m", "cstorch_compat", "check", *options, path.name, cwd=path.parent)


def test_text_shows_line_reason_and_way_out(faulty):
    done = check(faulty)
    assert done.returncode == 1, done.stderr
    assert "LW101  train.py:" in done.stdout
    assert "    | best = out.sum().item()  # fault\n    |        ^^^^^^^^^^^^^^^^\n" in done.stdout
    assert "do:  Choose with torch.where(...)" in done.stdout
    assert done.stdout.rstrip().splitlines()[-1].startswith("NOT READY")


def test_json_is_all_that_is_printed(faulty):
    done = check(faulty, "--json")
    answer = json.loads(done.stdout)
    assert answer["schema"] == 1
    assert list(answer["findings"][0]) == KEYS
    assert (answer["status"], done.returncode) == (1, 1)
    assert answer["counts"]["refused"] == sum(f["severity"] == "refused" for f in answer["findings"])


def test_missing_script_is_a_mistake_of_usage(tmp_path):
    done = check(tmp_path / "nowhere.py")
    assert done.returncode == 2
    assert "no script" in done.stderr


def test_nothing_is_written_and_nothing_runs(faulty):
    before = sorted(p.name for p in faulty.parent.iterdir())
    check(faulty)
    assert sorted(p.name for p in faulty.parent.iterdir()) == before


@pytest.mark.parametrize(
    "save", ["torch.save(model.state_dict(), 'kept')", "cstorch.save(model.state_dict(), 'kept2')"]
)
def test_untrained_weights_are_not_saved_after_the_loop(tmp_path, save):
    kept, path = tmp_path / "kept", tmp_path / "train.py"
    kept.write_text("trained")
    path.write_text(script() + save + "\n")
    done = check(path)
    assert done.returncode == 0, done.stderr
    assert "change to a file" in done.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept", "train.py"]
    assert kept.read_text() == "trained"


def test_plain_loop_does_not_save_untrained_weights(tmp_path):
    kept, path = tmp_path / "kept", tmp_path / "train.py"
    kept.write_text("trained")
    path.write_text(plain.script().replace("print(loss.item())", "torch.save(model.state_dict(), 'kept')"))
    assert check(path).returncode == 0
    assert kept.read_text() == "trained"
