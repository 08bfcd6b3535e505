"""Every arrangement of a matrix product: NumPy's product as data, one price by the closed forms and as wavelets."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazytensor.errors import LazyError
from tests.wse_sim.kernels.kernel_rows import DTYPES, EPSILON
from tests.wse_sim.programs import patient
from wse_sim.cost_model.cost import cost
from wse_sim.fabric.lowering.simulate import split_at_barriers
from wse_sim.isa.packing import round_values
from wse_sim.kernels.kernel import gather, scatter
from wse_sim.kernels.matmul.matrix_product import Product, _arrangements, product_kernel
from wse_sim.kernels.matmul.stationary_operand import in_chunks, operand_in_place
from wse_sim.layout import Rect
from wse_sim.machine import WSE2
from wse_sim.phase import Compute, Rounds
from wse_sim.reference.phase_reference import apply

extents = st.integers(1, 24)
residents = st.sampled_from(["", "a", "b", "c", "ab"])


@st.composite
def products(draw) -> Product:
    batch, dtype = draw(st.sampled_from([1, 1, 2, 5])), draw(st.sampled_from(DTYPES))
    sum_dtype = draw(st.sampled_from(["", "float32"]))
    return Product(batch, draw(extents), draw(extents), draw(extents), dtype, draw(residents), sum_dtype)


@patient
@given(products(), st.integers(1, 5), st.integers(1, 5), st.data())
def test_every_arrangement_gives_the_product(product, width, height, data):
    ways = list(_arrangements(product, width, height, WSE2))
    way = data.draw(st.sampled_from(ways))
    way = replace(way, chunk=data.draw(st.sampled_from([1, way.chunk])))
    assert way.width <= width and way.height <= height
    assert not product.resident or way.stays in product.resident
    random = np.random.default_rng(0)
    shapes = (product.batch, product.m, product.k), (product.batch, product.k, product.n)
    a, b = (round_values(random.standard_normal(shape).astype(np.float32), product.dtype) for shape in shapes)
    kernel, c = way.kernel(Rect(0, 0, width, height)), np.zeros((product.batch, product.m, product.n), np.float32)
    for number in range(way.rounds):
        way.take(gather(kernel, apply(kernel.phase, scatter(kernel, way.give(a, b, number)))), number, c)
    bound = EPSILON[product.sum_dtype or product.dtype] * (product.k + width + height)
    assert (np.abs(c - a @ b) <= bound * (np.abs(a) @ np.abs(b)) + 1e-6).all()


@settings(deadline=None, max_examples=10)
@given(st.sampled_from(DTYPES), residents, st.sampled_from([1, 48]))
def test_thousands_of_rounds_are_priced_by_a_few(dtype, resident, batch):
    """On the whole wafer no more phases are written than on a corner: rounds are folded."""
    product = Product(batch, 200_000, 768, 3072, dtype, resident)
    kernel = product_kernel(product, Rect.whole(WSE2), WSE2)

    def leaves(phase):
        match phase:
            case Rounds():
                return sum(leaves(part) for part, _ in phase.priced_rounds)
        parts = getattr(phase, "parts", None) or ([phase.body] if hasattr(phase, "times") else None)
        return 1 if parts is None else sum(leaves(part) for part in parts)

    assert leaves(kernel.phase) < 40
    assert cost(kernel.phase, WSE2).cycles > product.m * product.k * product.n * batch / (WSE2.usable_pes * 4)


@pytest.mark.parametrize("rows, chunk", [(1, 1), (2, 1), (9, 2), (20, 3), (7, 9)])
def test_every_chunk_passes_all_stages_in_order(rows, chunk):
    """Here a stage is a `Compute` whose vectors are the first row, whose length counts rows, and whose size is it."""
    stages = [lambda own, n=n: Compute(Rect(0, 0, 1, 1), "add", own.start, len(own), n) for n in range(3)]
    passed: list[list[int]] = [[], [], []]
    for number, step in enumerate(split_at_barriers(in_chunks(rows, chunk, stages))):
        for part in step.parts:
            assert part.vectors == chunk * (number - part.itemsize)
            passed[part.itemsize] += range(part.vectors, part.vectors + part.length)
    assert passed == [list(range(rows))] * 3


def test_strips_of_several_lines_share_no_operand():
    with pytest.raises(LazyError, match="2 strips of 2 lines"):
        operand_in_place(Rect(0, 0, 2, 4), 4, 4, 4, strips=2, is_shared=True)
