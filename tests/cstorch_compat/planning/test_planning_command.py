"""`lazywafer plan`: a script's step recorded from types alone, and a row for each combination that is asked for."""

import json
import shutil
import tracemalloc
from dataclasses import replace

import pytest

import lazytensor as lt
from cstorch_compat.planning.combinations import PlanRequest, explain_rows, format_rows, plan_rows
from cstorch_compat.planning.loading import first_batches
from cstorch_compat.planning.recording import record_script
from lazytensor.data import DataLoader
from tests.conftest import PREAMBLE, ROOT, lazywafer

PLAIN = """
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
data = TensorDataset(torch.randn(80, 1, 4, 4), torch.randint(0, 3, (80,)))
optimizer = torch.optim.Adam(model.parameters())

def test():
    model.eval()
    with torch.no_grad():
        print("right", sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(data, 16)))
    model.train()

test()
for epoch in range(2):
    for x, y in DataLoader(data, batch_size=8, shuffle=True):
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
        machine = () if "--machine" in options else ("--machine", "tiny")
        return lazywafer("plan", *machine, *options, "script.py", cwd=tmp_path)

    return run


@pytest.mark.slow
@pytest.mark.parametrize("text, own, machines", [(PLAIN, 8, ["tiny"]), (TRACED, 4, ["tiny", "wse2"])])
def test_table_has_a_row_for_each_combination(plan, text, own, machines):
    outcome = plan(text, "--batch", f"{own},{3 * own}", "--machine", ",".join(machines), "--mode", "all")
    assert outcome.returncode == 0, outcome.stderr
    head, *rows = outcome.stdout.partition("\n\n")[0].splitlines()
    assert head.split()[:3] == ["batch", "machine", "systems"]
    assert [r.split()[:4] for r in rows] == [
        [str(size), machine, "1", mode]
        for size in (own, 3 * own)
        for machine in machines
        for mode in ("pipelined", "streaming")
    ]
    assert "loss" not in outcome.stdout


KINDS = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}


def faults(value, rule, root, path="$"):
    """Where a value leaves a schema, as far as plan.schema.json goes."""
    rule = root["$defs"][rule["$ref"].rpartition("/")[2]] if "$ref" in rule else rule
    if "const" in rule or "enum" in rule:
        return [] if value in rule.get("enum", [rule.get("const")]) else [f"{path} is {value!r}"]
    is_number = rule["type"] in ("integer", "number")
    if not isinstance(value, KINDS[rule["type"]]) or (is_number and isinstance(value, bool)):
        return [f"{path} is no {rule['type']}"]
    if rule["type"] == "array":
        return [f for i, v in enumerate(value) for f in faults(v, rule["items"], root, f"{path}[{i}]")]
    if rule["type"] != "object":
        return []
    strange = [f"{path}.{key} is unknown" for key in value if key not in rule["properties"]]
    missing = [f"{path}.{key} is missing" for key in rule["required"] if key not in value]
    inside = (faults(v, rule["properties"][k], root, f"{path}.{k}") for k, v in value.items() if k not in strange)
    return [*strange, *missing, *(f for each in inside for f in each)]


@pytest.mark.slow
def test_document_keeps_its_schema(plan):
    schema = json.loads((ROOT / "cstorch_compat" / "planning" / "plan.schema.json").read_text())
    document = json.loads(plan(PLAIN, "--json", "--systems", "1,2", "--mode", "all").stdout)
    assert faults(document, schema, schema) == []
    assert schema["$defs"]["row"]["required"] == list(schema["$defs"]["row"]["properties"])
    assert document["batch_size"] == 8
    assert [row["systems"] for row in document["rows"]] == [1, 1, 2, 2]
    assert all(row["samples_per_s"] > 0 for row in document["rows"] if row["fits"])
    document["rows"][0]["mode"] = document["version"] = 4
    assert faults(document, schema, schema) == ["$.version is 4", "$.rows[0].mode is 4"]
    (route, *_) = next(row["routes"] for row in document["rows"] if row["routes"])
    assert route["link_bytes"] * route["lanes"] >= route["sample_bytes"]
    # Two routes over one another, and kernels beneath them.
    assert all(2 < row["router_colours"] <= 24 for row in document["rows"] if row["routes"])


def test_rates_differ_by_input_workers_in_a_column_of_their_own(plan):
    # Samples of 256 kB: five workers limit a wafer, and 2,000 do not.
    wide = PLAIN.replace("randn(80, 1, 4, 4)", "randn(80, 1, 256, 256)").replace("Linear(16,", "Linear(65536,")
    options = ("--machine", "wse2", "--systems", "1,2", "--mode", "streaming")
    outcome = plan(wide, "--workers", "1,5,2000", *options)
    assert outcome.returncode == 0, outcome.stderr
    head, *rows = (line.split() for line in outcome.stdout.partition("\n\n")[0].splitlines())
    assert head[:6] == ["batch", "machine", "systems", "workers", "mode", "samples/s"]
    assert [row[2:4] for row in rows] == [[count, n] for count in "12" for n in ("1", "5", "2,000")]
    rates = [float(row[5].replace(",", "")) for row in rows]
    assert rates[0] < rates[1] < rates[2] and rates[3] < rates[4] < rates[5]
    assert [row[-1] for row in rows[:2]] == ["input", "input"]


def test_document_has_the_input_workers_of_each_row(plan):
    numbers = [
        [row["workers"] for row in json.loads(plan(PLAIN, *options, "--json").stdout)["rows"]]
        for options in ((), ("--workers", "20"), ("--workers", "3,1,3"))
    ]
    assert numbers == [[5], [20], [3, 1]]


@pytest.mark.slow
def test_what_if_prints_a_line_for_each_resource_and_names_the_largest(plan):
    schema = json.loads((ROOT / "cstorch_compat" / "planning" / "plan.schema.json").read_text())
    options = ("--what-if", "--mode", "streaming", "--machine", "CS-2")
    document = json.loads(plan(PLAIN, *options, "--json").stdout)
    assert faults(document, schema, schema) == []
    (row,) = document["rows"]
    assert sum(one["share"] for one in row["resources"]) == pytest.approx(1)
    shown = plan(PLAIN, *options).stdout
    table = shown.partition("with one resource twice as fast:")[2]
    for one in row["resources"]:
        (line,) = (line for line in table.splitlines() if line.startswith(one["resource"]))
        assert float(line.rpartition("+")[2].removesuffix("%")) == pytest.approx(100 * (one["gain"] - 1), rel=0.01)
    largest = max(row["resources"], key=lambda one: one["share"])["resource"]
    assert f"  {largest}, " in shown.partition("\n\n")[0]


@pytest.mark.parametrize("labels", ["torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])", "labels"])
def test_labels_that_are_written_as_a_list_are_named_for_another_batch(plan, labels):
    text = f"""
import torch, torch.nn as nn, torch.nn.functional as F
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
labels = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
x = torch.randn(8, 4)
for epoch in range(3):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), {labels})
    loss.backward()
    optimizer.step()
"""
    assert plan(text, "--batch", "8").returncode == 0
    outcome = plan(text, "--batch", "8,16")
    assert outcome.returncode == 1
    assert "script.py:9: the script's step has 8 samples; with 16 its shapes do not fit" in outcome.stderr
    assert "the labels int64[8]" in outcome.stderr
    assert "such as labels in a list" in outcome.stderr and "or omit --batch" in outcome.stderr


def test_a_plan_has_at_least_one_input_worker(plan):
    outcome = plan(PLAIN, "--workers", "5,0")
    assert outcome.returncode == 2
    assert "--workers takes a whole number from 1 to 1,000,000" in outcome.stderr


def test_sentences_and_progress_give_the_input_workers(tmp_path):
    (tmp_path / "script.py").write_text(PLAIN)
    wanted = PlanRequest(machines=("tiny",), workers=(1, 5), mode="streaming")
    rows = plan_rows(record_script(str(tmp_path / "script.py")), wanted)
    # Rows with one and the same verdict share a sentence.
    rows[1] = replace(rows[1], verdict="Limited by something else.")
    names = [f"batch 8 on 1 tiny, {workers}, streaming" for workers in ("1 worker", "5 workers")]
    _, *sentences, band = format_rows(rows, has_workers=True).split("\n\n")
    assert [sentence.partition(":")[0] for sentence in sentences] == names
    assert band.startswith("Error band:")
    assert [name.replace("the script's", "1") for name in wanted.named(8)] == names


def test_value_of_the_step_is_refused_with_its_line(plan):
    text = PLAIN.replace("loss.backward()", "loss.item(); loss.backward()")
    outcome = plan(text)
    assert outcome.returncode == 1
    line = 1 + next(i for i, line in enumerate(text.splitlines()) if "loss.item();" in line)
    assert f"script.py:{line}: .item() needs the value" in outcome.stderr
    assert "after optimizer.step()" in outcome.stderr


@pytest.mark.slow
def test_script_that_trains_nothing_is_planned_by_the_call_of_its_model(plan):
    body = PLAIN.partition("for epoch")[0].replace("optimizer = torch.optim.Adam(model.parameters())\n", "")
    outcome = plan(body, "--json")
    assert json.loads(outcome.stdout)["batch_size"] == 16


def test_update_by_hand_ends_the_step(plan):
    by_hand = "with torch.no_grad():\n            for p in model.parameters(): p -= 0.1 * p.grad"
    text = PLAIN.replace("optimizer.step()", by_hand).replace("optimizer.zero_grad()", "model.zero_grad()")
    outcome = plan(text.replace("optimizer = torch.optim.Adam(model.parameters())\n", ""), "--json")
    assert outcome.returncode == 0, outcome.stderr
    assert json.loads(outcome.stdout)["batch_size"] == 8


def test_script_without_a_step_says_so(plan):
    outcome = plan("print(1)")
    assert outcome.returncode == 1
    assert "without a call of a model" in outcome.stderr


@pytest.mark.slow
def test_large_model_costs_no_memory():
    tracemalloc.start()
    family = record_script(str(ROOT / "notebooks/scripts/published/gptj.py"), ["--layers", "1"])
    program = family.program()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(b.type.nbytes for b in program.buffers if b.kind == "state") > 4e9
    assert peak < 60e6


def test_run_of_a_plain_script_reports_its_step(script, tmp_path):
    done = script(
        """
        model = nn.Linear(6, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            loss = F.cross_entropy(model(torch.eye(4, 6)), torch.arange(4) % 3)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print("loss", loss.item())
        """,
        options=("--report", "report.json", "--machine", "tiny"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("loss") == 3
    (report,) = json.loads((tmp_path / "report.json").read_text())
    assert (report["machine"], report["batch_size"]) == ("tiny", 4)


def test_run_without_a_step_says_that_there_is_nothing_to_report(script, tmp_path):
    done = script("print(1)", options=("--report", "report.json"))
    assert done.returncode == 1
    assert "no step can be reported" in done.stderr
    assert not (tmp_path / "report.json").exists()


class Samples:
    def __init__(self):
        self.asked = []

    def __getitem__(self, index):
        self.asked.append(index)
        return lt.ones(3), index

    def __len__(self):
        return 1000


def test_batch_is_known_by_one_sample_and_no_process():
    data = Samples()
    loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=2)
    x, y = next(iter(first_batches(loader, DataLoader.__iter__)))
    assert (x.shape, y.shape, len(data.asked)) == ((8, 3), (8,), 1)
    padded = DataLoader(data, batch_size=8, collate_fn=len)
    assert next(iter(first_batches(padded, DataLoader.__iter__))) == 8
    assert len(data.asked) == 9


def test_few_rows_are_told_in_sentences(tmp_path):
    (tmp_path / "script.py").write_text(PLAIN)
    rows = plan_rows(record_script(str(tmp_path / "script.py")), PlanRequest(machines=("tiny",), mode="streaming"))
    _, sentence, band = format_rows(rows).split("\n\n")
    assert sentence.startswith("batch 8 on 1 tiny, streaming: ")
    assert "Limited by" in sentence
    assert band.count("Error band:") == 1
    many = format_rows(5 * rows)
    assert "Limited by" not in many
    assert many.count("Error band:") == 1


def test_several_error_bands_name_their_rows(tmp_path):
    (tmp_path / "script.py").write_text(PLAIN)
    (row,) = plan_rows(record_script(str(tmp_path / "script.py")), PlanRequest(machines=("tiny",), mode="streaming"))
    kinds = [
        ("wse2", "pipelined", "A"),
        ("wse3", "pipelined", "A"),
        ("wse2", "streaming", "B"),
        ("wse2", "pipelined", "A"),
    ]
    rows = [replace(row, machine=m, mode=k, error_band=f"Error band: {band}.") for m, k, band in kinds]
    *_, first, second = explain_rows(rows)
    assert first == "Error band of pipelined on wse2 and wse3: A."
    assert second == "Error band of streaming on wse2: B."


def test_slower_wse3_is_explained_in_one_sentence(tmp_path):
    (tmp_path / "script.py").write_text(PLAIN)
    family = record_script(str(tmp_path / "script.py"))
    rows = plan_rows(family, PlanRequest(machines=("wse2", "wse3"), mode="streaming"))
    slow = [replace(rows[0], samples_per_s=2.0), replace(rows[1], samples_per_s=1.0)]
    fast = [replace(rows[0], samples_per_s=1.0), replace(rows[1], samples_per_s=2.0)]
    assert format_rows(slow).count("wse3 is slower than wse2") == 1
    assert "wse3 is slower" not in format_rows(fast)
    # Machines with different numbers of workers are not compared.
    assert "wse3 is slower" not in format_rows([slow[0], replace(slow[1], workers=1)])


@pytest.mark.parametrize("name", ["CS-2", "cs2", "WSE-2", "wse_2", "wse2"])
def test_machine_has_the_name_of_its_system_too(name, tmp_path):
    (tmp_path / "script.py").write_text(PLAIN)
    done = lazywafer("plan", "--machine", name, "--mode", "streaming", "script.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].split()[1] == "wse2"


POLICY = """
import torch
from torch import nn
from torch.distributions import Categorical

net = nn.Linear(4, 3)
optimizer = torch.optim.Adam(net.parameters())
states = torch.rand(8, 4)
with torch.no_grad():
    actions = torch.multinomial(Categorical(logits=net(states)).probs, 1).squeeze(1)
chosen = Categorical(logits=net(states)).log_prob(actions)
loss = -chosen.mean()
loss.backward()
optimizer.step()
"""


@pytest.mark.slow
def test_distributions_of_a_plan_are_checked_in_its_step_alone(plan):
    """Before the step a plan has no values, and draws all the same; in it nobody has any, as on the system."""
    outcome = plan(POLICY)
    line = 1 + next(i for i, line in enumerate(POLICY.splitlines()) if line.startswith("chosen"))
    assert outcome.returncode == 1
    assert f"script.py:{line}: .item() needs the value" in outcome.stderr
    assert "Create the distribution with validate_args=False" in outcome.stderr
    text = POLICY.replace("chosen = Categorical(logits=net(states))", "chosen = Categorical(None, net(states), False)")
    assert json.loads(plan(text, "--json").stdout)["batch_size"] == 8


def test_gradient_by_what_leads_to_the_model_says_where_a_plan_begins(plan):
    text = """
import torch

net = torch.nn.Linear(2, 1)
x = torch.rand(8, 1, requires_grad=True)
y = net(torch.cat([x, x], 1))
torch.autograd.grad(y.sum(), x, create_graph=True)
"""
    outcome = plan(text)
    assert outcome.returncode == 1
    assert "script.py:7: One of the differentiated Tensors" in outcome.stderr
    assert "A plan begins at the call of the model" in outcome.stderr


@pytest.mark.slow
def test_value_that_is_only_printed_may_be_zero(plan):
    text = PLAIN.replace("loss.backward()", "print(loss.item()); loss.backward()")
    assert plan(text, "--zeros", "--output").stderr.splitlines()[1:2] == ["0.0"]


GENERATIONS = {"1.6": "cbtorch_1_6.py", "1.8": "experimental_1_8.py", "1.9": "experimental_1_9.py"}


@pytest.mark.slow
@pytest.mark.parametrize("api", GENERATIONS)
def test_script_of_an_older_release_is_planned_for_any_batch(api, tmp_path):
    for name in (GENERATIONS[api], "data.py"):
        shutil.copy(ROOT / "tests" / "scripts" / "releases" / name, tmp_path)
    options = ("--machine", "tiny", "--mode", "streaming", "--batch", "8,25", "--json")
    done = lazywafer("plan", "--api", api, *options, GENERATIONS[api], "train", "8", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [row["batch_size"] for row in json.loads(done.stdout)["rows"]] == [8, 25]


@pytest.mark.parametrize("command", ["plan", "check"])
def test_what_a_script_says_of_its_arguments_is_told(tmp_path, command):
    (tmp_path / "train.py").write_text("import argparse\nargparse.ArgumentParser().parse_args()\n" + PLAIN)
    done = lazywafer(command, "train.py", "--mode", "pipelined", cwd=tmp_path)
    assert done.returncode
    said = done.stdout + done.stderr
    assert "the script exited with 2" in said
    assert "unrecognized arguments: --mode pipelined" in said
    if command == "plan":
        assert "Put the options of lazywafer before the script" in said
