"""A script for each generation of the API, and a GPT: they train, save, go on bit for bit, and evaluate."""

import pathlib
import shutil
from dataclasses import dataclass

import numpy as np
import pytest

from tests.conftest import ROOT, lazywafer

RELEASES = ROOT / "tests" / "scripts" / "releases"
SMALL = (
    "--steps",
    "8",
    "--log_steps",
    "1",
    "--checkpoint_steps",
    "4",
    "--layers",
    "1",
    "--length",
    "16",
    "--width",
    "16",
)


@dataclass(frozen=True)
class Script:
    """A script with what `lazywafer run` and the script itself are told."""

    path: pathlib.Path
    api: str
    whole: tuple[str, ...] = ("train", "8")
    rest: tuple[str, ...] = ("train", "4", "8_4.mdl")
    evaluation: tuple[str, ...] = ()  # without it the training evaluates at its end


TINY = ("--machine", "tiny", "--mode", "streaming")
"""The plan is not looked at: a small mesh is planned soon."""
IN_ITS_OWN_PROCESS = ("eval", "8_8.mdl")
SCRIPTS = {
    "1.6": Script(RELEASES / "cbtorch_1_6.py", "1.6", evaluation=IN_ITS_OWN_PROCESS),
    "1.8": Script(RELEASES / "experimental_1_8.py", "1.8", evaluation=IN_ITS_OWN_PROCESS),
    "1.9": Script(RELEASES / "experimental_1_9.py", "1.9", evaluation=IN_ITS_OWN_PROCESS),
    "2.0": Script(RELEASES / "cstorch_2_0.py", "2.0"),
    "2.4": Script(RELEASES / "cstorch_2_4.py", "2.4"),
    "GPT": Script(
        ROOT / "notebooks" / "scripts" / "gpt.py",
        "2.10",
        (*SMALL, "--model_dir", "gpt_checkpoints"),
        (*SMALL, "--steps", "4", "--checkpoint", "gpt_checkpoints/checkpoint_4.mdl", "--model_dir", "rest"),
    ),
}


def lines(text: str, word: str) -> list[str]:
    return [line.partition(word)[2].strip() for line in text.splitlines() if word in line.split()]


def number(text: str) -> float:
    return float.fromhex(text) if text.startswith("0x") else float(text)


def copied(script: Script, folder: pathlib.Path) -> pathlib.Path:
    for path in (script.path, RELEASES / "data.py"):
        shutil.copy(path, folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_of_each_release_trains_goes_on_bit_for_bit_and_evaluates(name, tmp_path):
    script = SCRIPTS[name]
    copied(script, tmp_path)

    def run(*args: str) -> str:
        done = lazywafer("run", *TINY, "--api", script.api, script.path.name, *args, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    whole, rest = run(*script.whole), run(*script.rest)
    losses = lines(whole, "loss")
    assert len(losses) == 8 and losses[4:] == lines(rest, "loss")
    values = [number(x) for x in losses]
    assert np.mean(values[4:]) < 0.9 * np.mean(values[:4])
    found = run(*script.evaluation) if script.evaluation else whole
    accuracy, perplexity = lines(found, "accuracy"), lines(found, "perplexity")
    assert (float(accuracy[0]) > 0.5) if accuracy else (float(perplexity[0]) < 30)


@pytest.mark.slow
@pytest.mark.parametrize("name, lag", [("1.8", 1), ("2.4", 9)])
def test_closures_that_come_late_print_and_save_the_same(tmp_path_factory, name, lag):
    script, found = SCRIPTS[name], []
    for options in ((), ("--closure-lag", str(lag))):
        folder = copied(script, tmp_path_factory.mktemp("lag"))
        command = ("run", *TINY, "--api", script.api, *options, script.path.name, *script.whole)
        done = lazywafer(*command, cwd=folder)
        assert done.returncode == 0, done.stderr
        words = ("loss", "accuracy", "perplexity")
        found.append([[lines(done.stdout, word) for word in words], sorted(p.name for p in folder.glob("**/*.mdl"))])
    assert found[0] == found[1] and found[0][0][0]
