"""`lazywafer stubs`: type checkers understand scripts with them, and nothing else in the folder is touched."""

import os
import subprocess
import sys

import pytest

from cstorch_compat.names import mirror_table, stubs
from tests.conftest import ROOT, lazywafer

FAULTY = """
import cerebras.pytorch as cstorch
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, NoSuch

torch.ones(2).no_such()
nn.Linear("a")
torch.no_such(1)
cstorch.backend("CPU").no_such()
nn.functional.relu(torch.ones(2), inplace="no")
torch.ones(2).sum(dim="x")
cstorch.optim.lr_scheduler.CosineDecayLR(1)
sound: torch.Tensor = torch.ones(2, dtype=torch.bool).float() + torch.pi
settings = cstorch.backends.csx.precision
"""
FAULTY_LINES = [5, 7, 8, 9, 10, 11, 12]


@pytest.mark.slow
@pytest.mark.process
def test_a_type_checker_finds_mistakes_in_scripts_and_none_in_the_examples(tmp_path):
    assert lazywafer("stubs", "typings", cwd=tmp_path).returncode == 0
    (tmp_path / "faulty.py").write_text(FAULTY)
    examples = sorted((ROOT / "notebooks" / "scripts").glob("*.py"))
    # What the scripts import is silent, as an installed package is: only the scripts are to be judged here.
    flags = ("--check-untyped-defs", "--follow-imports=silent", "--config-file=")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *flags, *map(str, examples), "faulty.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": os.pathsep.join((str(tmp_path / "typings"), str(ROOT)))},
        capture_output=True,
        text=True,
    )
    errors = [line for line in checked.stdout.splitlines() if ": error: " in line]
    assert all(line.startswith("faulty.py:") for line in errors), checked.stdout
    assert sorted({int(line.split(":")[1]) for line in errors}) == FAULTY_LINES, checked.stdout


@pytest.mark.slow
def test_every_module_of_the_latest_release_has_a_stub_with_its_names():
    texts = dict(stubs.generate_stubs())
    served = [p for p in mirror_table.entries() if p.startswith(("torch", "cerebras.pytorch"))]
    assert len(texts) == len(served) + 1  # and `cerebras` itself
    for path, text in texts.items():
        compile(text, path, "exec")
    assert "from torch import nn as nn" in texts["torch/__init__.pyi"]
    assert "tensorboard" not in texts["cerebras/pytorch/utils/__init__.pyi"]  # only there for those who import it


@pytest.mark.slow
def test_stubs_are_replaced_and_what_is_beside_them_stays(tmp_path):
    (tmp_path / "numpy").mkdir()
    (tmp_path / "torch" / "old").mkdir(parents=True)
    (tmp_path / "torch" / "__init__.pyi").write_text(stubs.GENERATED_MARK)
    done = lazywafer("stubs", ".", cwd=tmp_path)
    assert done.returncode == 0 and "MYPYPATH" in done.stdout
    assert (tmp_path / "numpy").is_dir() and not (tmp_path / "torch" / "old").exists()


def test_a_folder_that_cannot_have_stubs_is_refused_before_anything_is_written(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "foreign" / "torchvision").mkdir(parents=True)
    for folder, words in (
        ("file", "is a file"),
        ("file/below", "cannot be written"),
        ("foreign", "was not written by"),
    ):
        done = lazywafer("stubs", folder, cwd=tmp_path)
        assert done.returncode == 2 and words in done.stderr, done.stderr
    assert not (tmp_path / "foreign" / "torch").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    assert "cannot be written" in lazywafer("stubs", str(tmp_path / "new"), cwd=ROOT).stderr
