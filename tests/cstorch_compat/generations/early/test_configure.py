"""Release 1.8, the first with cstorch: configure, loaders that count their steps, and slips that its scripts share."""

import pytest

PREAMBLE = """
import torch, warnings
import cerebras_pytorch.experimental as cstorch
import cerebras_pytorch.experimental.metrics as metrics

cstorch.configure(checkpoint_steps=2, mgmt_address="10.0.0.1", num_csx=1, execution_strategy=2)
torch.manual_seed(0)
model = torch.nn.Linear(4, 3)
compiled_model = cstorch.compile(model, backend="WSE_WS")
loss_fn = torch.nn.CrossEntropyLoss()

def input_fn(count=3):
    return [(torch.eye(6, 4) + i, torch.arange(6) % 3) for i in range(count)]
"""
TRAIN = """
optimizer = cstorch.optim.configure_optimizer(optimizer_type="SGD", params=model.parameters(), lr=0.1)
lr_scheduler = cstorch.optim.configure_lr_scheduler(optimizer, learning_rate=0.1)
dataloader = cstorch.utils.data.DataLoader(input_fn, num_steps=6)

@cstorch.compile_step
def training_step(batch):
    inputs, targets = batch
    loss = loss_fn(compiled_model(inputs), targets)
    cstorch.amp.optimizer_step(loss, optimizer, None, max_gradient_norm=1.0)
    return loss

losses = []

@cstorch.step_closure
def log(loss):
    losses.append(loss.item())

@cstorch.step_closure
def save(step):
    cstorch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"{step}.mdl")
    print("saved", step)
"""


def test_a_step_that_is_given_the_loader_takes_its_batch_and_says_so_once(script):
    done = script(
        TRAIN
        + """
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    for i, batch in enumerate(dataloader):
        loss = training_step(dataloader)
        log(loss)
        if i % 2 == 0:
            save(i)
print(losses[-1] < losses[0], len(losses), len(told), "pass the batch of the loop" in str(told[0].message))
print(list(cstorch.load("2.mdl")["model"]), compiled_model.backend.name, compiled_model.backend.is_wse())
""",
        preamble=PREAMBLE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:5] == [
        "saved 0",
        "saved 2",
        "saved 4",
        "True 6 1 True",
        "['weight', 'bias'] WSE_WS True",
    ]


def test_a_closure_that_forgets_global_is_told_what_to_write(script):
    done = script(
        """
        accuracy = metrics.AccuracyMetric("accuracy", compute_on_system=True)

        @cstorch.compile_step
        def evaluation_step(batch):
            inputs, targets = batch
            outputs = compiled_model(inputs)
            accuracy(labels=targets.clone(), predictions=outputs.argmax(-1).int())
            return loss_fn(outputs, targets)

        total_loss = 0
        total_steps = 0

        @cstorch.step_closure
        def post_eval_step(loss):
            global total_loss
            total_loss += loss.item()
            total_steps += 1

        with torch.no_grad():
            for batch in cstorch.utils.data.DataLoader(input_fn, num_steps=2):
                post_eval_step(evaluation_step(batch))
        """,
        preamble=PREAMBLE,
    )
    assert done.returncode == 1
    assert "post_eval_step assigns 'total_steps'" in done.stderr and "global total_steps" in done.stderr
    assert "of step 1" in done.stderr


BOUNDS = {
    "num_steps=5": 5,
    "num_steps=5, max_steps=4": 4,
    "num_epochs=2": 6,
    "num_epochs=2, steps_per_epoch=2": 4,
    "num_epochs=2, max_steps=5": 5,
    "num_steps=5, max_steps=8, initial_step=6": 2,
}


def test_a_loader_gives_as_many_steps_as_its_numbers_say(script):
    tries = "".join(f"print(steps({given}))\n" for given in BOUNDS)
    done = script(
        "cstorch.backend  # the names of release 1.9 are there too\n"
        "@cstorch.compile_step\n"
        "def forward(batch):\n"
        "    return compiled_model(batch[0]).sum()\n"
        "seen = cstorch.step_closure(lambda x: x)\n"
        "def steps(**given):\n"
        "    loader, count = cstorch.utils.data.DataLoader(input_fn, **given), 0\n"
        "    for epoch in range(loader.num_epochs):  # as the Model Zoo goes over them\n"
        "        for batch in loader:\n"
        "            seen(forward(batch))\n"
        "            count += 1\n"
        "    return count\n" + tries,
        preamble=PREAMBLE,
    )
    assert done.returncode == 0, done.stderr
    assert [int(x) for x in done.stdout.splitlines()[: len(BOUNDS)]] == list(BOUNDS.values())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("cstorch.configure(checkpoint_steps=3)", "can only be called once"),
        ("cstorch.utils.data.DataLoader(input_fn, num_steps=3, num_epochs=2)", "Only one of"),
        ("cstorch.utils.data.DataExecutor(cstorch.utils.data.DataLoader(input_fn, num_steps=3), 2)", "not wrapped"),
    ],
)
def test_what_contradicts_itself_is_refused(script, call, words):
    done = script(
        f"try:\n    {call}\nexcept (RuntimeError, ValueError, TypeError) as e:\n    print(e)\n", preamble=PREAMBLE
    )
    assert done.returncode == 0, done.stderr
    assert words in done.stdout


@pytest.mark.parametrize("kind", ["AccuracyMetric", "PerplexityMetric"])
def test_weight_streaming_refuses_metrics_that_are_not_computed_on_the_system(script, kind):
    made = f"""
        try:
            metrics.{kind}("m", compute_on_system=False)
        except ValueError as e:
            print(e)
        """
    done = script(made, preamble=PREAMBLE)
    assert done.returncode == 0, done.stderr
    assert "compute_on_system=False" in done.stdout and "Pass compute_on_system=True" in done.stdout
    # On the CPU the client may compute them.
    done = script(made, preamble=PREAMBLE.replace("WSE_WS", "CPU"))
    assert (done.returncode, done.stdout) == (0, "")


def test_a_metric_that_was_made_before_the_backend_is_refused_in_its_first_step(script):
    before = PREAMBLE.replace("\nmodel", '\nmetric = metrics.AccuracyMetric("m", compute_on_system=False)\nmodel')
    done = script(
        """
        @cstorch.compile_step
        def step(batch):
            outputs = compiled_model(batch[0])
            metric(labels=batch[1], predictions=outputs.argmax(-1))
            return outputs.sum()

        for batch in cstorch.utils.data.DataLoader(input_fn, num_steps=1):
            step(batch)
        """,
        preamble=before,
    )
    assert done.returncode == 1 and "compute_on_system=False" in done.stderr
