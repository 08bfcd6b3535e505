"""Plain PyTorch scripts: the step is found and examined, and the check says where the Cerebras API goes."""

import pytest

pytestmark = pytest.mark.process

PLAIN = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters())
data = [(torch.ones(4, 6) * i, torch.arange(4) % 3) for i in range(5)]
loader = torch.utils.data.DataLoader([(x[0], y[0]) for x, y in data], batch_size={rows})
for epoch in range(100):
    for x, y in loader:
        optimizer.zero_grad()
        out = model(x)
        {step}
        loss = nn.functional.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        print(loss.item())
"""


def script(step: str = "pass", rows: int = 5) -> str:
    return PLAIN.replace("{step}", step).replace("{rows}", str(rows))


def line_of(text: str, part: str) -> int:
    return next(i for i, line in enumerate(text.splitlines(), 1) if part in line)


def test_port_is_described_at_its_lines(checked):
    text = script()
    answer = checked(text)
    assert (answer["exit"], answer["crash"]) == (0, None)
    assert {f["id"] for f in answer["findings"]} == {"LW502"}
    lines = {f["line"]: f["way_out"] for f in answer["findings"]}
    assert "DataLoader(input_fn)" in lines[line_of(text, "loader =")]
    assert "cstorch.optim.Adam" in lines[line_of(text, "optimizer.step()")]
    assert "step_closure" in lines[line_of(text, "loss.item()")]
    assert f"lines {line_of(text, 'model(x)')} to {line_of(text, 'optimizer.step()')}" in str(answer["findings"])
    assert answer["verdict"].startswith("PORTABLE")


def test_backward_is_part_of_what_is_examined(checked):
    with_gradient = checked(script())["covered"]["operations"]
    assert with_gradient > checked(script().replace("loss.backward()", "pass"))["covered"]["operations"] + 5


@pytest.mark.parametrize(
    ("step", "rule"),
    [
        ("best = out.max().item()", "LW101"),
        ("chosen = out[out > 0]", "LW105"),
        ("hot = nn.functional.one_hot(y, 3)", "LW107"),
        ("out = torch.lerp(out, out, 0.5)", "LW202"),
        ("part = out[1:]", "LW307"),
        ("host = out.cpu()", "LW104"),
    ],
)
def test_faults_inside_the_step_are_found(checked, step, rule):
    text = script(step)
    found = {(f["id"], f["line"]) for f in checked(text)["findings"]}
    assert (rule, line_of(text, step)) in found


GAN = """
import torch
from torch import nn
maker, judge, loss_fn = nn.Linear(4, 6), nn.Linear(6, 1), nn.BCEWithLogitsLoss()
first, second = torch.optim.Adam(judge.parameters()), torch.optim.SGD(maker.parameters(), lr=0.1)
for i in range(10):
    fake = maker(torch.randn(8, 4))
    loss = loss_fn(judge(torch.randn(8, 6)), torch.ones(8, 1)) + loss_fn(judge(fake.detach()), torch.zeros(8, 1))
    loss.backward()
    first.step()
    print(loss.item())
    other = loss_fn(judge(fake), torch.ones(8, 1))
    weight = other.item()  # in the second step
    other.backward()
    second.step()
"""


def test_both_steps_of_a_loop_with_two_optimizers_are_seen(checked):
    found = {(f["id"], f["source_line"]): f["way_out"] for f in checked(GAN)["findings"]}
    assert ("LW101", "weight = other.item()  # in the second step") in found
    assert "closure" in found["LW502", "print(loss.item())"]
    assert ("LW502", "first.step()") in found and ("LW502", "second.step()") in found


SCALED = """
import torch
from torch import nn
from torch.cuda.amp import GradScaler, autocast
model, scaler = nn.Linear(4, 2), GradScaler()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(4):
    with autocast():
        loss = model(torch.ones(8, 4)).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
"""


def test_scaling_of_losses_is_followed(checked):
    answer = checked(SCALED)
    assert {f["id"] for f in answer["findings"]} == {"LW502"}
    assert (answer["exit"], answer["crash"]) == (0, None)


def test_what_is_missing_is_stood_in_for(checked):
    answer = checked(SCALED.replace("torch.cuda.amp", "torch.utils.hipifi"))
    assert {f["id"] for f in answer["findings"]} == {"LW501", "LW502"}
    assert (answer["exit"], answer["crash"]) == (0, None)


def test_asking_for_a_name_is_no_use_of_it(checked):
    text = "import torch\nprint(hasattr(torch, 'lobpcg'), getattr(torch, 'lobpcg', None))\ntorch.lobpcg\n"
    assert [(f["id"], f["line"]) for f in checked(text)["findings"]] == [("LW501", 3)]


def test_data_that_the_loop_prepares_is_not_part_of_the_step(checked):
    text = script("i = torch.randint(20, (4,))\n        ahead = [torch.arange(40)[k : k + 2] for k in i]")
    assert {f["id"] for f in checked(text)["findings"]} == {"LW502"}


def test_uneven_batches_are_found(checked):
    assert "LW404" in {f["id"] for f in checked(script(rows=2))["findings"]}


def test_script_without_a_step_says_so(checked):
    answer = checked("import torch\nprint(torch.ones(3).sum().item())\n")
    assert answer["verdict"].startswith("NOTHING CHECKED")
    assert answer["findings"] == []
    assert answer["status"] == 2


def test_script_that_is_no_python_crashes_by_itself(checked):
    answer = checked("import torch\nfor in range(3)\n")
    assert answer["exit"] == 2
    assert "SyntaxError" in answer["crash"]


def test_mistake_of_the_script_is_no_finding(checked):
    answer = checked(script("out = out @ out"))
    assert answer["exit"] == 2
    assert "out @ out" in answer["crash"]


PREPARED = """
import torch
from torch import nn

def batches():
    while True:
        x = torch.lerp(torch.rand(8, 6), torch.normal(0.0, 1.0, (8, 6)), 0.5)
        x[torch.randperm(8)[:2]] = 0.0
        hot = nn.functional.one_hot(torch.randint(0, 3, (8,)), 3)
        yield x, hot.argmax(1) * (x.median(dim=1).values > 0)

model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = batches()
for step in range(10):
    optimizer.zero_grad()
    for part in range({parts}):
        x, y = next(data)
        nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""


@pytest.mark.parametrize("parts", [1, 3])
def test_batches_of_a_generator_are_not_part_of_the_step(checked, parts):
    answer = checked(PREPARED.replace("{parts}", str(parts)))
    assert {f["id"] for f in answer["findings"]} == {"LW502"}, answer
    assert (answer["exit"], answer["crash"]) == (0, None)
    assert answer["covered"]["operations"] > 10 * parts


def test_second_batch_of_a_step_is_checked_as_the_first(checked):
    text = PREPARED.replace("{parts}", "2").replace("model(x), y)", "torch.lerp(model(x), model(x), float(part)), y)")
    answer = checked(text)
    assert [f["line"] for f in answer["findings"] if f["id"] == "LW202"] == [line_of(text, "float(part)")]


@pytest.mark.parametrize(
    ("code", "line", "advice"),
    [
        ("decay = torch.optim.lr_scheduler.LambdaLR(optimizer, abs)", "LambdaLR", "override set_value_lambda()"),
        ("decay = torch.optim.lr_scheduler.StepLR(optimizer, 9)", "StepLR", "cstorch.optim.lr_scheduler.StepLR"),
        ("from torch.optim.lr_scheduler import CyclicLR as C\nC(optimizer, 0, 1)", "C(opt", "lr_scheduler.CyclicLR"),
        ("for g in optimizer.param_groups: g['lr'] = 0.1", None, ""),
        ("scaler = torch.amp.GradScaler()", "GradScaler", "Use cstorch.amp.GradScaler"),
        ("nn.DataParallel(model)", "DataParallel", "ClusterConfig"),
        ("save = torch.save\nsave(model.state_dict(), 'a.pt')", "save(model", "@cstorch.checkpoint_closure"),
    ],
)
def test_call_that_the_cerebras_api_replaces_is_noted(checked, code, line, advice):
    text = script().replace("data =", f"{code}\ndata =")
    notes = {f["line"]: f["way_out"] for f in checked(text)["findings"]}
    assert advice in notes[line_of(text, line)] if line else line_of(text, code) not in notes


@pytest.mark.parametrize("code", ["optimizer.param_groups[0].update(lr=epoch)", "decay.step()"])
def test_line_that_sets_the_learning_rate_is_noted(checked, code):
    made = "decay = torch.optim.lr_scheduler.StepLR(optimizer, 9)\ndata ="
    text = script().replace("print(loss.item())", code).replace("data =", made)
    notes = {f["line"]: f["way_out"] for f in checked(text)["findings"]}
    assert "a tensor of the global step" in notes[line_of(text, code)]


def test_save_after_the_loop_of_a_plain_script_is_noted(checked):
    text = script() + "torch.save(model.state_dict(), 'model.pt')\n"
    assert "cstorch.save" in {f["line"]: f["way_out"] for f in checked(text)["findings"]}[line_of(text, "torch.save")]


CALLED = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 3)

    def forward(self, x):
        h = self.fc(x)
        return torch.lerp(h, h, 0.5)

model = Net(){mode}
with {grad}():
    out = model(torch.ones(4, 6))
print(out.sum().item())
"""


@pytest.mark.parametrize("mode", ["", ".eval()"])
@pytest.mark.parametrize("grad", ["torch.no_grad", "torch.enable_grad"])
def test_a_call_of_a_model_without_a_loss_is_examined(checked, mode, grad):
    text = CALLED.replace("{mode}", mode).replace("{grad}", grad)
    answer = checked(text)
    assert ("LW202", line_of(text, "torch.lerp")) in {(f["id"], f["line"]) for f in answer["findings"]}
    assert [p["line"] for p in answer["covered"]["loops"]] == [line_of(text, "out = model")]
    assert answer["covered"]["operations"] > 1 and answer["crash"] is None


def test_evaluation_before_training_is_not_the_step(checked):
    text = script().replace("for epoch", "model.eval(); model(torch.ones(4, 6)); model.train()\nfor epoch")
    assert [p["line"] for p in checked(text)["covered"]["loops"]] == [line_of(text, "out = model(x)")]
