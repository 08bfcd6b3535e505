"""The report: text for people, JSON for tools, and the exit status."""

import json

import pytest

from tests.conftest import lazywafer
from tests.cstorch_compat.check import test_plain_scripts as plain
from tests.cstorch_compat.check.faults import FAULTS, script

KEYS = """id severity title file line columns source_line operation module why detail way_out suggestion source
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


FETCHED = script().replace("num_steps=4", "num_steps=4, checkpoint_steps=2")
SECOND_LOOP = """
executor = cstorch.utils.data.DataExecutor(cstorch.utils.data.DataLoader(input_fn), num_steps=2)
for batch in executor:
    loss = step(batch)
    log(loss)
"""


@pytest.mark.process
@pytest.mark.parametrize(
    "text",
    [
        FETCHED + "torch.save(model.state_dict(), 'kept')\n",
        FETCHED.replace("print(loss.item())", "torch.save(loss, 'kept')"),
        plain.script().replace("print(loss.item())", "torch.save(model.state_dict(), 'kept')"),
    ],
    ids=["torch.save", "closure", "plain loop"],
)
def test_untrained_weights_replace_no_file(checked, tmp_path, text):
    kept = tmp_path / "kept"
    kept.write_text("trained")
    answer = checked(text)
    line = next(n for n, line in enumerate(text.splitlines(), 1) if "'kept'" in line)
    assert answer["exit"] == 0, answer
    if "(loss, 'kept')" not in text:  # only the closure ends, and not the script
        assert f"script_0.py:{line}, which changes the existing file kept" in answer["not_covered"][-1]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept", "script_0.py"]
    assert kept.read_text() == "trained"


@pytest.mark.process
@pytest.mark.parametrize("save", ["torch.save", "cstorch.save"])
def test_loop_after_a_saved_checkpoint_is_checked(checked, tmp_path, save):
    answer = checked(FETCHED + f"{save}(model.state_dict(), 'new')\nprint(loss.item())\n" + SECOND_LOOP)
    assert (answer["exit"], len(answer["covered"]["loops"])) == (0, 2), answer
    assert answer["files"]["undone"] == ["new"]
    assert [p.name for p in tmp_path.iterdir()] == ["script_0.py"]


@pytest.mark.process
def test_process_after_the_loop_is_not_started(checked):
    answer = checked(FETCHED + "import subprocess\nsubprocess.run(['touch', 'new'])\n")
    assert answer["not_covered"][-1].endswith("which starts a process")


@pytest.mark.process
def test_closures_get_the_values_of_the_first_batch(checked):
    code = "@cstorch.step_closure\ndef look(x):\n    print('loss', x.item(), x.shape, file=sys.stderr)\n    {}\n"
    plain_text = script().replace("import random", "import random, sys")
    text = plain_text.replace("executor =", code.format("assert 0.5 < x.item() < 2") + "executor =", 1)
    good = text.replace("    log(loss)", "    log(loss)\n    look(loss)")
    assert (checked(good)["exit"], checked(good)["crash"]) == (0, None)
    bad = good.replace("0.5 <", "100 <")
    answer = checked(bad)
    assert answer["exit"] == 2
    assert "assert 100 < x.item() < 2" in answer["crash"]


@pytest.mark.process
def test_lists_that_closures_fill_are_filled_after_the_loop(checked):
    text = FETCHED.replace("print(loss.item())", "losses.append(loss.item())").replace("count = 0", "losses = []")
    answer = checked(text + "mean = sum(losses) / len(losses)\nassert len(losses) == 2\n")
    # The script was followed to its end, so no aspect is about where it stopped.
    assert (answer["exit"], [one for one in answer["not_covered"] if "script_0.py" in one]) == (0, []), answer


@pytest.mark.process
def test_a_second_file_of_one_name_after_step_2_is_said_to_be_unchecked(checked):
    text = FETCHED + "import torch\ntorch.save({}, 'a.pt')\ntorch.save({}, 'a.pt')\n"
    assert any("after step 2, such as a second torch.save" in one for one in checked(text)["not_covered"])


@pytest.mark.process
def test_checkpoint_closure_of_the_last_step_is_called(checked):
    saving = (
        "@cstorch.checkpoint_closure\ndef save():\n    saved.append('a.mdl')\n    cstorch.save({'x': 1}, 'a.mdl')\n"
    )
    text = (
        script().replace("num_steps=4", "num_steps=9, checkpoint_steps=9").replace("count = 0", f"saved = []\n{saving}")
    )
    answer = checked(
        text.replace("    log(loss)", "    log(loss)\n    save()") + "cstorch.load(saved[-1])\n" + SECOND_LOOP
    )
    assert (answer["exit"], len(answer["covered"]["loops"])) == (0, 2), answer
