"""Kernels of sums whose terms are sums themselves."""

import numpy as np

from lazytensor.compiler.pipeline import HOST, compile_graph
from lazytensor.core.dtype import float32
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Type
from lazytensor.ops import call
from lazytensor.ops.reduce import reduce
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.state_store import Store
from lazytensor.testing import batch


def test_two_sums_of_sums_of_any_length_compile():
    # LLVM ended the process where it made vectors of two, as for rows of 10.
    a, b = np.random.default_rng(0).standard_normal((2, 20, 40), "f4")
    for n in range(2, 40):
        x, y = batch(0, Type((20, n), float32)), batch(1, Type((20, n), float32))
        sums = tuple(reduce(call(op, x, y), "add", (1,)) for op in ("add", "sub"))
        step = HostBackend().compile(compile_graph(Graph((x, y), {}, sums, {}), HOST), Store())
        given = [np.ascontiguousarray(v[:, :n]) for v in (a, b)]
        for got, expected in zip(step.step(given), (given[0] + given[1], given[0] - given[1]), strict=True):
            np.testing.assert_allclose(got, expected.sum(1), rtol=1e-4, atol=1e-5)
