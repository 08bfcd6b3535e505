"""An attention block of a program is one kernel each way, in reports and on simulated cores, or says that it is not."""

import numpy as np
import pytest

import lazytensor as lt
from lazytensor.config import override
from lazytensor.runtime.host import HostBackend
from tests.wse_sim.attention_programs import attention_program
from tests.wse_sim.kernels.kernel_rows import EPSILON
from tests.wse_sim.small_nets import Cells, program_of
from wse_sim import WSE2, plan
from wse_sim.backends.mesh_backend import MeshBackend
from wse_sim.planner.attention_blocks import BACKWARD_KERNEL, FORWARD_KERNEL, fuse_attention_blocks
from wse_sim.planner.dataflow import wire
from wse_sim.planner.layers import fold

LEAD, ROWS, KEYS, WIDTH = (2, 3), 6, 7, 4
ULP = 64
"""Units of the last place, of the largest element of an array, that sums in another order may be off by."""


def kernels(program):
    return [instr.kernel for instr in program.instrs]


def attention_layer(program):
    return next(layer for layer in fold(wire(program)) if layer.is_attention)


def test_products_softmax_and_nests_of_a_block_become_one_kernel_each_way():
    program, *_ = attention_program(LEAD, ROWS, KEYS, WIDTH, "causal", 0.2)
    whole = fuse_attention_blocks(program).check()
    assert [k for k in kernels(whole) if k in (FORWARD_KERNEL, BACKWARD_KERNEL)] == [FORWARD_KERNEL, BACKWARD_KERNEL]
    assert not {"matmul", "softmax", "call"} & set(kernels(whole))
    # Of what is left nothing is as large as the scores of all heads.
    touched = {b for instr in whole.instrs for b in (*instr.reads, *instr.writes)}
    assert (*LEAD, ROWS, KEYS) not in {whole.buffers[b].type.shape for b in touched}


@pytest.mark.parametrize("mask, dropout", [("none", 0.0), ("causal", 0.3), ("padding", 0.0), ("rows and keys", 0.0)])
def test_block_on_cores_has_the_hosts_numbers(mask, dropout):
    program, store, batch = attention_program(LEAD, ROWS, KEYS, WIDTH, mask, dropout)
    ours, theirs = (Cells(store, program.state) for _ in range(2))
    on_cores = MeshBackend((3, 2)).compile(program, ours)
    assert FORWARD_KERNEL in kernels(on_cores.program) and BACKWARD_KERNEL in kernels(on_cores.program)
    with override(jit=False):
        expected = HostBackend().compile(program, theirs).step(batch)
    for array, exact in zip(on_cores.step(batch), expected, strict=True):
        np.testing.assert_allclose(array, exact, rtol=0, atol=ULP * EPSILON["float32"] * np.abs(exact).max())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [lt.float32, lt.bfloat16])
def test_block_as_wavelets_is_the_data_to_the_last_bit(dtype):
    program, store, batch = attention_program((1, 2), 5, 6, 4, "causal", 0.2, dtype)
    data, wavelets = (
        MeshBackend((3, 2), wavelets=is_run).compile(program, Cells(store, program.state)) for is_run in (False, True)
    )
    for array, expected in zip(wavelets.step(batch), data.step(batch), strict=True):
        np.testing.assert_array_equal(array, expected)
    assert wavelets.cycles == pytest.approx(data.cycles, rel=0.01)


def test_mask_of_each_head_and_pair_leaves_a_block_in_parts():
    program, *_ = attention_program(LEAD, ROWS, KEYS, WIDTH, "each head")
    assert fuse_attention_blocks(program) is program
    assert attention_layer(program).name == "attention in parts"


def test_layer_of_one_kernel_is_named_as_such():
    program, *_ = attention_program(LEAD, ROWS, KEYS, WIDTH)
    layer = attention_layer(fuse_attention_blocks(program))
    assert layer.name == "attention" and not layer.recomputed


@pytest.mark.slow
def test_blocks_that_share_a_generator_are_layers_of_their_own():
    layers = [layer for layer in fold(wire(fuse_attention_blocks(program_of("gpt")))) if layer.is_attention]
    assert len(layers) == 2
    assert all(layer.kernels["forward"] and layer.kernels["backward"] for layer in layers)


def test_block_that_cores_do_not_hold_runs_in_parts_if_those_fit():
    program, store, _ = attention_program((1, 2), 40, 40, 24)
    executable = MeshBackend((2, 2)).compile(program, Cells(store, program.state))
    assert FORWARD_KERNEL in kernels(executable.program)
    tight = MeshBackend((1, 1), machine=WSE2)
    assert FORWARD_KERNEL not in kernels(fuse_attention_blocks(program, lambda instr: False))
    assert tight.compile(program, Cells(store, program.state))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["streaming", "pipelined"])
def test_report_has_the_block_as_one_row_with_both_sweeps(mode):
    program, *_ = attention_program((4, 2), 16, 16, 8, "causal", 0.1)
    row = next(row for row in plan(program, WSE2, mode).report.rows if row.label == "attention")
    assert row.forward_cycles and row.backward_cycles > row.forward_cycles
