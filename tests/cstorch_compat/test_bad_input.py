"""What a user did wrong is said with the line, the value and the way out; nothing is lost."""

import os
import subprocess
import sys
import zipfile

import pytest

from cstorch_compat.__main__ import main
from cstorch_compat.ckpt.formats import read
from cstorch_compat.names.mirror_modules import get_mirror
from lazytensor.errors import CheckpointError
from tests.conftest import ROOT

torch = get_mirror("torch")
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
    assert f"script.py:{at}: The Cerebras backend does not yet support" in done.stderr


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
    assert ".json or .txt" in done.stderr and "ran" not in done.stdout


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


def test_what_a_file_calls_its_arrays_does_not_reach_the_terminal(tmp_path, capsys):
    torch.save({"\x1b[2J": torch.ones(2), "\ud800": 1, "é": "\x07"}, tmp_path / "a.pt")
    assert main(["ckpt", "ls", str(tmp_path / "a.pt")]) == 0
    out = capsys.readouterr().out
    assert "\\x1b[2J" in out and "\\ud800" in out and "é" in out and "\x1b" not in out and "\x07" not in out


@pytest.mark.parametrize("key", ["k" * 70_000, "\ud800"])
def test_a_key_that_no_archive_holds_is_our_error(key, tmp_path, capsys):
    torch.save({key: torch.ones(2)}, tmp_path / "a.pt")
    assert main(["ckpt", "convert", str(tmp_path / "a.pt"), str(tmp_path / "b.npz")]) == 2
    assert "not a valid name" in (err := capsys.readouterr().err) or "has more than 60,000 bytes" in err


@pytest.mark.parametrize("header", [b"{'descr': '<f4', 'shape': (1,", b"{'descr': (", b"'\\", b"{[("])
def test_a_header_that_is_no_python_is_our_error(header, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(CheckpointError, match="cannot be read"):
        read(str(tmp_path / "a.npz"))


def test_a_hint_that_fails_does_not_hide_the_error_of_the_script(script):
    done = script("raise UnboundLocalError('no name here')", preamble="")
    assert done.returncode == 1 and "UnboundLocalError: no name here" in done.stderr and "IndexError" not in done.stderr


def test_a_report_into_a_missing_folder_is_told_before_the_run(script):
    done = script("print('ran')", options=("--report", "missing/r.txt"), preamble="")
    assert (
        done.returncode == 2 and "a folder that exists, got 'missing/r.txt'" in done.stderr and "ran" not in done.stdout
    )


@pytest.mark.process
@pytest.mark.parametrize("closed", ["2>&-", "1>&-", "0<&-"])
def test_a_script_runs_with_a_closed_standard_stream(closed, tmp_path):
    lines = (
        "import torch, sys",
        "assert None not in (sys.stdin, sys.stdout, sys.stderr)",
        "f = open('out', 'w')",
        "assert f.fileno() > 2",
        "f.write(str(torch.ones(2).sum().item()))",
    )
    (tmp_path / "s.py").write_text("\n".join(lines))
    command = f"exec '{sys.executable}' -m cstorch_compat s.py {closed}"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=env, timeout=100, check=False)
    assert done.returncode == 0 and (tmp_path / "out").read_text() == "2.0"
