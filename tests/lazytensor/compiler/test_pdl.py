"""Patterns in MLIR's dialect pdl: reading, rewriting graphs, agreement with xDSL, and printing the compiler's rules."""

from lazytensor.cirh.pdl_parser import read_patterns
from lazytensor.compiler.pdl_rewrite import Natives, rewrite_with_patterns
from lazytensor.core import dtype as dt
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Type
from lazytensor.ops import call
from lazytensor.testing import batch

T = Type((2, 3), dt.float32)
X, Y = batch(0, T), batch(1, T)
RELU_TWICE = """
pdl.pattern @relu_twice : benefit(1) {
  %type = pdl.type
  %x = pdl.operand : %type
  %inner = pdl.operation "torch.aten.relu"(%x : !pdl.value) -> (%type : !pdl.type)
  %value = pdl.result 0 of %inner
  %root = pdl.operation "torch.aten.relu"(%value : !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %root {
    pdl.replace %root with %inner
  }
}
"""


def relu(x):
    return call("relu", x)


def graph_of(*outputs) -> Graph:
    return Graph((X, Y), {}, outputs, {})


def rewrite(text: str, *outputs, natives: Natives | None = None):
    """The outputs of a graph after the patterns of a text, and the number of rewrites of each pattern."""
    natives = natives or Natives()
    graph, counts = rewrite_with_patterns(graph_of(*outputs), read_patterns(text, natives=natives.names), natives)
    return graph.outputs, counts


def test_a_pattern_is_applied_until_it_no_longer_matches():
    outputs, counts = rewrite(RELU_TWICE, relu(relu(relu(relu(X)))), relu(Y))
    assert outputs == (relu(X), relu(Y)) and counts == {"relu_twice": 3}
