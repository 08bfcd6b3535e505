"""Commands and scripts on simulated Windows and macOS: the same results, or one sentence that says what is missing.

No such machine is needed: `startup/sitecustomize.py` takes away what these systems do not have.
"""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SYSTEMS = ("win32", "darwin")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="other systems are simulated on Linux"),
]


def run_on(system, *args, cwd):
    """Run Python as on another system; "" is the real one. Return its standard output; a failure is an error."""
    path = os.pathsep.join((str(ROOT / "tests/platforms/startup"), str(ROOT)))
    env = {**os.environ, "LAZYWAFER_TEST_SYSTEM": system, "PYTHONPATH": path, "PYTHONWARNINGS": "error"}
    env["LT_THREADS"] = "2"
    done = subprocess.run([sys.executable, *args], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


IMPORTS = """
import importlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
for package in ("lazytensor", "wse_sim", "cstorch_compat"):
    for file in sorted((root / package).rglob("*.py")):
        module = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        if file.stem != "__main__":
            importlib.import_module(module)
from lazytensor.data import worker_pool
print(worker_pool.sys.platform)
"""


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_module_can_be_imported(system, tmp_path):
    assert run_on(system, "-c", IMPORTS, str(ROOT), cwd=tmp_path).split() == [system]


TRAINING = """
import os
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def main():
    torch.manual_seed(0)
    x = torch.randn(256, 20)
    samples = TensorDataset(x, (x.sum(1) > 0).long())
    model = nn.Sequential(nn.Linear(20, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 2))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for epoch in range(3):
        for inputs, labels in DataLoader(samples, 64, shuffle=True, num_workers=int(epoch == 0)):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
    for _ in range(2):  # the second file replaces the first one
        torch.save(model.state_dict(), "model.pt")
        model.load_state_dict(torch.load("model.pt"))
    print(loss.item(), model(x).sum().item())

if __name__ == "__main__":
    main()
"""


def test_training_and_saving_give_the_numbers_of_linux(tmp_path):
    (tmp_path / "training.py").write_text(TRAINING)
    expected, *others = (
        run_on(system, "-m", "cstorch_compat", "run", "training.py", cwd=tmp_path) for system in ("", *SYSTEMS)
    )
    assert len(expected.split()) == 2 and others == [expected, expected]


@pytest.mark.parametrize("system", SYSTEMS)
def test_steps_have_threads(system, tmp_path):
    lines = run_on(system, "-m", "cstorch_compat", "info", cwd=tmp_path).splitlines()
    assert [line.split()[2] for line in lines if line.startswith("step threads")] == ["2"]


SMALL = """
import torch
model = torch.nn.Linear(20, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(2):
    optimizer.zero_grad()
    model(torch.randn(8, 20)).relu().sum().backward()
    optimizer.step()
"""


def test_check_and_plan_find_what_they_find_on_linux(tmp_path):
    (tmp_path / "small.py").write_text(SMALL)
    for command in (["check"], ["plan", "--json"]):
        first, other = (run_on(s, "-m", "cstorch_compat", *command, "small.py", cwd=tmp_path) for s in ("", "win32"))
        assert first and other == first


CHECKPOINT = """
import sys
import cstorch_compat
cstorch_compat.install()
import torch
import cerebras.pytorch as cstorch
from cstorch_compat.files import checkpoint
cstorch.save({"weight": torch.arange(6.0).reshape(2, 3), "text": "a\\r\\n\\x1a"}, "state.mdl")
state = cstorch.load("state.mdl")
print(state["weight"].tolist(), repr(state["text"]))
"""


def test_checkpoints_are_written_and_read(tmp_path):
    for system in SYSTEMS:
        (tmp_path / system).mkdir()
        shown = run_on(system, "-c", CHECKPOINT, cwd=tmp_path / system)
        assert shown.splitlines()[-1] == r"[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] 'a\r\n\x1a'"
    assert (tmp_path / "win32/state.mdl").stat().st_size == (tmp_path / "darwin/state.mdl").stat().st_size


OPEN_FILE = """
import torch
from lazytensor.errors import CheckpointError
from cstorch_compat.files import atomic_write

torch.save({"weight": torch.zeros(4)}, "model.pt")
with open("model.pt", "rb"):
    try:
        torch.save({"weight": torch.ones(4)}, "model.pt")
    except CheckpointError as error:
        print(error)
"""


def test_save_over_an_open_file_says_that_windows_does_not_replace_it(tmp_path):
    (tmp_path / "open.py").write_text(OPEN_FILE)
    shown = run_on("win32", "-m", "cstorch_compat", "run", "open.py", cwd=tmp_path)
    assert "model.pt' cannot be written" in shown and "Windows does not replace a file that is open" in shown
    assert run_on("darwin", "-m", "cstorch_compat", "run", "open.py", cwd=tmp_path) == ""


LOCK = """
import os, subprocess, sys
from lazytensor.system import positioned_files as files
descriptor = os.open("file", os.O_RDWR | os.O_CREAT)
os.write(descriptor, b"0123456789")
print(files.HAS_POSITIONED_CALLS, files.try_lock(descriptor), files.read_at(descriptor, 3, 4).decode())
files.write_at(descriptor, memoryview(b"ab"), 1)
target = memoryview(bytearray(4))
print(files.read_into_at(descriptor, target, 0), bytes(target).decode(), os.lseek(descriptor, 0, os.SEEK_CUR))
if len(sys.argv) == 1:
    print(subprocess.run([sys.executable, "lock.py", "second"], capture_output=True, text=True).stdout)
"""


@pytest.mark.parametrize("system", ["", *SYSTEMS])
def test_files_are_read_at_an_offset_and_locked(system, tmp_path):
    (tmp_path / "lock.py").write_text(LOCK)
    positioned, locked, text, *rest = run_on(system, "lock.py", cwd=tmp_path).split()
    assert (positioned, locked, text) == (str(system != "win32"), "True", "456")
    assert rest[:3] == ["4", "0ab3", "10"] and rest[4] == "False"
