"""Locations in printed CIRH: valid MLIR, one row for a place, and the user's frames that the vendor prints."""

import re

from hypothesis import given
from hypothesis import strategies as st

from lazytensor import source
from lazytensor.cirh.locations import located, location
from lazytensor.cirh.text import cirh_text
from lazytensor.dtype import float32
from lazytensor.ir.graph import Graph, node
from lazytensor.ir.types import Type, Where
from lazytensor.ops import call
from lazytensor.testing import batch, state
from tests.mlir_locations import parsed, table, without_locations

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
    assert located([("x", place), ("y", None), ("z", place)]) == [
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
    new = call("add", call("sin", x), call("full", value=1.0, type=x.type))
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
