"""The driver of public repositories: what it compares, what it passes over, and one run of a planted repository."""

import sys

import pytest

from tests.scripts.public.__main__ import ROOT, Stopped, reason, run
from tests.scripts.public.comparison import compared, prints, spread
from tests.scripts.public.rows import ROWS, Row


def test_times_rates_and_numbers_of_processes_are_passed_over():
    lines = prints("iter 1: loss 2.5000, time 31.20ms, mfu -100.00%\n\n[812] rank = 0\n812\tTrain Epoch: 1 Loss: 2.5\n")
    assert lines == ["iter 1: loss 2.5000, ~, ~", "~ rank = 0", "~ Epoch: 1 Loss: 2.5"]


@pytest.mark.parametrize(
    ("ours", "theirs", "difference"),
    [
        (["loss 2.50000"], ["loss 2.50001"], ""),
        (["loss 2.50"], ["loss 2.51"], "print 1: 'loss 2.50', not 'loss 2.51'"),
        (["a 1", "b nan"], ["a 1", "b nan"], ""),
        (["loss 1"], ["lost 1"], "print 1: 'loss 1', not 'lost 1'"),
        (["a 1"], ["a 1", "b 2"], "1 prints, not 2"),
    ],
)
def test_prints_are_compared_by_words_and_numbers(ours, theirs, difference):
    assert compared(ours, theirs).difference == difference


def test_prints_of_a_chaotic_row_are_no_further_away_than_pytorch_is_from_itself():
    theirs = ["a 1.0", "b 2.0", "c 3.0"]
    apart = spread(theirs, [["a 1.0", "b 2.2", "c 3.0"], ["a 1.0", "b 1.9", "c 3.1"]])
    assert apart == pytest.approx([0.0, 0.2 / 2.2, 0.2 / 2.2])
    near = compared(["a 1.0", "b 2.1", "c 3.0"], theirs, apart)
    assert (near.difference, near.parted, near.largest) == ("", 2, 0.0) and near.astray == pytest.approx(0.1 / 2.1)
    assert compared(["a 1.1", "b 2.0", "c 3.0"], theirs, apart).difference.startswith("print 1")
    assert compared(["a 1.0", "b 2.5", "c 3.0"], theirs, apart).difference.startswith("print 2")


def test_rows_have_names_of_their_own():
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_the_error_is_named_by_its_line():
    assert reason(["Traceback", "  File", "AttributeError: no x", "  hint"]) == "AttributeError: no x"


@pytest.mark.process
def test_a_planted_repository_is_run_in_a_copy(tmp_path):
    planted = tmp_path / "repositories" / "planted"
    planted.mkdir(parents=True)
    (planted / "main.py").write_text("import random, sys, torch\nprint(torch.ones(2).sum().item(), random.random())\n")
    (planted / "broken.py").write_text("import torch\ntorch.no_such_name\n")
    (tmp_path / "scratch").mkdir()
    command = [sys.executable, "-m", "cstorch_compat"]
    lines = run(
        Row("planted", "planted", ".", ("main.py",)), planted.parent, tmp_path / "scratch", command, [str(ROOT)]
    )
    assert lines == ["2.0 0.13436424411240122"]  # what Python draws first after random.seed(1)
    with pytest.raises(Stopped, match="no_such_name"):
        row = Row("broken", "planted", ".", ("broken.py",))
        run(row, planted.parent, tmp_path / "scratch", command, [str(ROOT)])
    assert sorted(p.name for p in planted.iterdir()) == ["broken.py", "main.py"]
