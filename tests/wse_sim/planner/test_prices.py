"""What a report prices against what simulated cores take, over random shapes, rectangles and types.

Programs are drawn from fixed seeds, since the bounds are on what was seen and not on what can be; `SEEDS=random` draws
others. The figures that are quoted are those of the campaign, `make campaign`: 300 kernels of each kind. The whole
suite runs a share of them.
"""

import os
from dataclasses import replace
from statistics import median

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor.core.dtype import bfloat16, float16, float32
from tests.wse_sim.attention_programs import attention_program
from tests.wse_sim.kernels.kernel_rows import ROWS, cases
from tests.wse_sim.programs import Builder
from tests.wse_sim.small_nets import NETS, program_of
from wse_sim.cost_model.cost import cost
from wse_sim.fabric import simulate_phase
from wse_sim.isa.core_program import WORD_BYTES
from wse_sim.kernels.kernel import MeshKernel, blank
from wse_sim.layout import Rect
from wse_sim.machine import WSE2
from wse_sim.planner.attention_blocks import BACKWARD_KERNEL, FORWARD_KERNEL, fuse_attention_blocks
from wse_sim.planner.dataflow import wire
from wse_sim.planner.kernel_selection import select_kernel

IS_FIXED = os.environ.get("SEEDS") != "random"
COUNT = 300 if os.environ.get("CAMPAIGN") else 12
WORST, MEDIAN = 0.05, 0.01
PES = 12

rects = st.builds(Rect, st.just(0), st.just(0), st.integers(1, PES), st.integers(1, PES))
# Lines on which sums leave in two phases.
lines = st.builds(Rect, st.just(0), st.just(0), st.integers(1, 3), st.integers(33, 96))
extents = st.one_of(st.integers(1, 16), st.integers(1, 128))


def error_of(kernel: MeshKernel) -> float:
    """The price relative to the simulation, less one."""
    assume(kernel.words * WORD_BYTES <= WSE2.usable_bytes_per_pe * 3 // 4)
    cycles = simulate_phase(kernel.phase, WSE2, blank(kernel)).expect_finished().cycles
    priced = cost(kernel.phase, WSE2).cycles
    return priced / cycles - 1 if cycles else float(priced > 0)


def hold(name: str, strategy) -> None:
    """Draw kernels, and hold the worst of their errors and the median to the bounds."""
    errors: list[float] = []

    @settings(
        max_examples=COUNT,
        deadline=None,
        database=None,
        derandomize=IS_FIXED,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(kernel):
        errors.append(abs(error_of(kernel)))
        assert errors[-1] <= WORST

    collect()
    print(f"{name}: {len(errors)} kernels, median {median(errors):.2%}, worst {max(errors):.2%}")
    assert median(errors) <= MEDIAN


def priced(builder: Builder, rect: Rect) -> MeshKernel:
    """The kernel of the last instruction of a program."""
    program = builder.program()
    return select_kernel(program.instrs[-1], wire(program), rect, WSE2)


@st.composite
def products(draw) -> MeshKernel:
    """Products with a weight in place, or none; of a batch, with operands on their sides."""
    b, (m, k, n) = Builder(draw(st.sampled_from([float32, float16, bfloat16]))), (draw(extents) for _ in range(3))
    rows, is_weight = m * draw(st.sampled_from([1, 1, 4])), draw(st.booleans())
    flips = {"transpose_a": draw(st.booleans()), "transpose_b": draw(st.booleans())}
    lead = () if is_weight else draw(st.sampled_from([(), (), (3,), (2, 5)]))
    left, right = ((k, rows), (n, k)) if flips["transpose_a"] else ((rows, k), (n, k))
    right = right if flips["transpose_b"] else right[::-1]
    x = b.input((*lead, *left))
    w = b.weight("w", right) if is_weight else b.input((*lead, *right))
    b.call("matmul", (x, w), [(*lead, rows, n)], 1, attrs=flips)
    return priced(b, draw(st.one_of(rects, rects, lines)))


@st.composite
def losses(draw) -> MeshKernel:
    b = Builder(draw(st.sampled_from([float32, float16, bfloat16])))
    rows, columns = draw(extents), draw(extents)
    if draw(st.booleans()):
        b.cross_entropy(b.input((rows, columns)), b.input((rows,), lt.int32))
    else:
        b.call("softmax", (b.input((rows, columns)),), [(rows, columns)], 1)
    return priced(b, draw(rects))


@st.composite
def of_nets(draw) -> MeshKernel:
    """Any kernel of a training step."""
    program = fuse_attention_blocks(
        program_of(draw(st.sampled_from(sorted(NETS))), draw(st.sampled_from([None, lt.bfloat16])))
    )
    dataflow = wire(program)
    kernel = select_kernel(program.instrs[draw(st.sampled_from(dataflow.kernels))], dataflow, draw(rects), WSE2)
    assume(kernel.operands)
    return kernel


MASKED = "none", "causal", "padding", "rows and keys"


@st.composite
def blocks(draw) -> MeshKernel:
    """An attention block as the plan takes it, forward or backward, of any extents and with any mask."""
    lead, (rows, keys, width) = (1, draw(st.integers(1, 6))), (draw(st.integers(2, 40)) for _ in range(3))
    mask, dropout = draw(st.sampled_from(MASKED)), draw(st.sampled_from([0, 0.1]))
    dtype = draw(st.sampled_from([float32, float16, bfloat16]))
    program, *_ = attention_program(lead, rows, keys, width, mask, dropout, dtype)
    whole = fuse_attention_blocks(program)
    instr = draw(
        st.sampled_from([instr for instr in whole.instrs if instr.kernel in (FORWARD_KERNEL, BACKWARD_KERNEL)])
    )
    dataflow = replace(wire(whole), precision_level=draw(st.sampled_from([0, 1])))
    return select_kernel(instr, dataflow, draw(rects), WSE2)


DRAWN = {"products": products(), "losses": losses(), "of nets": of_nets(), "attention blocks": blocks()}


@pytest.mark.slow
@pytest.mark.parametrize("name, strategy", DRAWN.items())
def test_what_a_report_prices_is_what_cores_take(name, strategy):
    hold(name, strategy)


# Kernels that no report prices, of which some miss these bounds by a little: a solver, a stencil, products on rings.
# And chunks of a few words each, which are up to a fifth off and which no product takes.
NOT_PRICED = {
    *("bicgstab", "star", "linear_step", "summa", "cannon", "two_hop"),
    *("weight_gradient", "input_gradient", "operand_in_place"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ROWS.keys() - NOT_PRICED) if os.environ.get("CAMPAIGN") else ["layer_norm"])
def test_every_kernel_takes_its_price(name):
    hold(name, cases(name).map(lambda case: case.kernel))
