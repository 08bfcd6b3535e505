"""A system that starts no more threads slows a run down, and does not end it."""

import threading

import numpy as np
import pytest

from cstorch_compat.files import checkpoint
from lazytensor.system import threads
from lazytensor.system.threads import run_all
from tests.conftest import PREAMBLE, python

COUNTS = (0, 1, 2)
"""How many threads the system still starts."""


@pytest.fixture(params=COUNTS)
def few_threads(request, monkeypatch) -> list[threading.Thread]:
    """Let the system start only a few threads more; the list has those."""
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def start_or_fail(thread: threading.Thread) -> None:
        if len(started) == request.param:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_fail)
    monkeypatch.setattr(threads, "_warned_reasons", {"warned before"})
    return started


LIMIT = """
import threading
begin, left = threading.Thread.start, [{count}]
def start(thread):
    if not left[0]:
        raise RuntimeError("can't start new thread")
    left[0] -= 1
    begin(thread)
threading.Thread.start = start
"""
TRAINING = """
torch.manual_seed(0)
backend = cstorch.backend("{backend}")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.norm, self.fc2 = nn.Linear(64, 512), nn.LayerNorm(512), nn.Linear(512, 10)
    def forward(self, x):
        return self.fc2(self.norm(F.gelu(self.fc1(x))))
with backend.device:
    model = Net()
compiled = cstorch.compile(model, backend)
optimizer = cstorch.optim.AdamW(model.parameters(), lr=0.01)
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 1024
    def __getitem__(self, i):
        return torch.full((64,), i / 1024), i % 10
def input_fn():
    return torch.utils.data.DataLoader(Data(), batch_size=256, num_workers={workers})
@cstorch.trace
def step(batch):
    optimizer.zero_grad()
    loss = F.cross_entropy(compiled(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss
@cstorch.step_closure
def show(loss):
    print(loss.item())
@cstorch.checkpoint_closure
def save(number):
    cstorch.save({{"model": model.state_dict()}}, f"{{number}}.mdl")
loader = cstorch.utils.data.DataLoader(input_fn)
for number, batch in enumerate(cstorch.utils.data.DataExecutor(loader, num_steps=4, checkpoint_steps=4), 1):
    show(step(batch))
    save(number)
print(sum(p.abs().sum().item() for p in cstorch.load("4.mdl")["model"].values()))
"""


@pytest.mark.process
@pytest.mark.parametrize("backend, workers", [("CPU", 0), ("CSX", 1)])
def test_a_run_without_threads_gives_the_same_numbers_and_one_warning(backend, workers, tmp_path):
    script = PREAMBLE + TRAINING.format(backend=backend, workers=workers)
    printed = []
    for name, before in (("free", ""), ("limited", LIMIT.format(count=0))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "script.py").write_text(before + script)
        options = ("-W", "default::RuntimeWarning", "-m", "cstorch_compat", "run", "script.py")
        done = python(*options, cwd=tmp_path / name)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.splitlines()[:5])
        warnings = [line for line in done.stderr.splitlines() if "cannot start more threads" in line]
        assert len(warnings) <= (name == "limited") + workers
    assert warnings, done.stderr
    assert printed[0] == printed[1]


def test_all_jobs_run_with_few_threads(few_threads):
    jobs = [lambda k=k: k * k for k in range(10)]
    assert run_all(jobs, 4) == [k * k for k in range(10)]


def test_an_error_of_a_job_is_raised_when_all_are_over(few_threads):
    over: list[int] = []

    def job(k: int) -> None:
        if k == 1:
            raise LookupError("one")
        over.append(k)

    with pytest.raises(LookupError, match="one"):
        run_all([lambda k=k: job(k) for k in range(5)], 3)
    assert sorted(over) == [0, 2, 3, 4]


def test_checkpoint_is_written_with_few_threads(few_threads, tmp_path):
    state = {f"w{k}": np.random.default_rng(k).random((1000, 1000)) for k in range(6)}
    checkpoint.save(state, str(tmp_path / "state.mdl"))
    found = checkpoint.load(str(tmp_path / "state.mdl"))
    assert all(np.array_equal(np.asarray(found[name]), array) for name, array in state.items())
