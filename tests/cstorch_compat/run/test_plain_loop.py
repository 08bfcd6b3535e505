"""Plain PyTorch scripts print under `lazywafer run` the losses that they print under PyTorch 2.13."""

import hashlib
import json
import pathlib
import shutil

import numpy as np
import pytest

from tests.conftest import lazywafer
from tests.scripts.text import TEXT

SCRIPTS = pathlib.Path(__file__).parents[2] / "scripts"
RECORDED = json.loads((SCRIPTS / "losses.json").read_text())
PLAIN = json.loads((SCRIPTS / "plain_losses.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "cnn", "lstm", "transformer"])
def test_script_prints_the_losses_of_pytorch(name, tmp_path):
    if hashlib.sha256(TEXT.encode()).hexdigest() != RECORDED["text"]:
        pytest.skip("the texts of this Python are others than those of the recording")
    for path in SCRIPTS.glob("*.py"):
        shutil.copy(path, tmp_path)
    done = lazywafer("run", f"{name}.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    ours = [float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("loss ")]
    assert len(ours) == 50
    np.testing.assert_allclose(ours, RECORDED[name], rtol=1e-4)


def test_every_plain_script_is_recorded():
    assert sorted(PLAIN) == sorted(path.stem for path in (SCRIPTS / "plain").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAIN)
def test_first_steps_of_a_plain_script_have_the_losses_of_pytorch(name, tmp_path):
    done = lazywafer("run", str(SCRIPTS / "plain" / f"{name}.py"), str(len(PLAIN[name])), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    ours = [float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("loss ")]
    np.testing.assert_allclose(ours, PLAIN[name], rtol=1e-4)
