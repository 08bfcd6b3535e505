"""The scripts of published runs: each trains, and is what its row says."""

import json

import pytest

from tests.conftest import ROOT, lazywafer

SCRIPTS = ROOT / "notebooks" / "scripts" / "published"
SMALL = ("--layers", "1", "--width", "128", "--heads", "2", "--vocabulary", "99", "--length", "16", "--batch_size", "4")
RUNS = {
    "fc_mnist.py": (),
    "bert_large.py": (*SMALL, "--filter", "96"),
    "gpt2.py": SMALL,
    "gptj.py": SMALL,
    "llama2_7b.py": (*SMALL, "--filter", "96"),
}


def test_every_script_of_a_published_run_is_tried():
    assert RUNS.keys() == {path.name for path in SCRIPTS.glob("*.py")}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_system_would_refuse_nothing_of_a_published_run(name, tmp_path):
    done = lazywafer("check", "--json", str(SCRIPTS / name), *RUNS[name], cwd=tmp_path)
    assert json.loads(done.stdout)["counts"]["refused"] == 0
