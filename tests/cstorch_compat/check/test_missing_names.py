"""All names that a script lacks are listed at once, before it runs, each with its lines and a way out."""

import time

import pytest

from cstorch_compat.check import used_names
from cstorch_compat.check.missing_names import find_missing_names
from cstorch_compat.names import shim
from tests.conftest import lazywafer

TEN = {
    "train.py": """
import torch
import torch.nn as nn
import torchaudio                                   # 1
from torch.utils.hipifi import constants            # 2
from torch import linear_algebra                    # 3
import layers
from parts.block import Block

class Model(nn.Module):
    def forward(self, x):
        x = nn.functional.no_such_function(x)       # 4
        return x.sparse_resize_(2)                  # 5

def main(n=torch.Tensr):                            # 6
    return torch.utils.nothing.at_all(n)            # 7

if hasattr(torch, "not_there"):
    torch.not_there()
try:
    import another_package
except ImportError:
    another_package = None
loss = Model()
""",
    "layers.py": """
from torch.nn import Lineer                         # 8
import no_such_package.inner                        # 9
from torch.nn import Linear as linear

def f(nn):
    return nn.what_ever, linear.of_its_own, "a".join([]), f.no_such_function
""",
    "parts/__init__.py": "",
    "parts/block.py": "from .deeper import Block",
    "parts/deeper.py": "from torch.autograd import forward_ad_of_mine as Block        # 10\n",
}
NAMES = """torchaudio torch.utils.hipifi torch.linear_algebra torch.nn.functional.no_such_function torch.Tensr
    torch.Tensor.sparse_resize_ torch.utils.nothing torch.nn.Lineer no_such_package torch.autograd.forward_ad_of_mine
    """.split()


@pytest.fixture
def planted(tmp_path):
    for name, text in TEN.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    shim.install()
    yield tmp_path
    shim.uninstall()


def test_ten_planted_names_are_all_listed_with_their_lines(planted):
    begun = time.process_time()
    missing = find_missing_names(str(planted / "train.py"))
    assert time.process_time() - begun < 2
    assert {m.name for m in missing} == set(NAMES)
    for m in missing:
        for place in m.places:
            line = (planted / place.file).read_text().splitlines()[place.line - 1]
            assert line.rpartition("# ")[2].isdigit(), (m, line)
    assert all(m.way_out for m in missing)


def test_each_name_says_who_knows_it_and_what_to_do(planted):
    missing = {m.name: m for m in find_missing_names(str(planted / "train.py"))}
    assert missing["torch.Tensr"].known == "no package" and "torch.Tensor" in missing["torch.Tensr"].way_out
    assert missing["torch.Tensor.sparse_resize_"].known == "PyTorch"
    assert missing["torchaudio"].known == "other packages" and "original" in missing["torchaudio"].way_out
    assert missing["no_such_package"].way_out.startswith("Install no_such_package")


def test_report_begins_with_the_table_and_ends_with_the_count(planted, monkeypatch):
    shim.uninstall()
    done = lazywafer("check", "train.py", cwd=planted)
    lines = done.stdout.splitlines()
    assert "Missing names, found in the source before the run (10)" in lines[2]
    assert "10 names are missing in lazywafer" in lines[-1]
    assert any(line.split()[:2] == ["torch.nn.Lineer", "layers.py:2"] for line in lines)


def names(text):
    return [
        u.name for u in used_names.read_used_names(text, "train.py", "pack.inner").uses if not u.name.startswith(".")
    ]


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("import torch.nn as n\nn.init.ones_", ["torch.nn", "torch.nn.init.ones_"]),
        ("from torch import nn as N\nclass A(N.Module): pass", ["torch.nn", "torch.nn.Module"]),
        ("import torch\nnn = torch.nn\nnn.Linear", ["torch", "torch.nn", "torch.nn.Linear"]),
        ("def f():\n    return torch.ones\nimport torch", ["torch.ones", "torch"]),
        ("import torch\ndef f(torch): return torch.ones", ["torch"]),
        ("import torch\nf = lambda torch: torch.ones", ["torch"]),
        ("import torch\nfor torch in []: pass\nx = torch.a", ["torch", "torch.a"]),
        ("from . import a\nfrom ..b import c\nfrom .d import *", ["pack.inner.a", "pack.b.c", "pack.inner.d"]),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch", ["typing.TYPE_CHECKING"]),
        ("import torch\ntry:\n    torch.x\nexcept AttributeError:\n    torch.y", ["torch"]),
        ("import torch\ntry:\n    torch.x\nexcept KeyError:\n    torch.y", ["torch", "torch.x", "torch.y"]),
        ("import torch\nx: torch.Tensor = torch.ones", ["torch", "torch.ones"]),
    ],
)
def test_names_are_read_as_python_would_resolve_them(text, uses):
    assert names(text) == uses
