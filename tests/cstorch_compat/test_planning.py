"""`lazywafer plan`: a script's step recorded from types alone, and a row for each combination that is asked for."""

import json
import tracemalloc

import pytest

from cstorch_compat.planning.recording import record_script
from tests.conftest import PREAMBLE, ROOT, lazywafer

PLAIN = """
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 10))
data = TensorDataset(torch.randn(640, 1, 28, 28), torch.randint(0, 10, (640,)))
optimizer = torch.optim.Adam(model.parameters())

def test():
    model.eval()
    with torch.no_grad():
        print("right", sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(data, 320)))
    model.train()

test()
for epoch in range(2):
    for x, y in DataLoader(data, batch_size=64, shuffle=True):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print("loss", loss.item())
"""
TRACED = (
    PREAMBLE
    + """
backend = cstorch.backend("CSX")
with backend.device:
    model = MLP()
compiled = cstorch.compile(model, backend)
optimizer = cstorch.optim.AdamW(model.parameters(), lr=0.1)

@cstorch.trace
def step(batch):
    x, y = batch
    loss = F.cross_entropy(compiled(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss

@cstorch.step_closure
def show(loss):
    print("loss", loss.item())

for batch in cstorch.utils.data.DataExecutor(loader(), num_steps=3):
    show(step(batch))
"""
)


@pytest.fixture
def plan(tmp_path):
    def run(text, *options):
        (tmp_path / "script.py").write_text(text)
        return lazywafer("plan", *options, "script.py", cwd=tmp_path)

    return run


@pytest.mark.slow
@pytest.mark.parametrize("text, own, machines", [(PLAIN, 64, ["tiny"]), (TRACED, 4, ["wse2", "wse3"])])
def test_table_has_a_row_for_each_combination(plan, text, own, machines):
    outcome = plan(text, "--batch", f"{own},{3 * own}", "--machine", ",".join(machines), "--mode", "all")
    assert outcome.returncode == 0, outcome.stderr
    head, *rows = outcome.stdout.splitlines()
    assert head.split()[:3] == ["batch", "machine", "mode"]
    assert [r.split()[:3] for r in rows] == [
        [str(size), machine, mode]
        for size in (own, 3 * own)
        for machine in machines
        for mode in ("pipelined", "streaming")
    ]
    assert "loss" not in outcome.stdout


def test_document_says_what_it_is(plan):
    document = json.loads(plan(PLAIN, "--json").stdout)
    assert (document["schema"], document["version"], document["batch_size"]) == ("lazywafer-plan", 1, 64)
    (row,) = document["rows"]
    assert row["fits"] and row["samples_per_s"] > 0


def test_value_of_the_step_is_refused_with_its_line(plan):
    text = PLAIN.replace("loss.backward()", "loss.item(); loss.backward()")
    outcome = plan(text)
    assert outcome.returncode == 1
    line = 1 + next(i for i, line in enumerate(text.splitlines()) if "loss.item();" in line)
    assert f"script.py:{line}: .item() needs the value" in outcome.stderr
    assert "after optimizer.step()" in outcome.stderr


def test_script_that_trains_nothing_is_planned_by_the_call_of_its_model(plan):
    body = PLAIN.partition("for epoch")[0].replace("optimizer = torch.optim.Adam(model.parameters())\n", "")
    outcome = plan(body, "--json")
    assert json.loads(outcome.stdout)["batch_size"] == 320


def test_script_without_a_step_says_so(plan):
    outcome = plan("print(1)")
    assert outcome.returncode == 1
    assert "called no model" in outcome.stderr


@pytest.mark.slow
def test_large_model_costs_no_memory():
    tracemalloc.start()
    family = record_script(str(ROOT / "notebooks/scripts/published/gptj.py"), ["--layers", "1"])
    program = family.program()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(b.type.nbytes for b in program.buffers if b.kind == "state") > 4e9
    assert peak < 60e6
