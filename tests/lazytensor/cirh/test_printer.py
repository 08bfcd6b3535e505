"""CIRH as text: the same lines, arguments and numbers that the vendor's front end printed."""

import collections
import json
import math
import pathlib
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazytensor.cirh.floats import mlir_float
from lazytensor.cirh.generic import ATEN_DIALECT, CIRH_DIALECT, generic_text
from lazytensor.cirh.generic_parser import read_graph
from lazytensor.cirh.listing import ints_text, type_text
from lazytensor.cirh.printer import cirh_text, torch_text
from lazytensor.core import dtype as dt
from lazytensor.core.dtype import round_to
from lazytensor.errors import CompileError
from lazytensor.hlo.custom_calls import unwrap
from lazytensor.hlo.parser import read_hlo
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Type
from lazytensor.ops import call
from lazytensor.testing import batch, state
from tests.conftest import python
from tests.lazytensor.cirh.mlir_locations import without_locations
from tests.lazytensor.cirh.mlir_tools import by_way_of_mlir, by_way_of_xdsl

GOLDEN = pathlib.Path(__file__).parents[2] / "golden"
FACTS = json.loads((GOLDEN / "floats.json").read_text())["facts"]
FLOATS = [d for d in dt.ALL if d.kind == "f"]

# Each program is traced in a process of its own, since a backend is one per process.
SCRIPT = """
import os, sys
import cstorch_compat
cstorch_compat.install()
import torch
import torch.nn as nn
import torch.nn.functional as F
import cerebras.pytorch as cstorch

class Function(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *inputs):
        return self.f(*inputs)

class TwoLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))

optim = cstorch.optim
MODELS = {
    "nn_linear": lambda: nn.Linear(6, 5),
    "nn_mlp3": lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 3)),
    "op_relu": lambda: Function(F.relu),
    "op_sum": lambda: Function(lambda x: x.sum()),
    "op_mean_d1": lambda: Function(lambda x: x.mean(1)),
    "op_mean_keep": lambda: Function(lambda x: x.mean(-1, keepdim=True)),
    "op_add_scalar": lambda: Function(lambda x: x + 1.5),
    "op_expand": lambda: Function(lambda x: x.unsqueeze(0).expand(3, 4, 6)),
    "two_outputs": lambda: Function(lambda x: (x + 1, x * 2)),
    "op_sort": lambda: Function(lambda x: x.sort(1)[0]),
    "op_flip": lambda: Function(lambda x: x.flip(1)),
    "op_pad": lambda: Function(lambda x: F.pad(x, (1, 2))),
    "op_cumsum": lambda: Function(lambda x: x.cumsum(1)),
    "op_chunk": lambda: Function(lambda x: x.chunk(2, -1)[1]),
    "op_isfinite": lambda: Function(torch.isfinite),
    "op_roll": lambda: Function(lambda x: x.roll(1, 1)),
    "op_triu": lambda: Function(torch.triu),
    "nn_layernorm": lambda: nn.LayerNorm(6),
    "nn_groupnorm": lambda: nn.GroupNorm(2, 4),
    "nn_conv1d": lambda: nn.Conv1d(3, 5, 3, padding=1),
    "nn_convT2d": lambda: nn.ConvTranspose2d(3, 5, 2, stride=2),
    "nn_adaptiveavg": lambda: nn.AdaptiveAvgPool2d(1),
    "nn_embedding": lambda: nn.Embedding(10, 6),
    "gather": lambda: Function(lambda x, i: torch.gather(x, 1, i.long())),
    "scatter": lambda: Function(lambda x, i: torch.zeros_like(x).scatter(1, i.long(), x)),
    "index_tensor": lambda: Function(lambda x, i: x[i.long()]),
    "one_hot": lambda: Function(lambda i: cstorch.nn.functional.one_hot(i.long(), 6).float()),
    "cs_bias_add": lambda: Function(lambda a, b: cstorch.nn.functional.bias_add(a, b[0], 1)),
    "cs_nth_order": lambda: Function(lambda a: cstorch.nn.functional.nth_order_statistic(a, 2, 1).float()),
    "cs_scope": lambda: Function(scoped),
    "op_split": lambda: Function(lambda x: sum(torch.split(x, 2, dim=1))),
    "outer": lambda: Function(lambda a, b: torch.outer(a, b)),
    "einsum_bhqd": lambda: Function(lambda a, b: torch.einsum("bhqd,bhkd->bhqk", a, b)),
    "sdpa": lambda: Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v)),
    "bernoulli": lambda: Function(lambda x: torch.bernoulli(x.abs() * 0 + 0.5)),
    "fold_addmul": lambda: Function(lambda x: x * 0 + 1 + x),
    "fold_tt": lambda: Function(lambda x: x.t().t()),
    "fold_3div": lambda: Function(lambda x: 3.0 / x),
    "nn_batchnorm2d_train": lambda: nn.BatchNorm2d(3),
    "bin_mm_t": lambda: Function(lambda a, b: a @ b.t()),
    "op_topk_small": lambda: Function(lambda x: x.topk(3, dim=0, largest=False)[0]),
    "grad_maxpool": lambda: nn.Sequential(nn.Conv2d(3, 5, 3), nn.MaxPool2d(2)),
}

def scoped(a):
    return cstorch.nn.functional.exit_scope(cstorch.nn.functional.enter_scope(a, "sc") * 2, "sc")

def numbers(*shape):
    return torch.zeros(shape, dtype=torch.int32)

# What a program takes if not one float32 tensor of 4x6.
INPUTS = {
    "nn_groupnorm": (torch.ones(2, 4, 3, 3),),
    "nn_conv1d": (torch.ones(2, 3, 8),),
    "nn_convT2d": (torch.ones(2, 3, 4, 4),),
    "nn_adaptiveavg": (torch.ones(2, 3, 8, 8),),
    "nn_embedding": (numbers(2, 4),),
    "gather": (torch.ones(4, 6), numbers(4, 6)),
    "scatter": (torch.ones(4, 6), numbers(4, 6)),
    "index_tensor": (torch.ones(4, 6), numbers(4)),
    "one_hot": (numbers(4),),
    "cs_bias_add": (torch.ones(4, 6, 2), torch.ones(4, 6)),
    "outer": (torch.ones(5), torch.ones(5)),
    "einsum_bhqd": (torch.ones(2, 3, 4, 6), torch.ones(2, 3, 5, 6)),
    "sdpa": (torch.ones(2, 3, 4, 8),) * 3,
    "nn_batchnorm2d_train": (torch.ones(2, 3, 4, 4),),
    "bin_mm_t": (torch.ones(4, 6), torch.ones(4, 6)),
    "grad_maxpool": (torch.ones(2, 3, 8, 8),),
}
OPTIMIZERS = {
    "train_opt_sgd_mom": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "train_opt_sgd_nest": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "train_opt_adam": lambda p: optim.Adam(p, lr=0.01),
    "train_scaler_clipped": lambda p: optim.SGD(p, lr=0.1),
    "grad_maxpool": lambda p: optim.SGD(p, lr=0.1),
}
X, LABELS = torch.linspace(-1, 1, 24).reshape(4, 6), (torch.arange(4) % 3).to(torch.int32)

def lower(name):
    model = (MODELS.get(name) or TwoLayers)()
    compiled = cstorch.compile(model, cstorch.backend("CSX", validate_only=True))
    optimizer = OPTIMIZERS[name](list(model.parameters())) if name in OPTIMIZERS else None
    model.train(optimizer is not None or name.endswith("_train"))
    batch = INPUTS.get(name, (X, LABELS) if optimizer else (X,))
    scaler = cstorch.amp.GradScaler("dynamic") if name == "train_scaler_clipped" else None
    if name == "grad_maxpool":
        cstorch.amp.enable_mixed_precision(False)
    loader = cstorch.utils.data.DataLoader(lambda: [batch] * 3)

    @cstorch.trace
    def step(given):
        if optimizer is None:
            return compiled(*given)
        optimizer.zero_grad()
        y, *labels = compiled(given[0]), *given[1:]
        loss = F.cross_entropy(y, labels[0].long()) if labels else (y**2).sum()
        (scaler.scale(loss) if scaler else loss).backward()
        if scaler:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        return loss

    @cstorch.step_closure
    def sink(o):
        pass

    for given in cstorch.utils.data.DataExecutor(loader, num_steps=1):
        sink(step(given))

for name in {**MODELS, **OPTIMIZERS}:
    os.makedirs(name)
    child = os.fork()
    if child == 0:
        os.chdir(name)
        lower(name)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> pathlib.Path:
    """A folder with what the front end left of each program, in one of its name."""
    folder = tmp_path_factory.mktemp("cirh")
    done = python("-c", SCRIPT, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def lowered(programs) -> dict[str, str]:
    """The CIRH of each program by name."""
    return {p.relative_to(programs).parts[0]: without_locations(p.read_text()) for p in programs.rglob("cirh.mlir")}


def operations(text: str) -> collections.Counter:
    """The operation lines without the names of values; a constant counts once."""
    lines = [re.sub(r"%[\w#]+", "%", line.split(" = ", 1)[1]) for line in text.splitlines() if re.match(r" +%", line)]
    return collections.Counter(
        {k: 1 if " dense" in k and "Const" in k else n for k, n in collections.Counter(lines).items()}
    )


def interface(text: str) -> tuple[list[str], list[str], str]:
    """Arguments and results in no order, without the numbers that tie them, and the attributes."""
    signature = re.search(r"func @graph\((.*)\) -> \((.*)\) attributes (.*) \{", text)
    arguments, results, attributes = signature.groups()
    kinds = [re.sub(r"aliasing_output = \d+", "aliasing_output", a) for a in re.split(r",? ?%arg\d+: ", arguments)]
    return sorted(kinds), sorted(re.findall(r"tensor<[^>]*>(?: \{[^}]*\})?", results)), attributes


@pytest.mark.process
@pytest.mark.parametrize("name", sorted(p.stem for p in (GOLDEN / "cirh").glob("*.mlir")))
def test_program_lowers_to_the_lines_of_the_vendor(name, lowered):
    want = (GOLDEN / "cirh" / f"{name}.mlir").read_text()
    got = lowered[name]
    assert operations(got) == operations(want)
    assert interface(got) == interface(want)


def generic(programs: pathlib.Path) -> list[str]:
    """Both graphs of each program in MLIR's generic form."""
    texts = [p.read_text() for name in ("torch", "cirh") for p in programs.rglob(f"{name}.generic.mlir")]
    assert len(texts) == 2 * len(list((GOLDEN / "cirh").glob("*.mlir")))
    return texts


@pytest.mark.process
@pytest.mark.parametrize("way", [lambda *texts: map(by_way_of_xdsl, texts), by_way_of_mlir], ids=["xdsl", "mlir-opt"])
def test_tools_read_both_graphs_of_every_program(way, programs):
    for text, again in zip(generic(programs), way(*generic(programs)), strict=True):
        dialect = CIRH_DIALECT if f'"{CIRH_DIALECT}.' in text else ATEN_DIALECT
        # Nodes are interned: while the first graph lives, an equal one has its nodes, with attributes in their order.
        graph = read_graph(text)
        assert generic_text(read_graph(again), dialect) == generic_text(graph, dialect) == text


@pytest.mark.process
def test_custom_calls_of_every_program_unwrap_to_its_graph(programs):
    folders = [p.parent for p in programs.rglob("hlo.mlir")]
    assert len(folders) == len(list((GOLDEN / "cirh").glob("*.mlir")))
    for folder in folders:
        for name in ("hlo", "hlo.generic"):
            graph = unwrap(read_hlo((folder / f"{name}.mlir").read_text()))
            assert generic_text(graph) == (folder / "torch.generic.mlir").read_text()


@pytest.mark.process
def test_aliased_outputs_are_what_the_step_returns_for_that_state(lowered):
    text = lowered["train_opt_sgd_mom"]
    for shape, place in re.findall(r"%arg\d+: (tensor<[^>]*>) \{tf.aliasing_output = (\d+)", text):
        types = re.search(r"return .* : (.*)", text).group(1).split(", ")
        assert types[int(place)] == shape


# -- numbers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, value, text", FACTS)
def test_number_is_spelled_as_the_vendor_spells_it(name, value, text):
    assert mlir_float(float(value), dt.dtype_by_name(name)) == text


@settings(max_examples=300, deadline=None)
@given(st.floats(width=64), st.sampled_from(FLOATS))
def test_spelled_number_reads_back_as_itself(value, dtype):
    with np.errstate(over="ignore"):
        held = float(round_to(np.asarray(value, dtype.host), dtype))
    text = mlir_float(held, dtype)
    if not math.isfinite(held):
        assert re.fullmatch(r"0x[0-9A-F]{4,16}", text)
        return
    back = float(round_to(np.asarray(float(text), dtype.host), dtype))
    assert (back, math.copysign(1, back)) == (held, math.copysign(1, held))


@pytest.mark.parametrize(
    "dtype, value, text",
    [
        (dt.float64, math.inf, "0x7FF0000000000000"),
        (dt.float16, -math.inf, "0xFC00"),
        (dt.bfloat16, math.inf, "0x7F80"),
        (dt.float32, math.nan, "0x7FC00000"),
    ],
)
def test_what_is_not_finite_is_spelled_by_its_bits(dtype, value, text):
    assert mlir_float(value, dtype) == text


# -- attributes --------------------------------------------------------------------------------------------------------


def test_types_and_integer_vectors_have_their_spelling():
    assert type_text(Type((4, 6), dt.float16)) == "tensor<4x6xf16>" and type_text(Type((), dt.bool_)) == "tensor<i1>"
    assert ints_text([0, 2]) == "dense<[0, 2]> : tensor<2xi64>"
    assert ints_text([3, 3]) == "dense<3> : tensor<2xi64>" and ints_text([]) == "dense<> : tensor<0xi64>"


def test_unknown_operation_is_refused_with_the_line_that_wrote_it():
    x = batch(0, Type((3,), dt.float32))
    with pytest.raises(CompileError, match=r"test_printer\.py:\d+: failed to legalize operation 'torch.aten.tan'"):
        cirh_text(Graph((x,), {}, (call("tan", x),), {}))


def test_traced_text_names_operation_type_and_place():
    x, w = batch(0, Type((3,), dt.float32)), state("model.w", Type((3,), dt.float32))
    new = call("add", x, w)
    lines = torch_text(Graph((x,), {"model.w": w}, (call("neg", new),), {"model.w": new})).splitlines()
    assert re.fullmatch(r' +%2 = torch.aten.add\(%0, %1\) : tensor<3xf32> loc\("aten::add"\(".*":\d+:0\)\)', lines[4])
    assert lines[-3] == "    return %2, %3"


def test_state_that_is_only_written_is_an_argument_too():
    w = state("model.w", Type((2,), dt.float32))
    text = cirh_text(Graph((), {"model.w": w}, (), {"model.w": call("full", value=1.0, type=w.type)}))
    assert '%arg0: tensor<2xf32> {tf.aliasing_output = 0 : i64, tf.resource_name = "state.model.w"}' in text
    assert "return %cst : tensor<2xf32>" in text
