"""Sparse weights in weight streaming: what is sparse, what it costs to send and to multiply."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lazytensor.core.dtype import bool_, float16, float32
from lazytensor.ir.program import Density
from lazytensor.ir.types import Type
from tests.wse_sim.programs import Builder
from wse_sim.cost_model.cost import cost
from wse_sim.host import APPLIANCE
from wse_sim.kernels.sparse.sparse import streamed_product
from wse_sim.kernels.sparse.sparse_stream import SparseProduct, sparse_phase
from wse_sim.layout import Rect
from wse_sim.machine import TINY, WSE2
from wse_sim.planner.dataflow import wire
from wse_sim.planner.kernel_selection.sparse_product import find_sparse_product
from wse_sim.planner.modes import plan
from wse_sim.planner.sparsity import find_sparsity, streamed_bytes

few = settings(deadline=None, max_examples=5, print_blob=False)
shares = st.lists(st.floats(0.001, 0.999), min_size=2, max_size=4).map(sorted)
FREE_HOST = replace(APPLIANCE, worker_bytes_per_s=1e18, worker_tokens_per_s=1e18, weight_transfer_s=0, step_control_s=0)


def masked(samples=64, inputs=64, outputs=48, share=0.1, is_masked=True, groups=(1, 1)):
    """A step with one weight that a mask keeps sparse, in 16 bits; without `is_masked` its whole gradient is used."""
    b = Builder(float16)
    x, weight = b.input((samples, inputs)), b.weight("weight", (outputs, inputs))
    mask = b.buffer((outputs, inputs), "state", "mask", bool_)
    b.state["mask"] = (mask, mask)
    pruned = b.pointwise("mul", (weight, mask))
    y = b.matmul(x, pruned, transpose_b=True)
    b.fetches.append(y)
    b.matmul(y, pruned, "backward")
    gradient = b.matmul(y, x, "backward", transpose_a=True)
    kept = b.pointwise("mul", (gradient, mask), "backward") if is_masked else gradient
    b.pointwise("sub", (weight, kept), "update", into=weight)
    return replace(b.program(), density={"weight": Density(share, "mask", *groups)})


def products(program):
    dataflow = wire(program)
    dataflow = replace(dataflow, sparsity=find_sparsity(dataflow))
    return [p for i in dataflow.kernels if (p := find_sparse_product(dataflow, i))]


def streaming(program, machine=TINY):
    return plan(program, machine, "streaming", host=FREE_HOST, other=False).report.streaming


def test_products_of_a_masked_weight_are_sparse_forward_backward_and_in_its_gradient():
    forward, back, gradient = products(masked(64, 32, 48, groups=(3, 2)))
    assert (forward.inputs, forward.outputs, forward.tokens, forward.groups) == (32, 48, 64, 2)
    assert (back.inputs, back.outputs, back.tokens, back.groups) == (48, 32, 64, 3)
    assert (gradient.inputs, gradient.outputs, gradient.tokens) == (48, 32, 64)
    assert [p.is_gradient for p in (forward, back, gradient)] == [False, False, True]
    assert {p.share for p in (forward, back, gradient)} == {0.1}


def test_gradient_that_is_used_whole_is_dense():
    assert [p.is_gradient for p in products(masked(is_masked=False))] == [False, False]


def test_weight_without_a_mask_is_dense():
    assert products(replace(masked(), density={})) == []


def test_elements_travel_with_their_indices_and_never_take_more_than_dense():
    thin, wide = Type((10, 100), float16), Type((10, 100), float32)
    assert streamed_bytes(thin, Density(0.1, "mask")) == 100 * 4
    assert streamed_bytes(wide, Density(0.1, "mask")) == 100 * 8
    assert streamed_bytes(thin, Density(0.9, "mask")) == thin.nbytes == streamed_bytes(thin, None)


@pytest.mark.slow
def test_streaming_sends_and_multiplies_less_and_says_so():
    program = masked(1024, 256, 256, share=0.05)
    dense, sparse = (plan(p, TINY, host=FREE_HOST).report for p in (replace(program, density={}), program))
    nonzeros = round(0.05 * 256 * 256)
    assert sparse.streaming.edge_bytes_in == 2 * nonzeros * 4 + 1024 * 256 * 2
    assert sparse.streaming.edge_bytes_out == dense.streaming.edge_bytes_out - 256 * 256 * 2 + nonzeros * 4
    assert sparse.streaming.dense_bytes_in == dense.streaming.edge_bytes_in == dense.streaming.dense_bytes_in
    assert sparse.streaming.work_share < 0.1 and dense.streaming.work_share == 1
    assert sparse.streaming.step_cycles < 0.5 * dense.streaming.step_cycles
    assert "sparse weights: dense weights would need 786,432 bytes in" in sparse.text()
    assert "sparse weights" not in dense.text()
    # Documented of weight streaming alone: in a pipeline weights lie still.
    assert sparse.pipelined == dense.pipelined


@few
@given(shares, st.integers(1, 64), st.integers(1, 64), st.integers(1, 200), st.booleans())
@example([0.03125, 0.5], 30, 1, 126, False)
def test_denser_is_never_faster(levels, inputs, outputs, samples, is_masked):
    reports = [streaming(masked(samples, inputs, outputs, share, is_masked)) for share in levels]
    dense = streaming(replace(masked(samples, inputs, outputs, is_masked=is_masked), density={}))
    cycles = [r.step_cycles for r in (*reports, dense)]
    assert cycles == sorted(cycles)
    # Each micro-batch sends all weights and gradients again, and a sparser step may be fastest in more of them.
    ways = {(r.micro_batches, r.has_recompute) for r in reports}
    for way in ways:
        alike = [r for r in (*reports, dense) if (r.micro_batches, r.has_recompute) == way]
        sent = [r.edge_bytes_in + r.edge_bytes_out for r in alike]
        assert sent == sorted(sent)


@few
@given(shares, st.integers(1, 5000), st.integers(1, 500), st.integers(1, 5000), st.booleans())
def test_price_of_a_sparse_product_rises_with_its_density(levels, inputs, outputs, tokens, is_gradient):
    rect = Rect(0, 0, 40, 30)
    priced = [SparseProduct(inputs, outputs, tokens, share, is_gradient=is_gradient) for share in levels]
    ways = [sparse_phase(p, rect, WSE2) for p in priced]
    cycles = [cost(way, WSE2).cycles for way in ways if way]
    assert cycles == sorted(cycles) and len(cycles) in (0, len(levels))
    # Balanced weights keep no row of PEs waiting for a fuller one.
    even = [sparse_phase(replace(p, groups=inputs), rect, WSE2) for p in priced]
    assert all(cost(e, WSE2).cycles <= c for e, c in zip(even, cycles, strict=False) if e)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("extents", [(32, 32, 64, 5, 4, 0.2), (64, 48, 96, 13, 8, 0.1), (48, 64, 300, 7, 6, 0.5)])
def test_price_is_near_that_of_the_program_that_runs(dtype, extents):
    """Within 30 %: a program of few weights has its pattern's own fullest row, and in 16 bits a loop an output."""
    inputs, outputs, tokens, width, height, share = extents
    pattern = np.random.default_rng(0).random((inputs, outputs)) < share
    rect = Rect(0, 0, width, height)
    runs = streamed_product(rect, pattern.astype(np.float32), tokens, dtype)
    priced = sparse_phase(SparseProduct(inputs, outputs, tokens, pattern.mean(), dtype=dtype), rect, WSE2)
    assert cost(priced, WSE2).cycles == pytest.approx(cost(runs.phase, WSE2).cycles, rel=0.3)
