"""Recipes: each row of the table is exercised, unknown kernels get a price, and cycles are checked by hand."""

import math
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor.core.dtype import float16, float32, int32, int64
from lazytensor.ir.types import Type
from tests.wse_sim.attention_programs import attention_program
from tests.wse_sim.programs import Builder, machines, mlps, patient, rects
from tests.wse_sim.small_nets import NETS, program_of
from wse_sim.cost_model.cost import cost
from wse_sim.kernels.matmul.matrix_product import Product
from wse_sim.layout import Rect
from wse_sim.machine import TINY, WSE2
from wse_sim.planner.attention_blocks import ATTENTION_KERNELS, fuse_attention_blocks
from wse_sim.planner.dataflow import wire
from wse_sim.planner.kernel_selection import RECIPES, phase_program, select_kernel
from wse_sim.planner.kernel_selection.matmul import find_product

RECT = Rect(0, 0, 32, 28)


def matmul_program(m=64, n=256, k=784, dtype=None):
    b = Builder(dtype) if dtype else Builder()
    b.fetches.append(b.matmul(b.input((m, k)), b.weight("w", (n, k)), transpose_b=True))
    return b.program()


def nest_program(rows=64, columns=256, is_reduction=False, direction="forward", op="add"):
    b = Builder()
    x = b.input((rows, columns))
    b.fetches.append(b.sum_rows(x, direction) if is_reduction else b.pointwise(op, (x, x), direction))
    return b.program()


def loss_program(rows=64, columns=10):
    b = Builder()
    losses, _ = b.cross_entropy(b.input((rows, columns)), b.input((rows,), int32))
    b.fetches.append(losses)
    return b.program()


def other_program(kernel, flops=10_000):
    b = Builder()
    b.fetches.append(b.call(kernel, (b.input((64, 32)),), [(64, 32)], flops))
    return b.program()


def block_program(kernel, rows=64):
    """An attention block, up to the one of its two kernels."""
    whole = fuse_attention_blocks(attention_program((1, 2), rows, 64, 16)[0])
    end = next(n for n, instr in enumerate(whole.instrs) if instr.kernel == kernel)
    return replace(whole, instrs=whole.instrs[: end + 1])


CASES = {
    "matmul": matmul_program,
    "nest": nest_program,
    "softmax_cross_entropy": loss_program,
    **{kernel: partial(block_program, kernel) for kernel in ATTENTION_KERNELS},
}


def price(program, rect=RECT, machine=WSE2):
    dataflow = wire(program)
    return cost(phase_program(program.instrs[-1], dataflow, rect, machine), machine)


def test_every_recipe_has_a_case():
    assert set(RECIPES) <= set(CASES)


@pytest.mark.slow
@pytest.mark.parametrize("half", [None, lt.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", sorted(NETS))
def test_no_kernel_of_a_net_is_priced_by_its_work_alone(name, half):
    """A training step of FC-MNIST, a GPT, a ViT and a ResNet: each kernel is one that runs."""
    program = fuse_attention_blocks(program_of(name, half))
    dataflow = wire(program)
    kernels = {
        program.instrs[i].label: select_kernel(program.instrs[i], dataflow, RECT, WSE2) for i in dataflow.kernels
    }
    assert [label for label, kernel in kernels.items() if not kernel.runs] == []


@pytest.mark.parametrize("kernel", CASES)
def test_recipe_computes_within_its_rectangle(kernel):
    taken = price(CASES[kernel]())
    assert 0 < taken.compute_cycles <= taken.cycles
    assert taken.bytes_in == taken.bytes_out == 0


@pytest.mark.parametrize("kernel", CASES)
def test_more_work_takes_longer(kernel):
    small, large = CASES[kernel](64), CASES[kernel](64 * 64)
    assert price(small).cycles < price(large).cycles


@pytest.mark.parametrize("kernel", ["layer_norm", "cumsum", "never heard of it"])
def test_kernels_that_do_not_run_are_priced_by_their_work(kernel):
    """10,000 operations on 896 PEs are 12 each and 3 results; 8 KiB read are 74 words for each of the 28 rows.

    The cores take turns between the words, once they come, and the operations and the storing.
    """
    taken = price(other_program(kernel))
    assert taken.compute_cycles == (6 + 12 / 2) + (6 + 2)
    turns = 7 / 12 * (12 - 6) + 3 / 8 * (8 - 6)
    assert taken.cycles == math.ceil((74 + 32 + 4 + 6) + turns)
    assert price(other_program(kernel, flops=10_000_000)).cycles > taken.cycles


@patient
@given(mlps(), rects(), machines())
def test_every_kernel_has_a_price_on_every_rectangle(program, rect, machine):
    dataflow = wire(program)
    for instr in program.instrs:
        taken = cost(phase_program(instr, dataflow, rect, machine), machine)
        assert taken.cycles > 0
        assert taken.bytes_in == taken.bytes_out == 0


@patient
@given(mlps(), rects(), st.sampled_from(["fma_f16_per_cycle", "fma_f32_per_cycle", "add_f32_per_cycle", "link_bits"]))
def test_wider_datapaths_and_links_never_make_a_kernel_twice_as_slow(program, rect, name):
    """A reduction that is faster alone may have more operations, which wait for the products beside it."""
    dataflow, better = wire(program), replace(TINY, **{name: 2 * getattr(TINY, name)})
    for instr in program.instrs:
        before, after = (cost(phase_program(instr, dataflow, rect, m), m).cycles for m in (TINY, better))
        assert after < 2 * before


def test_matmul_with_weights_in_place_by_hand():
    """64 rows of 784 inputs to 256 outputs; a PE holds 28 x 8 weights, and all rows are one chunk.

    Inputs: 64 x 28 words along a row of 32. Products: for each of 28 inputs and 8 outputs a vector of 64 in two loops,
    the first of the inputs without a sum. Sums: 64 x 8 words up a column of 28, as a chain.
    """
    arriving = 64 * 28 + 6 + 31 + 5
    once = 1 + 8 * (6 + 64 // 2) + 7 * 10 + 1
    others = 1 + 27 * (1 + 8 * (6 + 64) + 7 * 10 + 1) + 26 * 10 + 1
    sums = 64 * 8 + 6 + 27 * (1 + 5)
    assert price(matmul_program()).cycles == arriving + once + others + sums


def test_half_precision_is_up_to_four_times_faster():
    half, single = (price(matmul_program(dtype=dtype)).cycles for dtype in (float16, None))
    assert single / 4 < half < single / 2


def test_more_pes_can_be_slower_for_a_matmul():
    one_row = matmul_program(1, 64, 64)
    assert price(one_row, Rect(0, 0, 16, 16)).cycles < price(one_row, Rect(0, 0, 64, 64)).cycles


def test_matmul_extents_follow_the_transposes():
    b = Builder()
    x, w = b.input((64, 784)), b.weight("w", (256, 784))
    h = b.matmul(x, w, transpose_b=True)
    b.matmul(h, x, "backward", transpose_a=True)
    b.matmul(h, w, "backward")
    program = b.program()
    dataflow = wire(program)
    assert [find_product(i, dataflow) for i in program.instrs] == [
        Product(1, 64, 256, 784, resident="b"),
        Product(1, 256, 784, 64),
        Product(1, 64, 784, 256, resident="b"),
    ]


def test_matmul_extents_with_leading_axes():
    b = Builder()
    a, c = b.input((3, 5, 7, 11)), b.input((3, 5, 11, 2))
    w, v = b.weight("w", (11, 2)), b.weight("v", (11,))
    for left, right in ((a, c), (a, w), (a, v)):
        b.call("matmul", (left, right), [(1,)], 1)
    program = b.program()
    dataflow = wire(program)
    assert [find_product(i, dataflow) for i in program.instrs] == [
        Product(15, 7, 2, 11),
        Product(1, 105, 2, 11, resident="b"),
        Product(1, 105, 1, 11, resident="b"),
    ]


def test_many_small_products_share_the_rectangle():
    def batched(n):
        b = Builder()
        b.call("matmul", (b.input((n, 4, 4)), b.input((n, 4, 4))), [(n, 4, 4)], n * 128)
        return price(b.program(), Rect(0, 0, 8, 32)).cycles

    assert batched(1) < batched(64) < 64 * batched(1) / 4


def test_pointwise_nest_by_hand():
    """64 x 256 elements on 896 PEs are 19 each: one addition of operands in adjacent banks, an element a cycle."""
    assert price(nest_program()).cycles == 6 + 19
    assert price(nest_program(op="exp")).cycles == 6 + 19 * 50


def test_update_nests_send_nothing_but_a_rate():
    """Weights and their slots lie alike; one word goes to all other PEs."""
    b = Builder()
    w, rate = b.weight("w", (64, 64)), b.input(())
    b.pointwise("mul", (w, rate), "update", into=w)
    assert price(b.program()).wire_words == RECT.area - 1


def test_broadcast_operands_travel():
    def with_shared(shape):
        b = Builder()
        b.pointwise("mul", (b.input((64, 64)), b.input(shape)))
        return price(b.program()).wire_words

    assert with_shared((64, 64)) == 0
    assert with_shared((64,)) > 0
    assert with_shared(()) == RECT.area - 1


def test_few_long_reductions_use_the_fabric_and_many_short_ones_do_not():
    assert price(nest_program(rows=4096, columns=2, is_reduction=True)).wire_words > 0
    assert price(nest_program(rows=2, columns=4096, is_reduction=True)).wire_words == 0


def test_one_long_sum_uses_both_axes():
    """100,000 elements are 3,125 rows of 32: 112 for each PE, added, then summed along both axes and stored."""
    summed = price(nest_program(rows=100_000, columns=1, is_reduction=True))
    assert summed.compute_cycles == (6 + 1) + (6 + 112 // 2) + (6 + 1)
    assert summed.wire_words > 0


def test_a_weight_on_the_left_stays_in_place_too():
    """784 x 256 weights by 256 x 64: 64 columns pass, as in the product with the weight on the right."""
    b = Builder()
    b.matmul(b.weight("w", (256, 784)), b.input((784, 64)))
    assert price(b.program()).cycles == price(matmul_program()).cycles


def test_loss_by_hand():
    """896 rows of 4 classes, one for each PE: six passes over the row in a loop of one round, one without.

    An exponential for each class, a logarithm and a reciprocal for the row, and four single elements to begin with.
    """
    looped, plain = 2 + 6 + 4 // 2, 6 + 4 // 2
    by_hand = 6 * looped + plain + (6 + 4 * 50) + 2 * (6 + 50) + 4 * (6 + 1)
    assert price(loss_program(896, 4)).cycles == pytest.approx(by_hand, rel=0.03)


def test_storing_much_is_part_of_the_price():
    """One word read, one operation; 8,960,000 bytes written are 2,500 elements on each PE, two a cycle."""
    b = Builder()
    b.call("fill", (b.input((1,)),), [(2_240_000,)], 1)
    assert price(b.program()).cycles == (6 + 2500 // 2) + (6 + 1) + 2


def test_loss_over_few_classes_stays_local_and_over_many_uses_the_fabric():
    assert price(loss_program(896, 4)).wire_words == 0
    assert price(loss_program(28, 32_000)).wire_words > 0


@pytest.mark.parametrize("make", [lambda: matmul_program(0), lambda: nest_program(0), lambda: loss_program(0)])
def test_empty_tensors_take_no_time(make):
    assert price(make()).cycles == 0


def test_calls_that_draw_as_many_numbers_have_one_kernel():
    """The number of a call changes what is drawn, and a model has as many calls as dropouts."""
    b, type = Builder(), Type((6, 5), float32)
    state = b.input((2,), int64)
    for call in (0, 1):
        b.call("call", (state,), [(6, 5)], 1, attrs={"op": "random_uniform", "attrs": {"call": call, "type": type}})
    program = b.program()
    first, second = (select_kernel(instr, wire(program), RECT, WSE2) for instr in program.instrs)
    assert first is second
