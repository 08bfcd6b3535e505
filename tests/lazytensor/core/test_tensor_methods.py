"""What Tensor and the package offer, and that an editor, mypy and pyright know of it."""

import importlib.util
import inspect
import json
import subprocess
import sys
import tomllib
from types import FunctionType

import pytest
from mypy import api

import lazytensor as lt
from lazytensor.core.tensor_members import member_marks, method, tensor_property
from lazytensor.functional.attach_members import FAMILIES, build_members, marked_functions
from lazytensor.nn import functional
from tests import method_stub
from tests.conftest import ROOT

METHODS_ONLY = frozenset(
    """_repr_html_ as_subclass backward bfloat16 bool byte char contiguous copy cpu cuda data_ptr dim double
    element_size expand expand_as
    float half int is_contiguous is_floating_point is_pinned is_set_to long ndimension nelement new new_empty new_full
    new_ones new_tensor new_zeros numel pin_memory register_hook register_post_accumulate_grad_hook repeat reshape_as
    retain_grad short size storage_offset stride sum_to_size to trace type type_as unfold view view_as xpu""".split()
)
"""What PyTorch has as methods and not as functions, or under the name of a type, or of `lazytensor.trace`."""

SOUND = """
import lazytensor as lt
from lazytensor import nn

x = lt.randn(4, 3, requires_grad=True)
y = (x * 2 + 1).sum(dim=1, keepdim=True).relu_()
z = lt.add(x, 1, alpha=2, out=lt.zeros(4, 3)) + lt.sum(input=x, dim=0)
q: lt.Tensor = 1 - x @ x.T
q += y[0]
mask: lt.Tensor = q == 0
model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
loss = nn.functional.mse_loss(model(x), lt.zeros(4, 4))
loss.backward()


class Net(nn.Module):
    def forward(self, x: lt.Tensor, scale: float = 1.0) -> tuple[lt.Tensor, int]:
        return x * scale, 1


def count(layers: nn.ModuleList, net: nn.Module) -> None:
    hidden: lt.Tensor = nn.Linear(3, 4)(x)
    scaled, n = Net()(hidden, scale=2.0)
    print(n + scaled.numel(), layers[0](x, 1, k=2).numel(), net(x, "any").numel())


if x.grad is not None:
    print(x.grad.detach().cpu().numpy().mean(), x.grad.tolist(), x.shape[0] + x.numel(), mask, z)
"""
FAULTY = """
import lazytensor

t = lazytensor.ones(2, 3)
lazytensor.ones(2).no_such()
t.sum(dim="x")
lazytensor.sum(t, dim="x")
lazytensor.no_such(t)
t.add()
t.T.item().no_such
lazytensor.nn.Linear(3, 4)(t).no_such
lazytensor.nn.Linear(3, 4)(t, t)
"""
FAULTY_LINES = {5, 6, 7, 8, 9, 10, 11, 12}


def test_stub_is_what_the_marked_functions_say():
    assert method_stub.PATH.read_text(encoding="utf-8") == method_stub.stub(), "run python -m tests.method_stub"


def test_no_name_of_a_member_is_claimed_twice():
    names = [name for f, mark in marked_functions() for name in build_members(f, mark)]
    assert sorted({n for n in names if names.count(n) > 1}) == []


@pytest.mark.parametrize("function, mark", marked_functions(), ids=lambda v: getattr(v, "__name__", ""))
def test_every_member_is_on_tensor_and_says_what_it_does(function, mark):
    for name in build_members(function, mark):
        assert inspect.getattr_static(lt.Tensor, name).__doc__, name


def test_every_module_with_marked_functions_is_attached():
    modules = {m.__name__ for m in FAMILIES}
    others = [m for n, m in sys.modules.items() if n.startswith("lazytensor.") and n not in modules]
    stray = [f for m in others for f in vars(m).values() if isinstance(f, FunctionType) and f.__module__ == m.__name__]
    assert [f.__name__ for f in stray if member_marks(f) and "<locals>" not in f.__qualname__] == []


def test_a_method_is_public_unless_it_is_listed():
    plain = {n for f, mark in marked_functions() for n in mark.names if not mark.is_property}
    plain = {n for n in plain if not n.endswith("_")}
    assert plain - set(lt.PUBLIC) - METHODS_ONLY == set()
    assert {n for n in METHODS_ONLY if n in vars(lt) and inspect.isfunction(vars(lt)[n])} == {"trace"}


@pytest.mark.parametrize(
    "module, names", [(lt, lt.PUBLIC), (functional, functional.FUNCTION_NAMES)], ids=["lazytensor", "nn"]
)
def test_public_functions_stand_in_the_file_under_their_own_name(module, names):
    source = inspect.getsource(module)
    functions = {n: vars(module)[n] for n in names if inspect.isfunction(vars(module)[n])}
    assert {n for n in functions if f"{n} = " not in source and f"as {n}\n" not in source} == set()
    own = {n for n, f in functions.items() if f.__name__ == n}
    # Two functions have another name in `torch` than where they are written.
    assert {n for n, f in functions.items() if f.__name__ not in own} <= {"inverse", "promote_types"}


def test_marks_add_up_and_names_replace_the_own_one():
    @method(names="first second", in_place=True)
    @method
    def f(x):
        return x

    assert [mark.names for mark in member_marks(f)] == [("f",), ("first", "second")]
    assert sorted(build_members(f, member_marks(f)[1])) == ["first", "first_", "second", "second_"]
    assert isinstance(build_members(f, member_marks(tensor_property(names="g")(f))[-1])["g"], property)
    assert member_marks(3) == ()


@pytest.fixture
def scripts(tmp_path):
    (tmp_path / "sound.py").write_text(SOUND)
    (tmp_path / "faulty.py").write_text(FAULTY)
    return tmp_path


@pytest.mark.slow
def test_mypy_knows_tensors(scripts, monkeypatch):
    monkeypatch.setenv("MYPYPATH", str(ROOT))
    cache = f"--cache-dir={ROOT / '.mypy_cache' / 'scripts'}"
    # Mypy raises the limit of recursion for good: what nests too deeply for it would not for tests behind this one.
    limit = sys.getrecursionlimit()
    report, _, _ = api.run(["--strict", "--config-file=", cache, str(scripts / "sound.py"), str(scripts / "faulty.py")])
    sys.setrecursionlimit(limit)
    places = [line.split(":")[:2] for line in report.splitlines() if ": error:" in line]
    assert {(file.rpartition("/")[2], int(n)) for file, n in places} == {("faulty.py", n) for n in FAULTY_LINES}, report


@pytest.mark.process
@pytest.mark.skipif(not importlib.util.find_spec("basedpyright"), reason="basedpyright is not installed")
def test_pyright_knows_tensors(scripts):
    options = {"extraPaths": [str(ROOT)], "typeCheckingMode": "standard"}
    (scripts / "pyrightconfig.json").write_text(json.dumps(options))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "-p", str(scripts)]
    done = subprocess.run(command, cwd=scripts, capture_output=True, text=True)
    found = [d for d in json.loads(done.stdout)["generalDiagnostics"] if d["severity"] == "error"]
    places = {(d["file"].rpartition("/")[2], d["range"]["start"]["line"] + 1) for d in found}
    assert places == {("faulty.py", n) for n in FAULTY_LINES}, done.stdout


def test_packages_say_that_they_are_typed():
    shipped = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["*"]
    assert {"py.typed", "*.pyi"} <= set(shipped)
    assert [p for p in ("lazytensor", "wse_sim", "cstorch_compat") if not (ROOT / p / "py.typed").is_file()] == []
