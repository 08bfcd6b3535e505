"""Rates as scripts read them: of every schedule, at every place of a loop, on both backends."""

import json
import pathlib
import tempfile

import numpy as np
import pytest

from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.run import process
from cstorch_compat.summaries.summary import SummaryReader
from tests.golden import record_cstorch_rates as recorder

pytestmark = pytest.mark.slow

torch, cstorch = get_mirror("torch"), get_mirror("cerebras.pytorch")
ANSWERS = json.loads((pathlib.Path(recorder.__file__).with_name("cstorch_rates.json")).read_text())
FETCHED = ("argument", "closure", "state dict", "end")
"""Places that have values on CSX: closures, and what comes after the loop."""
TRACED = ("made", "loop", "trace")
"""Places that the release shows on CSX without a cluster."""


def watched(kind: str, specs: dict, use: str = "") -> recorder.Watched:
    """What a loop on a backend shows of schedules."""
    before, process.RUN.backend = process.RUN.backend, None
    try:
        process.make_backend(kind, tempfile.mkdtemp())
        return recorder.watch(cstorch, torch, specs, use)
    finally:
        process.RUN.backend = before


@pytest.fixture(scope="module")
def on_cpu() -> recorder.Watched:
    return watched("CPU", recorder.SCHEDULES)


@pytest.fixture(scope="module")
def on_csx() -> recorder.Watched:
    return watched("CSX", recorder.SCHEDULES)


def names_in(spec: tuple) -> set[str]:
    """The classes that a description of a schedule names."""
    parts = [part for arg in spec[1:] for part in (arg if isinstance(arg, list) else [arg]) if isinstance(part, tuple)]
    return {spec[0]}.union(*map(names_in, parts))


def test_every_schedule_of_both_families_is_recorded():
    tried = set().union(*map(names_in, recorder.SCHEDULES.values()))
    for classes in recorder.families(cstorch).values():
        assert classes.keys() - tried == set()
    assert ANSWERS["rates"].keys() == recorder.SCHEDULES.keys()


def assert_shown(seen: dict, places: tuple[str, ...]) -> None:
    """Every place shows of each schedule what the release shows."""
    for place, ahead in ANSWERS["ahead"].items():
        if not place.startswith(places):
            continue
        # A place that raises for a schedule shows nothing of it.
        assert len(seen[place]) == len(recorder.families(cstorch)) * len(ANSWERS["rates"]), place
        for name, values in seen[place].items():
            wanted = recorder.steps_at(place, ANSWERS["rates"][name.partition("/")[2]], ahead)
            np.testing.assert_allclose(values, wanted, rtol=1e-6, err_msg=f"{place} of {name}")


def test_every_place_on_the_cpu_shows_the_recorded_rates(on_cpu):
    assert_shown(on_cpu.seen, ("",))


def test_closures_on_csx_show_the_rates_of_the_cpu(on_csx):
    assert_shown(on_csx.seen, FETCHED)


def test_places_outside_closures_on_csx_show_numbers_or_tensors_as_recorded(on_csx):
    for place, kind in ANSWERS["kinds"].items():
        if place.startswith(TRACED):
            found = on_csx.kinds[place]
            assert found == dict.fromkeys(found, kind), place


@pytest.mark.parametrize("use", recorder.USES)
def test_every_use_on_the_cpu_shows_the_recorded_rates(use):
    assert_use_shown(watched("CPU", recorder.USED, recorder.USES[use]).seen, use, ("",))


# On CSX the schedule sets the rate in each step, whatever the script has set or not loaded.
OVERRIDDEN = ("with a rate that the script sets", "from a state dict")


@pytest.mark.parametrize("use", sorted(recorder.USES.keys() - {*recorder.REFUSED_ON_CSX, *OVERRIDDEN}))
def test_every_use_on_csx_shows_the_rates_of_the_cpu(use):
    assert_use_shown(watched("CSX", recorder.USED, recorder.USES[use]).seen, use, FETCHED)


@pytest.mark.parametrize("use", recorder.REFUSED_ON_CSX)
def test_what_the_release_refuses_on_csx_is_refused(use):
    with pytest.raises(RuntimeError, match=r'New output detected outside of "@cstorch\.trace"'):
        watched("CSX", recorder.USED, recorder.USES[use])


def test_a_loaded_schedule_sets_the_rate_of_the_first_step_on_csx():
    seen = watched("CSX", recorder.USED, "loaded").seen
    for name, rates in seen["argument after the optimizer.group"].items():
        # The state that was loaded is that after one step.
        wanted = ANSWERS["rates"][name.partition("/")[2]][1:]
        np.testing.assert_allclose(rates[: len(wanted)], wanted, rtol=1e-6)


def assert_use_shown(seen: dict, use: str, places: tuple[str, ...]) -> None:
    for group in ANSWERS["uses"][use]:
        for place in group["places"]:
            if place.startswith(places):
                for name, values in seen[place].items():
                    wanted = group["shown"][name.partition("/")[2]]
                    np.testing.assert_allclose(values, wanted, rtol=1e-6, err_msg=f"{place} of {name}")


@pytest.mark.parametrize("kind", ["CPU", "CSX"])
def test_a_schedule_that_the_script_discards_sets_no_rate(kind, monkeypatch, tmp_path):
    monkeypatch.setattr(process.RUN, "backend", None)
    process.make_backend(kind, tmp_path)
    model = torch.nn.Linear(1, 1)
    compiled, rates = cstorch.compile(model), []
    optimizer = cstorch.optim.SGD(model.parameters(), lr=0.5)
    kept = cstorch.optim.lr_scheduler.LinearLR(optimizer, 0.5, 0.0, 4)
    cstorch.optim.lr_scheduler.ConstantLR(optimizer, 0.75)

    @cstorch.trace
    def train(batch):
        optimizer.zero_grad()
        compiled(batch).sum().backward()
        kept.step()
        optimizer.step()
        return kept.get_last_lr()

    keep = cstorch.step_closure(lambda lr: rates.append((float(lr[0]), float(optimizer.param_groups[0]["lr"]))))
    loader = cstorch.utils.data.DataLoader(lambda: [torch.ones(2, 1)] * 2)
    for batch in cstorch.utils.data.DataExecutor(loader, 2):
        keep(train(batch))
    assert rates == [(0.375, 0.375), (0.25, 0.25)]


@pytest.mark.parametrize("case", ANSWERS["refused"])
def test_schedules_that_cannot_be_made_are_refused_as_recorded(case, monkeypatch, tmp_path):
    monkeypatch.setattr(process.RUN, "backend", None)
    process.make_backend("CPU", tmp_path)
    family, _, name = case.partition("/")
    assert recorder.refusal(cstorch, torch, family, *recorder.REFUSED[name]) == ANSWERS["refused"][case]


BY_SESSION = """
import torch
import cerebras_torch as cbtorch
cbtorch.initialize()
model = cbtorch.module(torch.nn.Linear(4, 2))
loader = cbtorch.dataloader([torch.ones(8, 4)] * 4)
optimizer = cbtorch.optim.SGD(model.parameters(), lr=0.1)
schedule = cbtorch.optim.lr_scheduler.MultiStep(optimizer, learning_rate=0.5, gamma=0.5, milestones=[1, 3])

def log(loss, lr):
    print("rate", float(lr), float(schedule.get_last_lr()[0]), float(optimizer.param_groups[0]["lr"]))

with cbtorch.Session(loader, "train") as session:
    for batch in loader:
        optimizer.zero_grad()
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
        schedule.step()
        session.add_step_closure(log, args=(loss, schedule.get_last_lr()[0]))
"""
BY_CONFIGURATION = """
import sys
import torch
import PACKAGE as cstorch
from WRITER.utils.tensorboard import SummaryWriter
writer = SummaryWriter(log_dir="events")
BACKEND
optimizer = cstorch.optim.configure_optimizer("SGD", model.parameters(), lr=0.1)
schedule = cstorch.optim.configure_lr_scheduler(optimizer, [
    {"scheduler": "Linear", "initial_learning_rate": 0.5, "end_learning_rate": 0.25, "total_iters": 2},
    {"scheduler": "Constant", "learning_rate": 0.125},
])

@TRACE
def step(batch):
    loss = compiled(batch).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    SUMMARY
    return loss, schedule.get_last_lr()[0]

@cstorch.step_closure
def log(step, out, lr):
    print("rate", *map(float, (lr[0], out[1], schedule.get_last_lr()[0], optimizer.param_groups[0]["lr"])))
    SAVE

batches = lambda: [torch.ones(8, 4)] * 4
for i, batch in enumerate(LOOP):
    log(i, step(batch), schedule.get_last_lr())
writer.close()
"""
MODEL = "model = torch.nn.Linear(4, 2); compiled = cstorch.compile(model, backend)"
RELEASE_1_8 = {
    "PACKAGE": "cerebras_pytorch.experimental",
    "WRITER": "torch",
    "BACKEND": f"cstorch.configure(); backend = 'WSE_WS'; {MODEL}",
    "TRACE": "cstorch.compile_step",
    "SUMMARY": "cstorch.scalar_summary('traced', schedule.get_last_lr()[0])",
    "SAVE": "cstorch.save_summaries(writer, step)",
    "LOOP": "cstorch.utils.data.DataLoader(batches, num_steps=4)",
}
RELEASE_1_9 = RELEASE_1_8 | {
    "WRITER": "cerebras_pytorch.experimental",
    "BACKEND": f"backend = cstorch.backend('CSX'); {MODEL}",
    "SUMMARY": "cstorch.summarize_scalar('traced', schedule.get_last_lr()[0])",
    "SAVE": "writer.add_scalar('closure', schedule.get_last_lr()[0], step)",
    "LOOP": "cstorch.utils.data.DataExecutor(cstorch.utils.data.DataLoader(batches), num_steps=4, writer=writer)",
}
RELEASE_2_0 = RELEASE_1_9 | {"TRACE": "cstorch.trace"} | dict.fromkeys(("PACKAGE", "WRITER"), "cerebras_pytorch")
RELEASE_2_3 = RELEASE_2_0 | dict.fromkeys(("PACKAGE", "WRITER"), "cerebras.pytorch")
CONFIGURED = {"1.8": RELEASE_1_8, "1.9": RELEASE_1_9, "2.0": RELEASE_2_0, "2.3": RELEASE_2_3}


def printed_rates(done) -> list[set[float]]:
    assert done.returncode == 0, done.stderr
    return [set(map(float, line.split()[1:])) for line in done.stdout.splitlines() if line.startswith("rate")]


def test_a_session_of_release_1_6_logs_the_rates_of_its_schedule(script):
    done = script(BY_SESSION, options=("--api", "1.6"), preamble="")
    assert printed_rates(done) == [{0.25}, {0.25}, {0.125}, {0.125}]


# Release 1.8 configures the system, and has no backend of the CPU.
@pytest.mark.parametrize(
    ("release", "kind"), [(r, k) for r in CONFIGURED for k in ("CPU", "CSX") if (r, k) != ("1.8", "CPU")]
)
def test_configured_schedules_of_older_releases_log_their_rates(script, tmp_path, release, kind):
    body = BY_CONFIGURATION
    for name, text in CONFIGURED[release].items():
        body = body.replace(name, text.replace("'CSX'", repr(kind)))
    done = script(body, options=("--api", release), preamble="")
    rates = [0.375, 0.125, 0.125, 0.125]
    assert printed_rates(done) == [{rate} for rate in rates]
    logged = SummaryReader(str(tmp_path / "events"))
    for name in ("traced",) if release == "1.8" else ("traced", "closure"):
        assert [event.value for event in logged.read_scalar(name)] == rates
