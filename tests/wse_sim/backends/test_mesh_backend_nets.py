"""Training steps of whole nets on simulated cores give the numbers of the host."""

import gc
from itertools import product

import numpy as np
import pytest

import lazytensor as lt
from lazytensor.config import override
from lazytensor.runtime.host import HostBackend
from tests.wse_sim.kernels.kernel_rows import EPSILON
from tests.wse_sim.small_nets import NETS, Cells
from wse_sim.backends.mesh_backend import MeshBackend

LOSS_ULP, STATE_ULP = 4, 64
"""How far a loss may be off in units of its last place, and state in those of the largest of its array, after a step.

Sums run in another order on the cores. In 16 bits what they round may fall to either side: two units of that type.
"""
MESHES = {"fc_mnist": (3, 2), "gpt": 2, "vit": 2, "resnet": (2, 3)}


def compiled(name: str, half=None, seed: int = 0):
    """A program, the state that it starts from three times, and its batch."""
    # Modules hold themselves; what the last test recorded must not be asked for in this one.
    gc.collect()
    lt.manual_seed(seed)
    program, store, batch = NETS[name](half)
    return program, [Cells(store, program.state) for _ in range(3)], batch


@pytest.mark.slow
@pytest.mark.parametrize("name, half", list(product(sorted(NETS), [None, lt.bfloat16, lt.float16])))
def test_training_step_of_a_net_on_cores_is_the_hosts(name, half):
    program, (ours, theirs, _), batch = compiled(name, half)
    loss, *_ = MeshBackend(MESHES[name]).compile(program, ours).step(batch)
    # Its loops as NumPy: they are the same numbers, and machine code takes long to make for so few steps.
    with override(jit=False):
        expected, *_ = HostBackend().compile(program, theirs).step(batch)
    narrow = 2 * EPSILON[half.name] if half else 0
    np.testing.assert_allclose(loss, expected, rtol=LOSS_ULP * EPSILON["float32"] + narrow)
    for state, array in theirs.cells.items():
        bound = (STATE_ULP * EPSILON["float32"] + narrow) * np.abs(array).max()
        assert np.abs(ours.cells[state] - array).max() <= bound, state


@pytest.mark.slow
def test_training_step_of_fc_mnist_as_wavelets_is_the_data_to_the_last_bit():
    program, (_, data, wavelets), batch = compiled("fc_mnist", seed=2**40 + 1)
    expected = MeshBackend(2).compile(program, data)
    found = MeshBackend(2, wavelets=True).compile(program, wavelets)
    np.testing.assert_array_equal(found.step(batch)[0], expected.step(batch)[0])
    for state, array in data.cells.items():
        np.testing.assert_array_equal(wavelets.cells[state], array)
    assert found.cycles == pytest.approx(expected.cycles, rel=0.03)
