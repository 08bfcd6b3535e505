"""The wafer as a backend: the host's numbers, the wafer's clock."""

from collections.abc import Sequence

import numpy as np
import pytest

from lazytensor.errors import LazyError, PlacementError
from lazytensor.runtime.backend import Backend
from tests.wse_sim.programs import mlp, tiny_mlp
from wse_sim.backends import wafer_backend as backend_module
from wse_sim.backends.wafer_backend import WaferBackend
from wse_sim.machine import TINY, WSE2


class Doubler:
    """A host that gives twice its first input back."""

    name = "host"

    def __init__(self):
        self.compiled = []

    def compile(self, program, store):
        self.compiled.append((program, store))
        return _Doubling(program)


class _Doubling:
    report = None
    owned = frozenset()

    def __init__(self, program):
        self.program = program

    def step(self, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [2 * batch[0]]


class Cells:
    def array(self, state):
        return np.zeros(1)


def test_numbers_come_from_the_host_and_cycles_from_the_simulation():
    host, store, program = Doubler(), Cells(), tiny_mlp()
    wafer: Backend = WaferBackend(host, TINY)
    executable = wafer.compile(program, store)
    assert host.compiled == [(program, store)]
    assert executable.program is program
    for n in range(3):
        assert executable.step([np.full(2, n)])[0].tolist() == [2 * n, 2 * n]
    assert executable.steps_run == 3
    assert executable.elapsed_cycles == 3 * executable.report.step_cycles > 0
    assert executable.elapsed_seconds == pytest.approx(executable.elapsed_cycles / 0.85e9)


def test_a_program_is_simulated_once(monkeypatch):
    calls = []
    original = backend_module.plan
    monkeypatch.setattr(backend_module, "plan", lambda *args: calls.append(args) or original(*args))
    wafer, program = WaferBackend(Doubler(), TINY), tiny_mlp()
    first, second = (wafer.compile(program, Cells()) for _ in range(2))
    assert first.report is second.report
    assert wafer.compile(tiny_mlp(), Cells()).report is not first.report
    assert len(calls) == 2


def test_machines_go_by_name():
    assert WaferBackend(Doubler(), "wse2").machine is WSE2
    with pytest.raises(LazyError, match="wse4"):
        WaferBackend(Doubler(), "wse4")
    with pytest.raises(LazyError, match="sideways"):
        WaferBackend(Doubler(), TINY, "sideways")


def test_a_program_that_does_not_fit_is_refused_before_the_host_compiles_it():
    host = Doubler()
    wafer = WaferBackend(host, TINY, "pipelined")
    with pytest.raises(PlacementError, match=r"does not fit on tiny in pipelined mode[\s\S]*streaming"):
        wafer.compile(mlp((784, 512, 10)), Cells())
    assert host.compiled == []
    assert wafer.report(mlp((784, 512, 10))).streaming.fits
