"""Vector operations take their published cycles, by the addresses of their operands and the loops around them."""

import pytest

from wse_sim.cost_model.core_time import body_cycles
from wse_sim.cost_model.cost import cost
from wse_sim.fabric import Builder, Mesh, simulate
from wse_sim.isa.core_program import LoopEnd, LoopStart, Memory, Vector
from wse_sim.layout import Rect
from wse_sim.machine import WSE2, WSE3
from wse_sim.phase import Compute

N = 5124  # elements of the published runs, a multiple of 4


def two_sources(op: str, apart: int) -> Vector:
    """Return an operation over two arrays of `N` float32 elements, whose starts are N + `apart` words apart."""
    first, second = Memory(0), Memory(N + apart)
    return Vector(op, (first, first, second), N)


def simulated_cycles(body, machine) -> int:
    builder = Builder("alone", 11_000)
    for instruction in body:
        builder.append(instruction)
    mesh = Mesh(machine, 1, 1)
    mesh.run(builder.build(), 0, 0)
    return simulate(mesh).expect_finished().cycles


@pytest.mark.parametrize("apart, published", [(0, 10_254), (1, 5_130), (2, 2_568), (3, 5_130)])
def test_products_of_two_arrays_take_the_published_cycles_on_the_wse2(apart, published):
    """SpMM_Cerebras at 4604c74, fmacs_test: @fmuls of 5,124 elements; 2,597 with 29 cycles that load descriptors."""
    body = (two_sources("mul", apart),)
    assert body_cycles(body, WSE2) == published
    same = Compute(Rect(0, 0, 1, 1), "add", vectors=1, length=N, itemsize=4, apart=apart)
    assert cost(same, WSE2).cycles == published


@pytest.mark.slow
@pytest.mark.parametrize("machine", [WSE2, WSE3], ids=lambda m: m.name)
@pytest.mark.parametrize("apart", range(4))
def test_simulated_cores_take_as_long_for_each_distance(apart, machine):
    for op in ("add", "mul", "max"):
        body = (two_sources(op, apart),)
        assert simulated_cycles(body, machine) == body_cycles(body, machine)


def test_distance_does_not_matter_if_one_source_is_a_constant():
    times = {body_cycles((Vector("mul", (Memory(0), Memory(base), 2.0), 400),), WSE2) for base in range(4)}
    assert len(times) == 1


def test_first_operation_of_a_wse3_loads_its_descriptors_and_a_repeated_one_does_not():
    """ALCF: a vector operation has 15 to 17 cycles before its first element, and about 7 in a mapped loop."""
    one = Vector("move", (Memory(0), 1.0), 1)
    assert body_cycles((one,), WSE3) - 1 == pytest.approx(16, abs=1)
    assert body_cycles((one, one), WSE3) - body_cycles((one,), WSE3) - 1 == pytest.approx(6, abs=1)


@pytest.mark.parametrize("operations, each", [(1, 6), (16, 6), (17, 16)])
def test_loop_keeps_the_descriptors_of_at_most_16_operations(operations, each):
    """The core has 16 registers for descriptors of destinations, so a loop of 17 operations loads them every time."""

    def cycles(rounds: int) -> int:
        moves = [Vector("move", (Memory(i), 1.0), 1) for i in range(operations)]
        return body_cycles((LoopStart(rounds), *moves, LoopEnd()), WSE3)

    a_round = cycles(101) - cycles(100)
    assert a_round == pytest.approx(operations * (each + 1) + 1, abs=1)


@pytest.mark.slow
@pytest.mark.parametrize("operations", [1, 5, 16, 17])
def test_simulated_loops_load_descriptors_as_priced(operations):
    moves = [Vector("move", (Memory(i), 1.0), 1) for i in range(operations)]
    inner = (LoopStart(3), *moves, LoopEnd())
    body = (moves[0], LoopStart(2), *inner, Vector("move", (Memory(50), 1.0), 4), LoopEnd(), moves[0])
    assert simulated_cycles(body, WSE3) == body_cycles(body, WSE3)


def product_and_update(n: int) -> tuple[tuple, tuple]:
    """Return bodies with the same multiply-adds: sums that stay while factors change, and sums that change too."""
    rows = Memory(2004, dtype="float16", steps=(n,))
    factor = Memory(0, 0, "float16", steps=(1,))
    stays, moves = Memory(1002, dtype="float16"), Memory(1002, dtype="float16", steps=(n,))
    return tuple(
        (LoopStart(8), Vector("fmac", (target, factor, rows, target), n), LoopEnd()) for target in (stays, moves)
    )


def test_products_of_the_wse3_have_eight_lanes_and_updates_of_memory_do_not():
    """The vendor's peak of 12.5 PFLOP/s needs 8 multiply-adds a cycle; from memory ALCF measured 2.92."""
    n = 800
    product, update = (body_cycles(body, WSE3) for body in product_and_update(n))
    setups = 8 * 7 + 12
    assert 8 * n / (product - setups) == pytest.approx(8, rel=0.02)
    assert 8 * n / (update - setups) == pytest.approx(2.92, rel=0.02)


def test_peak_of_the_wse3_is_that_of_the_vendor():
    rate = 2 * WSE3.per_cycle("product", 2) * WSE3.width * WSE3.height * WSE3.clock_hz
    assert rate == pytest.approx(12.5e15, rel=0.01)
