"""`lazywafer plan` prints each row when it is known, and on a terminal what it is planning; `run` prints its rate."""

import os
import pty
import subprocess
import sys

import pytest

from cstorch_compat.profiling.progress import Progress
from tests.conftest import ROOT, lazywafer

SCRIPT = """
import os, sys, time, torch
sys.recordings = getattr(sys, "recordings", 0) + 1
while sys.recordings > 1 and not os.path.exists("first_row_was_read"):
    time.sleep(0.01)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(8, 4)).sum().backward()
optimizer.step()
"""
COMMAND = [sys.executable, "-m", "cstorch_compat", "plan", "--machine", "tiny", "--mode", "streaming", "script.py"]


@pytest.mark.process
def test_the_first_row_is_there_before_the_second_batch_is_recorded(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [*COMMAND[:-1], "--batch", "8,1024", COMMAND[-1]]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        head, first = process.stdout.readline(), process.stdout.readline()
        (tmp_path / "first_row_was_read").touch()
        second = process.stdout.readline()
        process.stdout.read()
    assert [line.split()[0] for line in (head, first, second)] == ["batch", "8", "1,024"]
    # Columns are as wide as the widest batch from the first line on.
    assert len({line.index(word) for line, word in ((head, "mode"), (first, "streaming"), (second, "streaming"))}) == 1


@pytest.mark.process
def test_a_terminal_shows_what_is_planned_and_a_file_does_not(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    ours, theirs = pty.openpty()
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(COMMAND, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "recording the first step of script.py" in shown
    assert "planning 1 of 1: batch 8 on the script's tiny, streaming" in shown
    assert b"planning" not in done.stdout
    assert lazywafer(*COMMAND[3:], cwd=tmp_path).stderr == ""


def test_rows_before_a_batch_that_has_no_program_are_printed(tmp_path):
    fixed = SCRIPT.replace("(torch.ones(8, 4))", "(torch.ones(8, 4)).reshape(8, 2)")
    (tmp_path / "script.py").write_text(fixed.replace("while", "while False and"))
    done = lazywafer(*COMMAND[3:-1], "--batch", "8,16", "script.py", cwd=tmp_path)
    assert done.returncode == 1
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["batch", "8"]
    assert done.stderr.startswith("lazywafer: script.py:8: ")


def test_progress_of_slow_steps_shows_their_rate(monkeypatch, capsys):
    now = 0.0
    monkeypatch.setattr("time.perf_counter", lambda: now)
    progress = Progress(10, enabled=True)
    for done in range(1, 11):
        now += 3.2
        progress.step(done)
    assert capsys.readouterr().err.splitlines()[-1] == "step 10/10, 0.31 steps/s"
