"""Locations in printed CIRH: valid MLIR, one row for a place, and the user's frames that the vendor prints."""

import re

from hypothesis import given
from hypothesis import strategies as st

from lazytensor.cirh.locations import located, location
from lazytensor.cirh.text import cirh_text
from lazytensor.dtype import float32
from lazytensor.ir.graph import Graph, node
from lazytensor.ir.types import Type, Where
from lazytensor.ops import call
from tests.mlir_locations import parsed, table, without_locations
from tests.strategies import batch, state

NAMES = st.text(st.characters(codec="utf-8"), min_size=1)
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
        return helper(self.fc(x).tanh())

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
    return helper(x).sum()

@cstorch.step_closure
def show(x):
    pass

loader = cstorch.utils.data.DataLoader(lambda: [torch.ones(5, 4)] * 3)
for x in cstorch.utils.data.DataExecutor(loader, num_steps=1):
    show(step(x))
"""

LAYER = [("forward", 24), ("step", 33), ("<module>", 42)]
BLOCK = [("forward", 15), *LAYER]
LINES = ["Cast", "Cast", "MatMul", "BroadcastInDim", "Add"]
RECORDED = [
    ("Sin", "", [("step", 32), ("<module>", 42)]),
    *((operation, f"layers.{i}.fc.fwd", BLOCK) for i in (0, 1) for operation in LINES),
    ("Cast", "layers.0.fc.fwd", BLOCK),  # of what comes in
    *(("Tanh", f"layers.{i}.fwd", BLOCK) for i in (0, 1)),
    *(("Mul", f"layers.{i}.fwd", [("helper", 7), *BLOCK]) for i in (0, 1)),
    ("Mul", "", [("helper", 7), ("step", 34), ("<module>", 42)]),
    ("Cast", "", [("step", 34), ("<module>", 42)]),
    ("Reduce", "", [("step", 34), ("<module>", 42)]),
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
