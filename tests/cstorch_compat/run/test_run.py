"""Runs: executors, closures and steps on both backends, each in a process of its own."""

import json

import numpy as np
import pytest

from tests.conftest import lazywafer

TRAIN = """
import sys
torch.manual_seed(1)
backend = cstorch.backend(sys.argv[1])
model = MLP()
compiled = cstorch.compile(model, backend)
optimizer = cstorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
calls = []

@cstorch.trace
def step(batch):
    calls.append(1)
    x, y = batch
    loss = F.cross_entropy(compiled(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss

@cstorch.step_closure
def log(loss):
    print("loss", loss.item())
"""

LOOP_4 = """
for batch in cstorch.utils.data.DataExecutor(loader(), num_steps=4):
    log(step(batch))
"""


def losses(done) -> list[float]:
    assert done.returncode == 0, done.stderr
    return [float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("loss")]


@pytest.mark.parametrize("backend", ["CPU", "CSX"])
def test_training_lowers_the_loss(script, backend):
    found = losses(
        script(
            TRAIN
            + """
for batch in cstorch.utils.data.DataExecutor(loader(), num_steps=30):
    log(step(batch))
""",
            backend,
        )
    )
    assert len(found) == 30
    assert np.mean(found[-3:]) < 0.9 * np.mean(found[:3])


def test_half_precision_on_the_wafer_stays_near_the_host(script):
    body = TRAIN + "\nfor batch in cstorch.utils.data.DataExecutor(loader(), num_steps=12):\n    log(step(batch))\n"
    host, wafer = losses(script(body, "CPU")), losses(script(body, "CSX"))
    np.testing.assert_allclose(wafer, host, rtol=2e-3)  # float16 has 11 bits
    assert wafer != host


@pytest.mark.parametrize(("backend", "expected"), [("CPU", 7), ("CSX", 1)])
def test_the_body_runs_each_step_on_the_cpu_and_once_on_the_wafer(script, backend, expected):
    done = script(
        TRAIN
        + """
for batch in cstorch.utils.data.DataExecutor(loader(), num_steps=7):
    step(batch)
print(len(calls))
""",
        backend,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == str(expected)


ORDER = """
import sys
backend = cstorch.backend(sys.argv[1])
model = MLP()
compiled = cstorch.compile(model, backend)
log = []

@cstorch.trace
def step(batch):
    inside(compiled(batch[0]).sum())
    return compiled(batch[0]).mean()

@cstorch.step_closure
def inside(x):
    log.append(["inside", type(x.item()).__name__])

@cstorch.step_closure
def first(i, x):
    log.append(["first", i, type(x.item()).__name__])

@cstorch.checkpoint_closure
def save(i):
    log.append(["save", i, sorted(model.state_dict())[0]])

executor = cstorch.utils.data.DataExecutor(loader(), num_steps=3, checkpoint_steps=2)
for i, batch in enumerate(executor):
    x = step(batch)
    save(i)
    first(i, x)
    log.append(["body", i])
import json
print(json.dumps(log))
"""


@pytest.mark.parametrize("backend", ["CPU", "CSX"])
def test_closures_run_after_the_body_in_the_order_of_their_calls(script, backend):
    done = script(ORDER, backend)
    assert done.returncode == 0, done.stderr
    log = json.loads(done.stdout.splitlines()[0])
    expected = []
    for i in range(3):
        expected += [["body", i], ["inside", "float"]]
        expected += [["save", i, "fc1.bias"]] if i in (1, 2) else []
        expected += [["first", i, "float"]]
    assert log == expected


@pytest.mark.parametrize(("backend", "expected"), [("CPU", "0.0"), ("CSX", "5.0")])
def test_a_closure_sees_the_value_at_its_call_or_on_the_wafer_the_last_one(script, backend, expected):
    done = script(
        """
        import sys
        backend = cstorch.backend(sys.argv[1])
        compiled = cstorch.compile(MLP(), backend)

        @cstorch.step_closure
        def show(x):
            print(x.tolist(), x.requires_grad, x.device)

        @cstorch.trace
        def step(batch):
            x = batch[0].sum() * 0
            show(x)
            x.add_(5)
            return x

        for batch in cstorch.utils.data.DataExecutor(loader(1), num_steps=2):
            step(batch)
        """,
        backend,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == [f"{expected} False cpu"] * 2


@pytest.mark.parametrize("backend", ["CPU", "CSX"])
def test_a_closure_called_by_a_closure_waits_for_the_next_step(script, backend):
    done = script(
        """
        import sys, warnings
        backend = cstorch.backend(sys.argv[1])
        compiled = cstorch.compile(MLP(), backend)

        @cstorch.checkpoint_closure
        def save(i):
            print("save", i)

        @cstorch.step_closure
        def outer(i, x):
            save(i)

        @cstorch.trace
        def step(batch):
            return compiled(batch[0]).sum()

        executor = cstorch.utils.data.DataExecutor(loader(4), checkpoint_steps=2)
        for batch in executor:
            outer(executor.user_iteration, step(batch))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            print(save(9), len(caught))  # it waits for the next loop
        """,
        backend,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:3] == ["save 1", "save 3", "None 0"]


RESUME = """
import sys
backend = cstorch.backend(sys.argv[1])
torch.manual_seed(3)
model = MLP()
compiled = cstorch.compile(model, backend)
optimizer = cstorch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
if len(sys.argv) > 3:
    state = cstorch.load(sys.argv[3])
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])

@cstorch.trace
def step(batch):
    optimizer.zero_grad()
    loss = F.cross_entropy(compiled(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss

@cstorch.step_closure
def log(loss):
    print("loss", loss.item().hex())

@cstorch.checkpoint_closure
def save(path):
    cstorch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)

executor = cstorch.utils.data.DataExecutor(loader(1), num_steps=int(sys.argv[2]), checkpoint_steps=4)
for i, batch in enumerate(executor, 1):
    log(step(batch))
    save(f"{sys.argv[2]}_{i}.mdl")
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["CPU", "CSX"])
def test_a_resumed_run_continues_bit_for_bit(script, backend):
    whole = script(RESUME, backend, "8")
    rest = script(RESUME, backend, "4", "8_4.mdl")
    assert whole.returncode == 0 and rest.returncode == 0, whole.stderr + rest.stderr
    lines = [line for line in whole.stdout.splitlines() if line.startswith("loss")]
    assert [line for line in rest.stdout.splitlines() if line.startswith("loss")] == lines[4:]


def test_two_executors_follow_each_other_in_one_process(script):
    done = script(
        TRAIN
        + """
from cerebras.pytorch.metrics import AccuracyMetric
for batch in cstorch.utils.data.DataExecutor(loader(1), num_steps=60):
    step(batch)
accuracy = AccuracyMetric("accuracy")

@cstorch.trace
def evaluate(batch):
    accuracy(labels=batch[1], predictions=compiled(batch[0]).argmax(-1))
    return compiled(batch[0]).sum()

for batch in cstorch.utils.data.DataExecutor(loader(1), num_steps=2, checkpoint_steps=2):
    evaluate(batch)
print(float(accuracy), model.fc1.weight.sum().item() != 0)
import os
print(sorted(os.listdir("cerebras_logs/executors")), os.path.exists("cerebras_logs/executors/000002/cirh.mlir"))
""",
        "CSX",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["1.0 True", "['000001', '000002'] True"]


@pytest.mark.parametrize("option", ["validate_only", "compile_only"])
def test_only_one_step_is_traced_and_no_closure_runs_without_execution(script, option):
    done = script(
        f"""
        import warnings
        backend = cstorch.backend("CSX", {option}=True)
        compiled = cstorch.compile(MLP(), backend)

        @cstorch.trace
        def step(batch):
            return compiled(batch[0]).sum()

        @cstorch.step_closure
        def log(x):
            raise AssertionError("a closure ran")

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            executor = cstorch.utils.data.DataExecutor(loader(), num_steps=5)
        steps = [log(step(batch)) for batch in executor]
        print(len(steps), len(caught))
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "1 1"
    assert ("verdict:" in done.stdout) == (option == "compile_only")
    assert "input: 1 steps, 4 samples, " in done.stdout


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        ("cstorch.backend('CSX'); cstorch.backend('CPU')", "RuntimeError", "multiple backends"),
        ("cstorch.backend('TPU')", "ValueError", "Expected one of"),
        ("cstorch.backend()", "RuntimeError", "No active Cerebras backend"),
        ("cstorch.backend('CPU', foo=1)", "TypeError", "unexpected keyword argument 'foo'"),
        ("cstorch.utils.data.DataLoader([1])", "TypeError", "Expected a callable"),
        ("cstorch.backend('CPU'); cstorch.utils.data.DataExecutor([1])", "TypeError", "not wrapped"),
        ("cstorch.backend('CPU'); cstorch.utils.data.DataExecutor(loader(), num_steps=0)", "RuntimeError", ">= 1"),
        ("cstorch.backend('CPU'); cstorch.trace(lambda b: b)(1)", "RuntimeError", "data executor was not used"),
        ("cstorch.optim.SGD(MLP().parameters(), lr=0.1)", "RuntimeError", "No active Cerebras backend"),
        ("cstorch.distributed.ClusterConfig(num_csx=-1)", "ValueError", "non-negative"),
        ("cstorch.distributed.ClusterConfig(job_time_sec=-3)", "ValueError", "positive integer"),
        ("cstorch.backend(3)", "TypeError", "Got 3"),
        ("cstorch.metrics.compute_all_metrics()", "AttributeError", "get_all_metrics"),
    ],
)
def test_wrong_calls_are_refused_with_the_original_kind_of_error(script, call, error, words):
    done = script(f"try:\n    {call}\nexcept {error} as e:\n    print(e)\n")
    assert done.returncode == 0, done.stderr
    assert words in done.stdout


def test_the_gpu_backend_is_refused_as_without_a_gpu(script):
    done = script("try:\n    cstorch.backend('GPU')\nexcept RuntimeError as e:\n    print(e)\n")
    assert "CUDA is not available" in done.stdout and 'cstorch.backend("CPU")' in done.stdout


# What the original answers: the kind of error, and words of its message.
WAFER_READS = [
    ("repr(x)", "RuntimeError", "Trying to materialize a tensor outside of a step closure."),
    ("x.tolist()", "RuntimeError", "All PyTorch code must be written to operate fully on torch.tensors"),
    ("x.cpu()", "RuntimeError", "use a tensor as a Python conditional"),
    ("x.detach().numpy()", "TypeError", "numpy() needs the value"),
    ("x.item()", "RuntimeError", ".item() needs the value"),
]


@pytest.mark.parametrize("expression, error, words", WAFER_READS)
def test_reading_in_a_traced_step_fails_as_on_the_system(script, expression, error, words):
    done = script(
        f"""
        backend = cstorch.backend("CSX")
        compiled = cstorch.compile(MLP(), backend)

        @cstorch.trace
        def step(batch):
            x = compiled(batch[0]).sum()
            return {expression}

        try:
            for batch in cstorch.utils.data.DataExecutor(loader(), num_steps=1):
                step(batch)
        except Exception as e:
            print(type(e).__name__, e)
        """
    )
    assert done.stdout.startswith(error) and words in done.stdout and "script.py" in done.stdout


def test_a_compiled_model_is_not_called_on_the_wafer_before_a_loop(script):
    done = script(
        """
        compiled = cstorch.compile(MLP(), cstorch.backend("CSX"))
        try:
            compiled(torch.ones(2, 6))
        except AttributeError as e:
            print(e)
        """
    )
    assert "before a loop over a DataExecutor" in done.stdout


def test_a_schedule_steps_outside_a_traced_step_unless_casts_were_prepared_and_a_scaler_made(script):
    start = """
    cstorch.backend("CPU")
    optimizer = cstorch.optim.SGD(MLP().parameters(), lr=0.1)
    schedule = cstorch.optim.lr_scheduler.ConstantLR(optimizer, 0.1)
    """
    # As recorded from release 2.10.
    assert script(start + "schedule.step()\n    print('stepped')").stdout == "stepped\n"
    prepared = start + "cstorch.amp.init(); cstorch.amp.GradScaler(1.0)\n    schedule.step()"
    assert "Failed to mark tensor 0" in script(prepared).stderr


def test_what_is_made_under_the_device_of_the_backend_lives_there(script):
    done = script(
        """
        backend = cstorch.backend("CSX")
        with backend.device:
            model, made = MLP(), torch.zeros(2)
        print(model.fc1.weight.device, made.device, torch.zeros(2).device)
        """
    )
    assert done.stdout.split() == ["lazy:0", "lazy:0", "cpu"], done.stderr


def test_a_schedule_on_the_wafer_shows_the_given_rate_until_the_first_step(script):
    done = script(
        """
        cstorch.backend("CSX")
        optimizer = cstorch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.5)
        print(cstorch.optim.lr_scheduler.LinearLR(optimizer, 0.25, 0.0, 4).get_last_lr())
        """
    )
    assert done.stdout.strip() == "[0.5]", done.stderr


def test_retracing_runs_the_body_in_every_step_and_compiles_an_equal_graph_once(script):
    done = script(
        TRAIN
        + """
cstorch.backends.csx.debug.retrace_every_iteration = True
cstorch.backends.csx.precision.optimization_level = 2
for batch in cstorch.utils.data.DataExecutor(loader(), num_steps=4):
    log(step(batch))
print(len(calls), len(backend.reports))
print("cs.pol = 2" in open("cerebras_logs/executors/000001/cirh.mlir").read())
""",
        "CSX",
    )
    once = losses(script(TRAIN + LOOP_4, "CSX"))
    assert losses(done) == once
    assert done.stdout.splitlines()[4:6] == ["4 1", "True"]


def test_the_wafer_lowers_a_graph_once_and_its_text_is_of_that_graph(script):
    done = script(
        TRAIN
        + """
from lazytensor import config
with config.override(debug=2):
    for batch in cstorch.utils.data.DataExecutor(loader(), num_steps=4):
        log(step(batch))
print(open("cerebras_logs/executors/000001/cirh.mlir").read())
""",
        "CSX",
    )
    passes = [line for line in done.stderr.splitlines() if line.startswith("--- ")]
    names = "record wrap_custom_calls unwrap lower_to_cirh print_cirh rewrites simplify"
    assert passes == [f"--- {name}" for name in names.split()]
    printed = done.stderr.split("--- print_cirh\n")[1].split("\n--- ")[0].strip()
    assert printed.startswith("#loc0") and printed in done.stdout


@pytest.mark.process
def test_a_compile_folder_keeps_what_was_compiled(script_process, tmp_path):
    body = TRAIN.replace("(sys.argv[1])", "('CSX', compile_dir='compiled')") + LOOP_4
    first = losses(script_process(body))
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "compiled").rglob("*.kernel")}
    assert kept
    assert losses(script_process(body)) == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "compiled").rglob("*.kernel")} == kept


CBFLOAT16 = """
backend = cstorch.backend("CSX")
cstorch.amp.set_half_dtype("cbfloat16")
compiled = cstorch.compile(nn.Linear(6, 2), backend)
step = cstorch.trace(lambda batch: compiled(batch[0]))
take = cstorch.step_closure(lambda out: print("out", out.dtype, out.shape))
for batch in cstorch.utils.data.DataExecutor(loader(), num_steps=1):
    take(step(batch))
"""


def test_a_cbfloat16_output_is_refused_unless_it_may_be_widened(script):
    done = script(CBFLOAT16)
    assert done.returncode == 1
    assert "does not have this dtype" in done.stderr and "implicit_cast_cb16_to_fp32" in done.stderr
    done = script("cstorch.backends.csx.debug.implicit_cast_cb16_to_fp32 = True\n" + CBFLOAT16)
    assert "out torch.float32 torch.Size([4, 2])" in done.stdout, done.stderr


@pytest.mark.parametrize(("backend", "expected"), [("CPU", "True cpu"), ("CSX", "False lazy:0")])
def test_a_constant_is_made_for_the_wafer_alone(script, backend, expected):
    done = script(
        """
        import sys
        cstorch.backend(sys.argv[1])
        t = torch.ones(2)
        made = cstorch.make_constant(t)
        print(made is t, made.device)
        """,
        backend,
    )
    assert done.stdout.strip() == expected, done.stderr


def test_info_says_what_changes_bits(tmp_path):
    done = lazywafer("info", cwd=tmp_path)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("bits "))
    assert "any number of threads" in line and "OPENBLAS_CORETYPE" in line
