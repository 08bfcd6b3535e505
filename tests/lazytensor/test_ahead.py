"""Steps that are begun before all of them is known: the same bits, whatever comes in between."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor import config, nn, optim
from lazytensor.capture import Capture
from lazytensor.compiler.pipeline import HOST, compile_graph
from lazytensor.dtype import float32
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Graph
from lazytensor.ir.types import Type
from lazytensor.nn import functional as F
from lazytensor.ops import call
from lazytensor.ops.products import matmul
from lazytensor.runtime import blas, chain, team
from lazytensor.runtime.host import PART_FLOPS, HostBackend, HostExecutable
from lazytensor.runtime.store import Store
from lazytensor.step import MISSES, StepRunner
from lazytensor.testing import batch

pytestmark = pytest.mark.skipif(chain.functions() is None, reason="threads of this system wait in another way")
RNG = np.random.default_rng(0)
X, W = RNG.standard_normal((256, 128), "f4") / 4, RNG.standard_normal((16, 256), "f4") / 16


@pytest.fixture(autouse=True)
def machine_code(monkeypatch):
    if not config.current().jit:
        pytest.skip("nothing is machine code here")
    # A script that another test has run in this process may have set its own number of threads.
    monkeypatch.setattr(team, "_limit", [0])


def steps() -> HostExecutable:
    """A program of products in parts and of loops; its second array comes late."""
    x, w = batch(0, Type(X.shape, float32)), batch(1, Type(W.shape, float32))
    y = call("tanh", matmul(x, x, transpose_b=True))
    graph = Graph((x, w), {}, (call("exp", matmul(w, y)), call("exp", matmul(y, y))), {})
    return HostBackend().compile(compile_graph(graph, HOST), Store())


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_what_was_begun_gives_the_same_bits(threads):
    with config.override(threads=threads):
        executable = steps()
        expected = [f.copy() for f in executable.step([X, W])]
        for factor in (1, 1, -1, 1) * 20:
            executable.begin([X * factor])
            assert bool(executable._begun) == (threads > 1)
            if factor < 0:
                executable.drop()
            for ours, other in zip(executable.step([X, W]), expected, strict=True):
                np.testing.assert_array_equal(ours, other)


def test_another_chain_and_another_thread_have_the_crew_at_once():
    with config.override(threads=2):
        one, two = steps(), steps()
        expected = [f.copy() for f in one.step([X, W])]
        results = [two.step([X, W])]
        for _ in range(20):
            one.begin([X])
            thread = threading.Thread(target=lambda: results.append(two.step([X, W])))
            thread.start()
            thread.join(60)
            results.append(one.step([X, W]))
        for fetched in results:
            for ours, other in zip(fetched, expected, strict=True):
                np.testing.assert_array_equal(ours, other)


def test_blas_has_its_threads_again_when_what_was_begun_is_over():
    executable = steps()
    executable.step([X, W])
    for end in (executable.drop, lambda: executable.step([X, W])):
        executable.begin([X])
        end()
        assert not blas._steps
    executable.begin([X])
    with pytest.raises(ShapeError):
        executable.step([X])
    executable.drop()
    assert not blas._steps


def test_nothing_is_begun_before_the_first_step_and_without_what_comes_late():
    with config.override(threads=2):
        executable = steps()
        executable.begin([X])
        assert not executable._begun
        executable.step([X, W])
        # What reads the second array waits for it, and so does all behind that.
        counts = [executable._first(n)[1] for n in range(3)]
        assert counts[0] == 0 < counts[1] < counts[2]


@pytest.mark.parametrize(("side", "is_begun"), [(128, True), (2048, False)])
def test_a_part_that_takes_long_is_not_begun(side, is_begun):
    x = batch(0, Type((side, side), float32))
    graph = Graph((x,), {}, (matmul(x, x),), {})
    executable = HostBackend().compile(compile_graph(graph, HOST), Store())
    longest = max(2 * side**3 // step.count for step in executable._steps if isinstance(step, chain.Parts))
    assert (longest <= PART_FLOPS) == is_begun
    assert (executable._waits[0] == 1) == is_begun


class Loop:
    """A model that is trained as the CPU backend does it, begun early or not."""

    def __init__(self, begins: bool, *layers: nn.Module):
        lt.manual_seed(1)
        self.begins, self.store = begins, Store()
        self.runner = StepRunner(HostBackend(), self.store)
        self.model = nn.Sequential(*layers, nn.Linear(32, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 8))
        for name, p in self.model.named_parameters():
            p.cell.state = name
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def step(self, kind: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """One step; `kind` says what of it is not as in the step before."""
        tensors = lt.tensor(x), lt.tensor(y)
        if kind == "written":
            with lt.no_grad():
                self.model[-1].bias.mul_(0.5)
        if kind == "rate":
            self.optimizer.param_groups[0]["lr"] *= 0.5
        capture = Capture(self.store, readable=True)
        for k, t in enumerate(tensors):
            capture.feed(t.cell, k, f"input[{k}]")
        try:
            if self.begins:
                self.runner.begin(capture)
            with capture:
                out = self.body(kind, *tensors)
                if kind == "raised":
                    raise KeyError("the script's own")
                self.runner.run(capture)
        except KeyError:
            return np.zeros(())
        finally:
            self.runner.end()
        return out.numpy().copy()

    def body(self, kind: str, x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        self.model.train(kind != "evaluated")
        loss = F.cross_entropy(self.model(x), y)
        if kind == "evaluated":
            return loss
        if kind == "read":
            loss = loss * (1 + float(loss.item() > 0))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss


KINDS = st.lists(st.sampled_from(["same"] * 6 + ["written", "rate", "evaluated", "read", "raised"]), max_size=14)


@settings(max_examples=25, deadline=None)
@given(KINDS, st.sampled_from([2, 3]))
def test_a_loop_computes_what_it_does_without_looking_ahead(kinds, threads):
    rng = np.random.default_rng(len(kinds))
    batches = [(rng.standard_normal((64, 32), "f4"), rng.integers(0, 8, 64)) for _ in range(3)]
    losses, state = [], []
    with config.override(threads=threads):
        for begins in (True, False):
            loop = Loop(begins)
            every = enumerate(["same", "same", "same", *kinds, "same"])
            losses.append([loop.step(kind, *batches[k % 3]) for k, kind in every])
            state.append([loop.store.array(name) for name in loop.store])
    for ours, other in (losses, state):
        for one, two in zip(ours, other, strict=True):
            np.testing.assert_array_equal(one, two)
    assert not blas._steps


def test_a_loop_that_goes_on_as_before_is_begun_and_one_that_never_does_is_let_be(monkeypatch):
    begun, inner = [], HostExecutable.begin

    def counted(self, batch) -> None:
        begun.append(len(batch))
        inner(self, batch)

    monkeypatch.setattr(HostExecutable, "begin", counted)
    x, y = RNG.standard_normal((64, 32), "f4"), RNG.integers(0, 8, 64)
    loop = Loop(True)
    for _ in range(6):
        loop.step("same", x, y)
    assert len(begun) == 4  # the third step is the first that came twice before
    for _ in range(3 * MISSES):
        loop.step("written", x, y)
    assert len(begun) == 4 + MISSES


def test_who_records_in_vain_lets_go_of_what_was_begun():
    x, y = RNG.standard_normal((64, 32), "f4"), RNG.integers(0, 8, 64)
    with config.override(threads=2):
        loop = Loop(True)
        for _ in range(4):
            loop.step("same", x, y)
        loop.step("raised", x, y)
        assert chain._crew(2)._ahead is None


def test_a_step_that_was_begun_is_refused_as_any_other():
    with config.override(threads=2):
        loop = Loop(True, nn.Embedding(50, 32))
        x, y = RNG.integers(0, 50, 64), RNG.integers(0, 8, 64)
        for _ in range(4):
            loop.step("same", x, y)
        with pytest.raises(IndexError):
            loop.step("same", x + 1000, y)
        assert np.isfinite(loop.step("same", x, y))
