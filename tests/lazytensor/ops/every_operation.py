"""A graph that has a node of each operation with a row of operands."""

from lazytensor.core import dtype as dt
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Type
from lazytensor.ops import call
from lazytensor.testing import batch
from tests.lazytensor.ops.op_rows import ROWS, Draw


def graph_of_every_operation() -> Graph:
    """Return one graph with a node of each operation that has a row of operands."""
    outputs, inputs = [], []
    for name, row in sorted(ROWS.items()):
        kind = {"f": dt.float32, "i": dt.int32, "b": dt.bool_}[row.kinds[0]]
        arrays, attrs = row.make(Draw((3, 3, 3), kind, 0))
        operands = [batch(len(inputs) + k, Type(a.shape, dt.dtype_of_array(a))) for k, a in enumerate(arrays)]
        inputs += operands
        n = call(name, *operands, **attrs)
        outputs += [call("result", n, index=k) for k in range(len(n.type))] if isinstance(n.type, tuple) else [n]
    return Graph(tuple(inputs), {}, tuple(outputs), {})
