"""cbtorch, releases 1.2 to 1.8: loops of plain PyTorch in a Session."""

import pytest

PREAMBLE = """
import torch, torch.nn as nn
import cerebras_torch as cbtorch
import cerebras_torch.core.cb_model as cm
from cerebras_torch import amp
from cerebras_torch.core import modes

torch.manual_seed(0)
cbtorch.initialize(cs_ip="10.0.0.1")
model = cbtorch.module(nn.Linear(4, 2))
batches = [(torch.ones(8, 4) * i, torch.arange(8) % 2) for i in range(1, 5)]
loader = cbtorch.dataloader(batches)
optimizer = cbtorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
criterion = nn.CrossEntropyLoss()

def step(batch, factor=1.0):
    optimizer.zero_grad()
    loss = criterion(model(batch[0]), batch[1]) * factor
    loss.backward()
    optimizer.step()
    return loss
"""


@pytest.mark.slow
def test_a_session_takes_its_arguments_in_every_order_and_closures_see_values(script):
    done = script(
        """
        for arguments in ((model, optimizer, criterion, "train"), (loader, "train"), (loader, modes.EVAL)):
            seen = []
            with cbtorch.Session(*arguments[:-1], mode=arguments[-1]) as session:
                for epoch in range(2):
                    for i, batch in enumerate(loader):
                        session.add_step_closure(lambda loss, n: seen.append((n, loss.item())), args=(step(batch), i))
                        seen.append("body")
            print(len(seen), seen[0], seen[1][0], all(isinstance(x, tuple) for x in seen[1::2]))
        """,
        preamble=PREAMBLE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:3] == ["16 body 0 True"] * 3


def test_what_is_fetched_may_differ_from_step_to_step(script):
    done = script(
        """
        seen = []
        @cm.step_closure
        def log(loss):
            seen.append(loss.item())
        with cbtorch.Session(loader, "train"):
            for i, batch in enumerate(loader):
                loss = step(batch)
                if i % 2:
                    log(loss)
        print(len(seen), cm.get_run_step())
        """,
        preamble=PREAMBLE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "2 0"


def test_a_loop_that_is_left_early_runs_its_last_step_if_it_is_marked(script):
    done = script(
        """
        import warnings
        def train(mark):
            before = model.weight.detach().clone()
            with cbtorch.Session(loader, "train") as session:
                for batch in loader:
                    step(batch)
                    if mark:
                        session.mark_step()
                    break
            return bool((model.weight != before).any())
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            print(train(True), len(told), train(False), "mark_step" in str(told[0].message))
        """,
        preamble=PREAMBLE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "True 0 False True"


@pytest.mark.slow
def test_the_step_takes_back_what_the_scaler_did(script):
    done = script(
        """
        def train(scaler):
            with torch.no_grad():
                model.weight.copy_(torch.full((2, 4), 0.1)), model.bias.zero_()
            optimizer = cbtorch.optim.SGD(model.parameters(), lr=0.1)
            with cbtorch.Session(loader, "train"):
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = criterion(model(x), y)
                    (scaler(loss) if scaler else loss).backward()
                    optimizer.step()
            return model.weight.detach().clone()

        plain = train(None)
        for scale in (64.0, "dynamic"):
            print(torch.allclose(plain, train(amp.GradScaler(loss_scale=scale)), rtol=1e-3), len(amp.state_dict()))
        """,
        preamble=PREAMBLE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["True 0", "True 4"]


@pytest.mark.slow
def test_gradients_of_a_closure_are_unscaled(script):
    done = script(
        """
        def step_once(scaler):
            weight = torch.nn.Parameter(torch.ones(3))
            optimizer = cbtorch.optim.SGD([weight], lr=0.1)

            def closure():
                optimizer.zero_grad()
                loss = (weight * weight).sum()
                (scaler(loss) if scaler else loss).backward()
                return loss

            return optimizer.step(closure).item(), weight.detach().tolist()

        print(step_once(None) == step_once(amp.GradScaler(loss_scale=64.0)), step_once(None)[0])
        """,
        preamble=PREAMBLE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "True 3.0"


REFUSED = """
import pathlib

def mode():
    cbtorch.Session(loader, "train_and_eval")
def nothing():
    cbtorch.Session(loader)
def again():
    cbtorch.initialize()
def reading():
    with cbtorch.Session(loader, "train"):
        for b in loader:
            print(step(b))
def leaving():
    with cbtorch.Session(loader, "train"):
        for _ in range(2):
            for b in loader:
                step(b)
                break
def carrying():
    with cbtorch.Session(loader, "train"):
        total = 0
        for b in loader:
            total = total + step(b)
def spelling():
    cbtorch.optim.lr_scheduler.Constnt
def counting():
    with cbtorch.Session(loader, "train"):
        for i, b in enumerate(loader):
            step(b, 1 + i)

lines = pathlib.Path(__file__).read_text().splitlines()
for f in (mode, nothing, again, reading, leaving, carrying, spelling, counting):
    try:
        f()
    except Exception as e:
        reason = e.__cause__ or e
        print(f.__name__, lines[reason.where.line - 1].strip(), "|", reason.what, "|", reason.hint)
"""
WORDS = {
    "mode": ("cbtorch.Session", "Training with Eval on CS is not currently supported."),
    "nothing": ("cbtorch.Session(loader)", 'mode="train"'),
    "again": ("cbtorch.initialize()", "a second time"),
    "reading": ("print(step(b))", "tensors have no values while a step is traced"),
    "leaving": ("for b in loader:", "Call mark_step() before leaving"),
    "carrying": ("total = total + step(b)", "a tensor that was created in one step is used in another step"),
    "spelling": ("cbtorch.optim.lr_scheduler.Constnt", "Did you mean"),
    "counting": ("loss = criterion(model(batch[0]), batch[1]) * factor", "the graph is compiled once"),
}


def test_what_the_system_refuses_is_refused_at_its_line(script):
    done = script(REFUSED, preamble=PREAMBLE)
    assert done.returncode == 0, done.stderr
    told = {line.split()[0]: line.partition(" ")[2] for line in done.stdout.splitlines()[: len(WORDS)]}
    assert told.keys() == WORDS.keys()
    for name, (line, words) in WORDS.items():
        assert told[name].startswith(line) and words in told[name]


def test_schedules_take_their_older_names_and_arguments(script):
    done = script(
        """
        from cerebras_torch.optim import lr_scheduler as lr
        schedules = [
            lr.Constant(optimizer, val=0.5, decay_steps=3),
            lr.Polynomial(optimizer, learning_rate=0.5, end_learning_rate=0.0, decay_steps=2),
            lr.Exponential(optimizer, learning_rate=0.5, decay_steps=1, decay_rate=0.5, disable_lr_steps_reset=True),
            lr.CosineDecay(optimizer, initial_learning_rate=0.5, end_learning_rate=0.0, decay_steps=2),
        ]
        for schedule in schedules:
            schedule.step()
            print(type(schedule).__name__, round(float(schedule.get_last_lr()[0]), 6))
        """,
        preamble=PREAMBLE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:4] == ["Constant 0.5", "Polynomial 0.25", "Exponential 0.25", "CosineDecay 0.25"]


def test_the_optimizer_of_the_model_zoo_is_a_module_that_can_be_called(script):
    done = script(
        """
        import cerebras.models.common.pytorch.optim.AdamW as AdamW
        from cerebras_appliance.run_utils import get_debug_args, update_debug_args_with_autogen_policy
        from cerebras_appliance.pb.workflow.appliance.common.common_config_pb2 import DebugArgs, ExecutionStrategy
        debug = DebugArgs()
        update_debug_args_with_autogen_policy(debug, "medium")
        debug.debug_usr.limits.MergeFrom(get_debug_args("nowhere.yaml"))
        print(type(AdamW(model.parameters(), lr=0.1)).__name__, debug.autogen_policy)
        """,
        preamble=PREAMBLE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "AdamW medium"


COMPILED = """
def run(**options):
    with cbtorch.Session(loader, "train"):
        steps = 0
        for b in loader:
            loss = step(b)
            steps += 1
            if options:
                print(cbtorch.compile(**options))
        return steps
weight = model.weight.detach().clone()
"""


@pytest.mark.parametrize(("option", "is_planned"), [("validate_only=True", False), ("validate_only=False", True)])
def test_compile_in_a_session_compiles_the_step_and_executes_none(script, option, is_planned):
    done = script(COMPILED + f"print(run({option}), bool((model.weight == weight).all()))\n", preamble=PREAMBLE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["True", "1 True"]
    assert ("verdict:" in done.stdout) == is_planned


def test_compile_after_a_session_is_true_and_before_any_step_an_error(script):
    calls = """
try:
    cbtorch.compile(validate_only=True)
except RuntimeError as e:
    print(e)
print(run() > 1, bool((model.weight == weight).all()), cbtorch.compile(validate_only=True))
"""
    done = script(COMPILED + calls, preamble=PREAMBLE)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "cbtorch.compile was called before a Session had recorded a step" in lines[0]
    assert lines[2] == "True False True"


def test_compile_raises_for_a_step_that_cannot_be_compiled(script):
    done = script(
        """
        with cbtorch.Session(loader, "train"):
            for b in loader:
                model(b[0])
                try:
                    cbtorch.compile(validate_only=True)
                except RuntimeError as e:
                    print("no computational graph" in str(e))
        """,
        preamble=PREAMBLE,
    )
    assert done.stdout.startswith("True"), done.stderr


@pytest.mark.parametrize(
    ("optimizer", "words"),
    [
        ("torch.optim.SGD(model.parameters(), lr=0.1)", "cbtorch.optim.SGD(...)"),
        ("torch.optim.AdamW(model.parameters(), lr=0.1)", "cbtorch.optim.AdamW(...)"),
        ("type('Own', (torch.optim.Adam,), {})(model.parameters(), lr=0.1)", "cbtorch.optim.Adam(...)"),
        ("Other(model.parameters(), {})", "subclass of cstorch.optim.Optimizer"),
    ],
)
def test_an_optimizer_of_torch_in_a_session_is_refused_with_the_call_to_write(script, optimizer, words):
    done = script(
        f"""
        class Other(torch.optim.Optimizer):
            pass

        optimizer = {optimizer}
        with cbtorch.Session(loader, "train"):
            for b in loader:
                step(b)
        """,
        preamble=PREAMBLE,
    )
    assert done.returncode == 1 and words in done.stderr
