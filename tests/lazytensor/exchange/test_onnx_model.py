"""Graphs as models of ONNX: sound, and with our numbers when ONNX's own evaluator runs them."""

import numpy as np
import pytest

import lazytensor as lt
from lazytensor.cirh.generic import generic_text
from lazytensor.core import dtype as dt
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Type
from lazytensor.nn import functional as F
from lazytensor.ops import OPS, call
from lazytensor.runtime.reference import evaluate
from lazytensor.testing import batch, state
from tests.conftest import lazywafer
from tests.lazytensor.ops.op_rows import ROWS, Draw

onnx = pytest.importorskip("onnx", reason="needs the extra onnx: pip install onnx")
reference = pytest.importorskip("onnx.reference")

from lazytensor.exchange.onnx_model import onnx_model  # noqa: E402 - of use only with onnx
from lazytensor.exchange.onnx_operations import NODES  # noqa: E402

OWN = "lazywafer"


class Convolutions(lt.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = (
            lt.nn.Conv2d(3, 8, 3, padding=1),
            lt.nn.BatchNorm2d(8),
            lt.nn.Conv2d(8, 8, 3, 2),
        )
        self.last = lt.nn.Linear(72, 5)

    def forward(self, x):
        x = F.relu(self.second(F.max_pool2d(F.relu(self.norm(self.first(x))), 2)))
        return F.log_softmax(self.last(x.flatten(1)), -1)


class Transformer(lt.nn.Module):
    def __init__(self, width=16, heads=2, words=30, places=8):
        super().__init__()
        self.heads = heads
        self.words, self.places = lt.nn.Embedding(words, width), lt.nn.Embedding(places, width)
        self.norms = lt.nn.ModuleList([lt.nn.LayerNorm(width), lt.nn.LayerNorm(width)])
        self.queries, self.out = lt.nn.Linear(width, 3 * width), lt.nn.Linear(width, width)
        self.up, self.down = lt.nn.Linear(width, 4 * width), lt.nn.Linear(4 * width, width)
        self.head = lt.nn.Linear(width, words, bias=False)

    def forward(self, numbers):
        samples, places = numbers.shape
        x = self.words(numbers) + self.places(lt.arange(places))
        parts = self.queries(self.norms[0](x)).chunk(3, -1)
        q, k, v = (part.reshape(samples, places, self.heads, -1).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        x = x + self.out(mixed.reshape(samples, places, -1))
        return self.head(x + self.down(F.gelu(self.up(self.norms[1](x)))))


def dense():
    nn = lt.nn
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 3), nn.Softmax(-1))


def own_nodes(model):
    return {node.op_type for node in model.graph.node if node.domain == OWN}


@pytest.mark.parametrize(
    ("module", "shape"),
    [(dense, (4, 6)), (Convolutions, (2, 3, 16, 16)), (Transformer, (2, 8))],
    ids=["mlp", "cnn", "gpt"],
)
def test_a_model_runs_elsewhere_with_our_numbers(module, shape):
    net, rng = module().eval(), np.random.default_rng(0)
    is_text = module is Transformer
    example = rng.integers(0, 30, shape) if is_text else rng.standard_normal(shape).astype(np.float32)
    model = lt.to_onnx(net, lt.from_numpy(example))
    onnx.checker.check_model(model, full_check=True)
    assert own_nodes(model) == set()
    assert {i.name for i in model.graph.initializer} >= dict(net.named_parameters()).keys()
    (result,) = reference.ReferenceEvaluator(model).run(None, {model.graph.input[0].name: example})
    np.testing.assert_allclose(result, net(lt.from_numpy(example)).detach().numpy(), rtol=1e-5, atol=1e-6)


def case(name):
    """A graph of one operation with every result it has, and its operands."""
    row = ROWS[name]
    kind = {"f": dt.float32, "i": dt.int32, "b": dt.bool_}[row.kinds[0]]
    arrays, attrs = row.make(Draw((3, 3, 3), kind, 0))
    operands = [batch(k, Type(a.shape, dt.dtype_of_array(a))) for k, a in enumerate(arrays)]
    n = call(name, *operands, **attrs)
    outputs = [call("result", n, index=k) for k in range(len(n.type))] if isinstance(n.type, tuple) else [n]
    return Graph(tuple(operands), {}, tuple(outputs), {}), arrays


@pytest.mark.parametrize("name", sorted(ROWS))
def test_an_operation_is_one_of_onnx_with_our_numbers_or_one_of_our_domain(name):
    graph, arrays = case(name)
    model = onnx_model(graph)
    onnx.checker.check_model(model)
    if own_nodes(model):
        assert own_nodes(model) <= OPS.keys()
        return
    onnx.checker.check_model(model, full_check=True)
    feed = {i.attrs["name"]: a for i, a in zip(graph.inputs, arrays, strict=True)}
    wanted = evaluate(list(graph.outputs), dict(zip(graph.inputs, arrays, strict=True)))
    for result, array in zip(reference.ReferenceEvaluator(model).run(None, feed), wanted, strict=True):
        assert result.dtype == array.dtype
        np.testing.assert_allclose(result, array, rtol=2e-5, atol=1e-6)


def test_every_writer_is_asked():
    assert set(NODES) - set(ROWS) <= {"arange", "detach", "full", "variable"}


def test_what_onnx_lacks_has_its_name_and_its_attributes_in_our_domain():
    x = batch(0, Type((2, 3), dt.float32))
    model = onnx_model(Graph((x,), {}, (call("polygamma", x, n=2),), {}, ("y",)))
    onnx.checker.check_model(model)
    node = model.graph.node[0]
    assert (node.domain, node.op_type, node.attribute[0].name, node.attribute[0].i) == (OWN, "polygamma", "n", 2)
    assert [(o.name, [d.dim_value for d in o.type.tensor_type.shape.dim]) for o in model.graph.output] == [
        ("y", [2, 3])
    ]


def test_state_is_an_input_and_its_new_value_a_result():
    x, w = batch(0, Type((3,), dt.bfloat16)), state("w", Type((3,), dt.bfloat16))
    model = onnx_model(Graph((x,), {"w": w}, (x + w,), {"w": w * 2.0}))
    onnx.checker.check_model(model, full_check=True)
    assert [i.name for i in model.graph.input] == ["x0", "w"]
    assert [o.name for o in model.graph.output] == ["new w", "output_0"]


def test_opt_writes_a_model(tmp_path):
    x = batch(0, Type((2, 3), dt.float32))
    (tmp_path / "graph.mlir").write_text(generic_text(Graph((x,), {}, (call("relu", x),), {})))
    done = lazywafer("opt", "--onnx", "graph.onnx", "graph.mlir", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert [node.op_type for node in onnx.load(tmp_path / "graph.onnx").graph.node] == ["Relu", "Identity"]
    refused = lazywafer("opt", "-p", "match,fuse", "--onnx", "nests.onnx", "graph.mlir", cwd=tmp_path)
    assert refused.returncode == 1 and "cannot be written as an ONNX model" in refused.stderr
