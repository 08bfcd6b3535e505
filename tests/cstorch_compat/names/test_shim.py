"""The import shim: whose modules are found, and what is said of names that are not there."""

import pathlib

import pytest

from cstorch_compat.names import manifest
from tests.conftest import ROOT, python


def test_torch_is_ours_and_no_real_one_can_be_imported(script):
    done = script(
        """
        import sys, torchvision, cerebras.pytorch
        print(torch.__file__, torchvision.__file__, cerebras.pytorch.__file__, sep="\\n")
        print("_VF" in dir(torch), any(n.startswith("torch") and "cstorch" not in m.__file__
              for n, m in list(sys.modules.items()) if m is not None))
        """
    )
    assert done.returncode == 0, done.stderr
    *files, last = done.stdout.splitlines()
    assert all(pathlib.Path(f).is_relative_to(ROOT / "cstorch_compat") for f in files)
    assert last == "False False"


def test_two_names_of_a_module_are_one_object(script):
    done = script(
        """
        from cstorch_compat.names.mirror_modules import get_mirror as mirror
        import torch.nn.functional
        assert torch.nn is mirror("torch.nn") and nn.functional is F and torch.nn.functional.relu is F.relu
        """
    )
    assert done.returncode == 0, done.stderr


def test_other_distributions_add_modules_to_the_package_cerebras(script, tmp_path):
    for place, value in (("beside", 1), ("elsewhere", 2)):
        folder = tmp_path / ("" if place == "beside" else place) / "cerebras" / f"zoo_{place}" / "models"
        folder.mkdir(parents=True)
        (folder / "net.py").write_text(f"import cerebras.pytorch as cstorch\nvalue = {value}\n")
    done = script(
        """
        import pkgutil, sys
        import cerebras
        from cerebras.zoo_beside.models import net
        # A path that comes later is searched too, as Python does it for a package of several distributions.
        sys.path.append("elsewhere")
        import cerebras.zoo_elsewhere.models.net as other
        print(net.value, other.value, net.cstorch is cstorch, getattr(cerebras, "__file__", None))
        try: import cerebras.nowhere
        except ModuleNotFoundError as e: print(e)
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["1 2 True None", "No module named 'cerebras.nowhere'"]


@pytest.mark.process
def test_uninstall_makes_the_names_unimportable_again(tmp_path):
    code = (
        "import cstorch_compat, sys\ncstorch_compat.install()\nimport torch\ncstorch_compat.uninstall()\n"
        "assert 'torch' not in sys.modules\n"
        "try:\n    import torch\nexcept ModuleNotFoundError:\n    print('gone')\n"
        "else:\n    print('ours' if 'cstorch_compat' in torch.__file__ else 'real')\n"
    )
    done = python("-c", code, cwd=tmp_path)
    assert done.stdout.strip() in ("gone", "real"), done.stderr


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("torch.lobpcg", "known but missing"),
        ("torch.optim.SparseAdam", "known but missing"),
        ("torch.nn.modules.loss._NoSuch", "private names of PyTorch"),
        ("cstorch.mesh", "known but missing"),
        ("torch.zeross", "Did you mean torch.zeros?"),
        ("torch.optim.SDG", "the name is unknown"),
        ("cstorch.no_such_name", "the name is unknown"),
        ("torch.ones(2).to_mkldnn", "known but missing"),
        ("torch.ones(2).sumn", "Did you mean torch.Tensor.sum?"),
    ],
)
def test_a_name_that_is_not_there_says_which_kind_it_is_and_where(script, expression, words):
    done = script(f"x = 1\n{expression}\n")
    assert done.returncode == 1
    assert words in done.stderr
    assert f"{expression.rpartition('.')[2]!r}" in done.stderr
    assert "script.py" in done.stderr


def test_a_failed_from_import_carries_the_reason(script):
    done = script("from torch import lobpcg\n")
    assert done.returncode == 1
    assert "ImportError" in done.stderr
    assert "known but missing" in done.stderr


def test_hasattr_and_getattr_with_a_default_work_on_missing_names(script):
    done = script("assert not hasattr(torch, 'lobpcg') and getattr(nn, 'NoSuch', None) is None")
    assert done.returncode == 0, done.stderr


@pytest.mark.process
def test_coverage_gives_every_known_name_a_status_and_every_gap_a_reason(tmp_path):
    done = python("-m", "cstorch_compat", "coverage", "--list", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    listed = [line for line in done.stdout.splitlines() if line.startswith(("partial", "missing"))]
    assert all(line.rpartition(": ")[2] for line in listed)
    names = {line.split()[1].rstrip(":") for line in listed}
    assert "cerebras.pytorch.mesh" in names and "torch.zeros" not in names
    assert names <= manifest.known_names() | manifest.PARTIAL_REASONS.keys()
    assert manifest.PARTIAL_REASONS.keys() <= {
        line.split()[1].rstrip(":") for line in listed if line.startswith("partial")
    }


REFUSED = {
    "torch.load": "torch.load(io.BytesIO(b'no zip'))",
    "torch.linalg.qr": "torch.linalg.qr(torch.ones(3, 2), mode='complete')",
    "torch.nn.Embedding": "nn.Embedding(3, 2, scale_grad_by_freq=True)(torch.tensor([1]))",
    "torch.nn.EmbeddingBag": "nn.EmbeddingBag(3, 2, scale_grad_by_freq=True)(torch.tensor([[1]]))",
    "torch.nn.LSTM": "nn.LSTM(2, 4, proj_size=2)",
    "torch.nn.functional.embedding": "F.embedding(torch.tensor([1]), torch.ones(3, 2), scale_grad_by_freq=True)",
    "torch.nn.functional.interpolate": "F.interpolate(torch.ones(1, 1, 8, 8), 3, mode='bilinear', antialias=True)",
}
"""What PyTorch answers and we refuse, by the partial name that says so."""


def test_what_a_partial_name_leaves_out_is_refused_with_line_and_way_out(script):
    assert REFUSED.keys() <= manifest.PARTIAL_REASONS.keys()
    tries = "".join(
        f"try: {expression}\nexcept RuntimeError as e: print({name!r}, e.where, bool(e.hint))\n"
        for name, expression in REFUSED.items()
    )
    done = script("import io\n" + tries)
    assert done.returncode == 0, done.stderr
    told = [line.split() for line in done.stdout.splitlines()]
    assert [name for name, *_ in told] == list(REFUSED)
    assert all("script.py:" in line and hint == "True" for _, line, hint in told), told
