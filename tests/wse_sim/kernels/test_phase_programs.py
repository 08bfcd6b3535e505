"""Laws of the phase programs of published kernels."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wse_sim.programs import patient
from wse_sim.cost_model.cost import cost
from wse_sim.kernels.collective import centred_all_reduce, chain_all_reduce
from wse_sim.kernels.matmul import gemm
from wse_sim.kernels.matmul.gemv import gemv
from wse_sim.kernels.solvers import fft, stencil
from wse_sim.kernels.solvers.bicgstab import bicgstab_iteration
from wse_sim.kernels.sparse import sparse
from wse_sim.layout import Rect
from wse_sim.machine import WSE2, WSE3
from wse_sim.phase import Compute

sides = st.integers(3, 600)
small = st.integers(1, 60)


def cycles(phase, machine=WSE2):
    return cost(phase, machine).cycles


def square(pes):
    return Rect(0, 0, pes, pes)


@patient
@given(st.integers(40, 600), st.integers(1, 6))
def test_two_hop_product_beats_cannon_on_long_lines_with_small_tiles(pes, side):
    """Its links carry the words of two PEs, but none waits for words from the other end of the line."""
    tile, rect = gemm.Tile(side, side, side, 2), square(pes)
    free = replace(WSE2, fma_f16_per_cycle=1e9, dsd_setup_cycles=1e-9, loop_cycles=0)
    assert cycles(gemm.two_hop(rect, tile, free), free) < cycles(gemm.cannon(rect, tile, free), free)


@patient
@given(sides, st.builds(gemm.Tile, small, small, small, st.just(4)), st.sampled_from(sorted(gemm.GEMM_ALGORITHMS)))
def test_products_are_a_lower_bound_of_every_algorithm(pes, tile, name):
    taken = cost(gemm.GEMM_ALGORITHMS[name](square(pes), tile, WSE2), WSE2)
    assert taken.cycles >= taken.compute_cycles >= pes * tile.m * tile.k * tile.n


@patient
@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 64), st.integers(2, 64), st.integers(2, 60))
def test_tiles_cover_the_product(m, k, n, pes, extra):
    tile = gemm.Tile.of(m + extra, k, n, pes, 2)
    assert tile.m * pes >= m + extra and tile.k * pes >= k and tile.n * pes >= n


@patient
@given(st.integers(32, 700), st.integers(1, 30))
def test_sums_towards_the_middle_beat_a_pipeline_of_few_words(pes, words):
    rect = Rect(0, 0, pes, 1)
    centred, chained = (cycles(f(rect, "x", words, WSE2)) for f in (centred_all_reduce, chain_all_reduce))
    assert centred < chained


@patient
@given(st.integers(1, 3), st.integers(1, 100))
def test_short_lines_are_summed_too(pes, words):
    assert cycles(centred_all_reduce(Rect(0, 0, pes, 1), "x", words, WSE2)) >= WSE2.launch_cycles


@patient
@given(st.integers(0, 5000), st.integers(0, 200), st.integers(1, 300))
def test_sparse_products_grow_with_elements_and_lines(elements, lines, columns):
    rect = square(4)
    base = cycles(sparse.spmm_loop(rect, elements, lines, columns))
    assert base <= cycles(sparse.spmm_loop(rect, elements + 1, lines, columns))
    assert base <= cycles(sparse.spmm_loop(rect, elements, lines + 1, columns))
    assert base >= 1640  # of no elements, as measured


@patient
@given(st.integers(10, 700), st.integers(10, 900), st.integers(1, 1000))
def test_star_stencil_scales_weakly(width, height, cells):
    """Its cycles depend on the columns and not on the mesh, as measured from 200 x 200 to 755 x 994 PEs."""
    here, there = (cycles(stencil.acoustic_step(r, cells, WSE2)) for r in (Rect(0, 0, width, height), square(10)))
    assert here == pytest.approx(there, abs=100)


@pytest.mark.parametrize(
    "program",
    [
        lambda n: fft.transform(square(64), 64 * n, WSE2),
        lambda n: bicgstab_iteration(square(64), 100 * n, WSE2),
        lambda n: stencil.plane_step(square(2), 8 * n, 2, 9, WSE3),
        lambda n: gemv(square(64), 512 * n, 512, 2, WSE2),
        lambda n: sparse.dense_loop(square(4), 100 * n, 64, WSE2),
    ],
)
def test_larger_problems_take_longer(program):
    taken = [cycles(program(n)) for n in (1, 2, 4)]
    assert taken == sorted(set(taken))


@patient
@given(st.integers(0, 50), st.integers(0, 50), st.floats(0, 100), st.floats(1, 4))
def test_scalar_code_and_conflicts_add_to_vector_operations(vectors, length, scalar, slowdown):
    rect = square(2)
    plain = cycles(Compute(rect, "fma", vectors, length, 4))
    taken = cycles(Compute(rect, "fma", vectors, length, 4, scalar, slowdown))
    assert taken == pytest.approx(plain + vectors * (scalar + (slowdown - 1) * length), abs=1)
