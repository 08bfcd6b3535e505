"""Locations in printed CIRH: valid MLIR, one row for a place, and the user's frames that the vendor prints."""

import re
import sys

from hypothesis import given
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor import nn
from lazytensor.cirh.locations import append_locations, location
from lazytensor.cirh.printer import cirh_text
from lazytensor.core import source
from lazytensor.core.dtype import float32
from lazytensor.ir.graph import Graph, node, topological
from lazytensor.ir.types import Type, Where
from lazytensor.ops import call
from lazytensor.testing import batch, state
from tests.lazytensor.cirh.mlir_locations import parsed, table, without_locations

NAMES = st.text('ab /(:"\\\n\x7f\u00e9\U0001f600', min_size=1)
FRAMES = st.lists(st.tuples(NAMES, NAMES, st.integers(1, 10**6)), max_size=4).map(tuple)


def placed(place):
    """A node of its own, as nodes are equal whatever their place."""
    n = node("batch", (), {"index": 0, "name": "x", "type": Type((), float32)}, Type((), float32))
    n.where = place
    return n


@given(NAMES, st.integers(1, 10**6), FRAMES)
def test_any_name_of_a_file_or_function_reads_back(file, line, frames):
    name, back = parsed(location(placed(Where(file, line, "model.fc", frames, "linear"))))
    assert name == "model.fc.fwd/aten::linear"
    assert back == list(frames or [("", file, line)])


def test_a_place_is_one_row_and_no_place_is_unknown():
    place = placed(Where("a.py", 1, "fc.bwd"))
    assert append_locations([("x", place), ("y", None), ("z", place)]) == [
        "#loc0 = loc(unknown)",
        "x loc(#loc1)",
        "y loc(#loc0)",
        "z loc(#loc1)",
        '#loc1 = loc("fc.bwd/aten::batch"("a.py":1:0))',
    ]


def test_a_file_is_said_as_it_is_imported(monkeypatch):
    monkeypatch.setattr("sys.path", ["", "/home/me", "/home/me/src/", "/home/m"])
    said = [
        location(placed(Where(f, 1))) for f in ("/home/me/src/net/fc.py", "/home/me/a.py", "/home/men/b.py", "c.py")
    ]
    assert [re.search(r'\("(.*)":1:0\)', s)[1] for s in said] == ["net/fc.py", "a.py", "/home/men/b.py", "c.py"]


def test_locations_are_all_that_they_add():
    x, w = batch(0, Type((3,), float32)), state("model.w", Type((3,), float32))
    new = call("add", call("sin", x), call("full", value=1.625, type=x.type))
    graph = Graph((x,), {"model.w": w}, (call("mul", new, w),), {"model.w": new}, ("y",))
    text = cirh_text(graph, locations=True)
    assert without_locations(text) == cirh_text(graph)
    names = [parsed(place)[0] for reference, place in table(text).items() if reference != "#loc0"]
    assert names == ["aten::full", "aten::sin", "aten::add", "aten::mul"]


def test_block_without_a_name_is_said_as_the_module_around_it():
    source.push_scope("fc")
    source.push_block("")
    name, _ = parsed(location(placed(source.where())))
    source.reset()
    assert name == "fc.fwd/aten::batch"


# The user's frames as recorded from cerebras_pytorch 2.10.0, which prints those of its own files between them.
SCRIPT = """
import torch
import torch.nn as nn
import cerebras.pytorch as cstorch

def helper(x):
    return x * 3

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        x = self.fc(x)
        with cstorch.name_scope("inner"):
            x = x.tanh()
        return helper(x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

backend = cstorch.backend("CSX", validate_only=True)
compiled = cstorch.compile(Net(), backend)

@cstorch.trace
def step(x):
    x = x.sin()
    x = compiled(x)
    with cstorch.name_scope("mine"):
        x = x.cos()
    return helper(x).sum()

@cstorch.step_closure
def show(x):
    pass

loader = cstorch.utils.data.DataLoader(lambda: [torch.ones(5, 4)] * 3)
for x in cstorch.utils.data.DataExecutor(loader, num_steps=1):
    show(step(x))
"""

MODEL = [("forward", 27), ("step", 36), ("<module>", 47)]
LINEAR = ["Cast", "Cast", "MatMul", "BroadcastInDim", "Add"]
RECORDED = [
    ("Sin", "", [("step", 35), ("<module>", 47)]),
    *((operation, f"layers.{i}.fc.fwd", [("forward", 15), *MODEL]) for i in (0, 1) for operation in LINEAR),
    ("Cast", "layers.0.fc.fwd", [("forward", 15), *MODEL]),  # of what comes in
    *[("Tanh", "inner", [("forward", 17), *MODEL])] * 2,
    *(("Mul", f"layers.{i}.fwd", [("helper", 7), ("forward", 18), *MODEL]) for i in (0, 1)),
    ("Cos", "mine", [("step", 38), ("<module>", 47)]),
    *((operation, "", [("step", 39), ("<module>", 47)]) for operation in ("Cast", "Reduce")),
    ("Mul", "", [("helper", 7), ("step", 39), ("<module>", 47)]),
]


def test_scopes_and_users_frames_are_those_that_the_vendor_prints(script, tmp_path):
    done = script(SCRIPT, preamble="")
    assert done.returncode == 0, done.stderr
    (text,) = (path.read_text() for path in tmp_path.rglob("cirh.mlir"))
    places = table(text)
    said = []
    for operation, reference in re.findall(r"= cirh\.(?!Const)(\w+) .* loc\((#loc\d+)\)", text):
        name, frames = parsed(places[reference])
        assert {file for _, file, _ in frames} == {"script.py"}
        # The whole model is `model` with us, as its state is, and has no name of its own in the original.
        scope = name.rpartition("/")[0].removeprefix("model.")
        said.append((operation, scope, [(function, line) for function, _, line in frames]))
    assert sorted(said) == sorted(RECORDED)


def line() -> int:
    """The number of the line that calls this."""
    return sys._getframe(1).f_lineno


def lines_of(*tensors):
    """The lines of all operations that tensors were computed by, by name."""
    nodes = topological([t.node for t in tensors])
    return {(n.op, n.where.line) for n in nodes if n.op not in ("leaf", "full", "const")}


class Twice(nn.Module):
    def forward(self, x):
        self.at = line() + 1
        return nn.Sequential(nn.Sigmoid(), nn.Tanh())(x + x)


def test_layers_of_ours_have_the_line_that_calls_them_and_the_users_have_their_own():
    inner, hooked = Twice(), nn.ReLU()
    hooks = []

    def hook(module, args, y):
        hooks.append(line() + 1)
        return y.exp()

    hooked.register_forward_hook(hook)
    model = nn.Sequential(nn.Sigmoid(), inner, nn.Tanh(), hooked, nn.ReLU())
    x = lt.ones(3)
    for _ in range(2):
        here = line() + 1
        y = model(x.sin())
        assert {("sin", here), ("sigmoid", here), ("tanh", here), ("relu", here)} <= lines_of(y)
        assert {("add", inner.at), ("sigmoid", inner.at), ("tanh", inner.at), ("exp", hooks[-1])} <= lines_of(y)
        x = x * 2  # nodes of its own


def test_an_activation_of_the_users_has_its_own_lines():
    at = []

    def activation(x):
        at.append(line() + 1)
        return x.sin()

    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, activation=activation)
    here = line() + 1
    lines = lines_of(layer(lt.ones(3, 1, 4)))
    assert ("sin", at[0]) in lines
    assert {n for op, n in lines if op != "sin"} == {here}


def test_what_limits_gradients_has_the_line_that_asks_for_it():
    p = nn.Parameter(lt.ones(3))
    p.sin().sum().backward()
    here = line() + 1
    total = nn.utils.clip_grad_norm_([p], 0.1)
    assert ("l2_norm", here) in lines_of(total)
    assert ("reciprocal", here) in lines_of(p.grad)
