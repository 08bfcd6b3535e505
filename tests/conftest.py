"""Fixtures: scripts run in a process of their own, since a backend is one per process."""

import os
import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PREAMBLE = """
import torch
import torch.nn as nn
import torch.nn.functional as F
import cerebras.pytorch as cstorch

def loader(n=3, rows=4):
    return cstorch.utils.data.DataLoader(
        lambda: [(torch.eye(rows, 6) * (i + 1.5) + 0.1, torch.arange(rows) % 3) for i in range(n)]
    )

class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))

"""


def python(*args: str, cwd: pathlib.Path) -> subprocess.CompletedProcess:
    """Run Python with the checkout importable; output as text."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    return subprocess.run([sys.executable, *args], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)


@pytest.fixture
def script(tmp_path: pathlib.Path) -> Callable[..., subprocess.CompletedProcess]:
    """Run the text of a script through `lazywafer run` in an empty folder; the preamble above is put in front."""

    def run(
        body: str, *args: str, options: tuple[str, ...] = (), preamble: str = PREAMBLE
    ) -> subprocess.CompletedProcess:
        path = tmp_path / "script.py"
        path.write_text(preamble + textwrap.dedent(body))
        return python("-m", "cstorch_compat", "run", *options, str(path), *args, cwd=tmp_path)

    return run
