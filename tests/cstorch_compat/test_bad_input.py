"""What a user did wrong is said with the line, the value and the way out; nothing is lost."""

import pytest

HEAD = """
backend = cstorch.backend("CSX")
model = MLP()
compiled = cstorch.compile(model, backend)

@cstorch.trace
def step(batch):
    x, y = batch
    out = compiled(x)
    {line}
    return out.sum()

@cstorch.step_closure
def take(x):
    pass

for batch in cstorch.utils.data.DataExecutor(loader()):
    take(step(batch))
"""


def line_of(text: str, source: str) -> int:
    return next(i for i, line in enumerate(source.splitlines(), 1) if text in line)


READS = """out.sum().item()
bool(out.sum() > 0)
float(out.sum())
print(out)
out.detach().numpy()
out.to('cpu')
int(out.sum())
out.tolist()
[0][out.sum().int()]
assert out.sum() > 0"""


@pytest.mark.parametrize("line", READS.splitlines())
def test_a_value_read_inside_a_step_is_refused_with_line_shape_and_way_out(script, tmp_path, line):
    done = script(HEAD.format(line=line))
    assert done.returncode == 1
    at = line_of(f"    {line}", (tmp_path / "script.py").read_text())
    kind = "TypeError" if "numpy" in line else "RuntimeError"  # as in the original
    message = done.stderr[done.stderr.rindex(kind) :]
    assert f"script.py:{at}: " in message
    assert "torch.where" in message and "step_closure" in message
    assert "float16[" in message or "float32[" in message or "bool[" in message or "int" in message


def test_a_shape_error_names_the_operation_both_shapes_and_the_line(script, tmp_path):
    done = script(HEAD.format(line="nn.Linear(7, 2, device=x.device)(x)"))
    assert done.returncode == 1
    at = line_of("nn.Linear(7, 2", (tmp_path / "script.py").read_text())
    assert f"RuntimeError: {tmp_path}/script.py:{at}: linear: " in done.stderr
    assert "[4, 6]" in done.stderr and "[2, 7]" in done.stderr


def test_shapes_that_do_not_broadcast_are_named(script):
    done = script("torch.ones(2, 3) + torch.ones(4)")
    assert done.returncode == 1
    assert "[2, 3], [4]" in done.stderr and "dimension 1" in done.stderr


def test_an_operation_outside_the_traced_function_is_refused(script):
    done = script(HEAD.format(line="pass").replace("take(step(batch))", "take(step(batch) * 2)"))
    assert done.returncode == 1
    assert "cstorch.trace" in done.stderr and "script.py" in done.stderr


def test_a_model_that_was_not_compiled_is_refused(script):
    done = script(HEAD.format(line="pass").replace("out = compiled(x)", "out = MLP()(x)"))
    assert done.returncode == 1
    assert "incompatible devices" in done.stderr and "cstorch.compile" in done.stderr


def test_an_operation_that_the_wafer_does_not_have_is_refused_with_its_line(script, tmp_path):
    done = script(HEAD.format(line="out = out + torch.lgamma(out)"))
    assert done.returncode == 1
    at = line_of("torch.lgamma", (tmp_path / "script.py").read_text())
    assert f"script.py:{at}: failed to legalize operation" in done.stderr


def test_a_step_whose_results_no_closure_takes_is_refused(script):
    done = script(HEAD.format(line="pass").replace("take(step(batch))", "step(batch)"))
    assert done.returncode == 1
    assert "no computational graph" in done.stderr and "step_closure" in done.stderr


def test_a_script_keeps_its_own_traceback_and_exit_code(script):
    done = script("def f():\n    raise KeyError('mine')\n\nf()\n")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):\n  File ")
    assert "cstorch_compat" not in done.stderr
    assert done.stderr.rstrip().endswith("KeyError: 'mine'")
    assert script("import sys; sys.exit(7)").returncode == 7
    leaving = script("import sys; sys.exit('no good')")
    assert (leaving.returncode, leaving.stderr.strip()) == (1, "no good")


def test_arguments_reach_the_script(script):
    done = script("import sys; print(sys.argv[1:], __name__)", "--epochs", "3", "-x")
    assert done.stdout.strip() == "['--epochs', '3', '-x'] __main__"


@pytest.mark.parametrize("report", ["out.csv", "out"])
def test_an_unknown_kind_of_report_is_refused_before_the_script_runs(script, report):
    done = script("print('ran')", options=("--report", report))
    assert done.returncode == 2
    assert ".json or a .txt" in done.stderr and "ran" not in done.stdout


def test_an_error_of_ours_keeps_the_frames_of_the_script_and_is_printed_once(script):
    done = script(
        """
        backend = cstorch.backend("CSX")
        compiled = cstorch.compile(MLP(), backend)

        def inner(x):
            return x.sum().item()

        @cstorch.trace
        def step(batch):
            return inner(compiled(batch[0]))

        for batch in cstorch.utils.data.DataExecutor(loader(), num_steps=1):
            step(batch)
        """
    )
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert "in inner" in done.stderr and "in step" in done.stderr
