"""Steps that overflow: what is held back with them, on both backends."""

import math

import pytest

import lazytensor as lt
from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.run import process
from lazytensor import nn

cstorch = get_mirror("cerebras.pytorch")
amp = get_mirror("cerebras.pytorch.amp")
optim = get_mirror("cerebras.pytorch.optim")


BAD = (2, 3)
"""Steps whose batch overflows."""
CLEAN = [i not in BAD for i in range(6)]


@pytest.fixture(autouse=True, params=["CPU", "CSX"])
def backend(request, monkeypatch, tmp_path):
    monkeypatch.setattr(process.RUN, "backend", None)
    return cstorch.backend(request.param, artifact_dir=tmp_path)


def loop(step, read):
    """Run a step on six batches, two of which overflow, and give what `read` sees after each."""
    seen = []
    batches = [(lt.full((2, 3), math.inf if i in BAD else 1.0),) for i in range(6)]
    traced = cstorch.trace(step)
    for batch in cstorch.utils.data.DataExecutor(cstorch.utils.data.DataLoader(lambda: batches), 6):
        traced(batch)
        cstorch.step_closure(lambda *t: seen.append([float(x) for x in t]))(*read())
    return seen


def schedules(optimizer):
    def linear():
        return optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, 10)

    return {
        "linear": linear,
        "sequential": lambda: optim.lr_scheduler.SequentialLR(optimizer, [linear(), linear()], [2]),
        "chained": lambda: optim.lr_scheduler.ChainedScheduler([linear(), linear()]),
    }


@pytest.mark.slow
@pytest.mark.parametrize("is_first", [True, False], ids=["schedule first", "scaler first"])
@pytest.mark.parametrize("name", ["linear", "sequential", "chained"])
def test_a_skipped_step_holds_the_schedule_back(name, is_first):
    model = nn.Linear(3, 1)
    compiled, optimizer = cstorch.compile(model), optim.SGD(model.parameters(), lr=1.0)
    schedule, scaler = schedules(optimizer)[name](), amp.GradScaler("dynamic", init_scale=8.0)

    def step(batch):
        if is_first:
            schedule.step()
        amp.optimizer_step(compiled(batch[0]).sum(), optimizer, scaler)
        if not is_first:
            schedule.step()

    counters = [s.last_epoch for s in (schedule, *(part for _, part in schedule.parts()))]
    seen = loop(step, lambda: counters)
    assert [row[0] for row in seen] == [sum(CLEAN[: i + 1]) for i in range(6)]
    parts = [[row[i] for row in seen] for i in range(1, len(counters))]
    expected = {
        "linear": [],
        "chained": [[1, 2, 2, 2, 3, 4]] * 2,
        "sequential": [[1, 2, 2, 2, 3, 4], [0, 0, 0, 0, 1, 2]],
    }
    assert parts == expected[name]


@pytest.mark.parametrize("scale", ["dynamic", 128.0])
def test_update_if_finite_holds_back_what_changes_after_it(scale):
    model = nn.Linear(3, 1)
    model.register_buffer("early", lt.tensor(0.0))
    model.register_buffer("late", lt.tensor(0.0))
    compiled, optimizer = cstorch.compile(model), optim.SGD(model.parameters(), lr=0.1)
    scaler = amp.GradScaler(scale, init_scale=8.0)

    def step(batch):
        amp.update_if_finite(optimizer, model.early)
        model.early.add_(1)
        model.late.add_(1)
        amp.update_if_finite(optimizer, model.late)
        amp.optimizer_step(compiled(batch[0]).sum(), optimizer, scaler)

    early, late = zip(*loop(step, lambda: (model.early, model.late)), strict=True)
    assert late == (1, 2, 3, 4, 5, 6)
    assert early == ((1, 2, 2, 2, 3, 4) if scale == "dynamic" else late)


@pytest.mark.parametrize("backend", ["CPU"], indirect=True)  # on CSX every step is the same
def test_an_overflow_holds_back_its_own_step_alone():
    model = nn.Linear(3, 1)
    compiled, optimizer = cstorch.compile(model), optim.SGD(model.parameters(), lr=1.0)
    schedule, scaler = optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, 10), amp.GradScaler("dynamic", init_scale=8.0)
    failed: list[bool] = []

    def step(batch):
        schedule.step()
        if math.isinf(batch[0][0, 0].item()) and not failed:
            failed.append(True)
            amp.optimizer_step(compiled(batch[0]).sum(), optimizer, scaler)

    assert [row[0] for row in loop(step, lambda: [schedule.last_epoch])] == [1, 2, 2, 3, 4, 5]
