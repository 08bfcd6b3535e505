"""Ways to compare: units in the last place, and a compiled program against the reference interpreter."""

import numpy as np

from lazytensor.compiler.pipeline import UNLOWERED, Target, compile_graph
from lazytensor.ir.graph import Graph
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.reference import evaluate
from lazytensor.runtime.state_store import Store

TINY = np.float64(2.0**-149)


def ulp_error(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Distance of float32 `got` from float64 `want` in units of the last place of float32; 0 where both are equal."""
    with np.errstate(all="ignore"):
        nearest = np.asarray(want, np.float64).astype(np.float32)
        place = np.maximum(np.spacing(np.abs(nearest)).astype(np.float64), TINY)
        error = np.abs(np.asarray(got, np.float64) - want) / place
        return np.where((got == nearest) | (np.isnan(got) & np.isnan(nearest)), 0.0, error)


def assert_ulp_close(got: np.ndarray, want: np.ndarray, ulp: float) -> None:
    """Every element of float32 `got` lies within `ulp` places of `want`; infinities and NaN agree."""
    error = np.nan_to_num(ulp_error(got, want), nan=np.inf)
    worst = np.argmax(error)
    assert error.flat[worst] <= ulp, f"{error.flat[worst]} ULP: {np.ravel(got)[worst]} for {np.ravel(want)[worst]}"


def run_reference(graph: Graph, batches: list[list[np.ndarray]], start: dict[str, np.ndarray]):
    """The fetches of each step and the last state, by the interpreter."""
    held = {s: a.copy() for s, a in start.items()}
    fetched = []
    for arrays in batches:
        env = dict(zip(graph.inputs, arrays, strict=True)) | {graph.state[s]: a for s, a in held.items()}
        values = [np.array(v) for v in evaluate(graph.roots(), env)]
        held |= dict(zip(graph.updates, values, strict=False))
        fetched.append(values[len(graph.updates) :])
    return fetched, held


def run_host(graph: Graph, batches: list[list[np.ndarray]], start: dict[str, np.ndarray], target: Target = UNLOWERED):
    """The same by the program that is compiled for a target."""
    store = Store()
    for s, a in start.items():
        store.add(s, a)
    executable = HostBackend().compile(compile_graph(graph, target), store)
    fetched = [[np.array(v) for v in executable.step(arrays)] for arrays in batches]
    return fetched, store.snapshot()


def assert_same(got, want, rtol: float = 0.0) -> None:
    """Two results of `run_host` or `run_reference` agree: in every bit, or within `rtol` of the values or of 1."""
    pairs = [(g, w) for gs, ws in zip(got[0], want[0], strict=True) for g, w in zip(gs, ws, strict=True)]
    pairs += [(got[1][s], want[1][s]) for s in want[1]]
    for g, w in pairs:
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        if rtol:
            np.testing.assert_allclose(g, w, rtol=rtol, atol=rtol)
        else:
            np.testing.assert_array_equal(g, w)
