"""The generated tree: what it promises is what its edges give, and nothing that the model knows is faster."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazytensor.errors import LazyError
from tests.wse_sim.programs import patient
from wse_sim.cost_model.collectives import REDUCE_ALGORITHMS, chain_terms, queue_words
from wse_sim.cost_model.cost import cost
from wse_sim.cost_model.reduction_tree import MAX_TREE_COLOURS, auto_gen_terms, generate_tree
from wse_sim.layout import Rect
from wse_sim.machine import WSE2, WSE3
from wse_sim.phase import AllReduce, Reduce

pes = st.integers(2, 130)
counts = st.integers(1, 5000)
machines = st.sampled_from([WSE2, WSE3])


def is_pre_order(parents):
    """Each PE sends to the one before it or to one that this one's sums pass through."""
    for i in range(1, len(parents)):
        passed, at = {i - 1}, i - 1
        while parents[at] >= 0:
            at = parents[at]
            passed.add(at)
        if parents[i] not in passed:
            return False
    return True


def taken_by(parents, words, machine):
    """Cycles of a tree, PE after PE from the far end: when its first word leaves, when its sum is complete."""
    leaves = [0.0] * len(parents)
    setup, stream = machine.loaded_setup_cycles, words * machine.wavelet_cycles
    for i in reversed(range(len(parents))):
        senders = [j for j, p in enumerate(parents) if p == i]
        done = 0.0
        for n, j in enumerate(senders):
            comes = leaves[j] + machine.depth_step_cycles + (j - i) * machine.hop_cycles
            stolen = max(0, min(done - comes - 1, queue_words(machine), words)) if n else 0
            leaves[i] = max(done + setup + stolen, comes)
            done = leaves[i] + stream
        if not senders:
            leaves[i] = setup
    return leaves[0] + stream


@patient
@given(pes, counts, machines)
def test_generated_tree_is_never_slower_than_what_is_published(p, b, machine):
    """But for a star, whose root needs one operation for all and whose senders need switches."""
    every = [
        algorithm(p, b, machine).cycles(machine) for name, algorithm in REDUCE_ALGORITHMS.items() if name != "star"
    ]
    assert auto_gen_terms(p, b, machine).cycles(machine) <= min(every)


@patient
@given(pes, counts, machines)
def test_terms_are_those_of_the_slowest_way_through_the_edges(p, b, machine):
    parents = generate_tree(p, b, machine)
    assert parents[0] == -1 and is_pre_order(parents)
    terms = auto_gen_terms(p, b, machine)
    assert terms.exact_cycles(machine) == pytest.approx(taken_by(parents, b, machine))
    assert terms.energy == b * sum(i - q for i, q in enumerate(parents) if q >= 0)


@patient
@given(st.integers(2, 600), st.sampled_from([1, 2, 8, 64]))
def test_no_more_ways_than_promised_cross_a_router(p, b):
    parents = generate_tree(p, b, WSE2)
    crossed = Counter(k for i, q in enumerate(parents) if q >= 0 for k in range(q, i + 1))
    assert max(crossed.values()) <= MAX_TREE_COLOURS


@pytest.mark.parametrize("p", [2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("b", [1, 4, 9, 30, 200])
def test_no_tree_of_a_short_line_is_faster(p, b):
    """By trying every pre-order tree: every PE chooses among those on the path from the PE before it."""
    trees = ((-1, *choice) for choice in product(*(range(i) for i in range(1, p))))
    best = min(taken_by(tree, b, WSE2) for tree in trees if is_pre_order(tree))
    assert auto_gen_terms(p, b, WSE2).cycles(WSE2) == best


@patient
@given(st.integers(2, 120), counts)
def test_longer_lines_and_more_words_are_never_faster(p, b):
    """By more than 5 %: colours limit the search, which is not exact then; 0.9 % was the most in 2,500 draws."""
    taken = auto_gen_terms(p, b, WSE2).cycles(WSE2)
    assert taken <= 1.05 * auto_gen_terms(p + 1, b, WSE2).cycles(WSE2)
    assert taken <= 1.05 * auto_gen_terms(p, b + 1, WSE2).cycles(WSE2)


@patient
@given(pes, counts)
def test_reduction_takes_at_least_its_words_and_its_way(p, b):
    assert auto_gen_terms(p, b, WSE2).cycles(WSE2) >= max(b, min(p - 1, b * (p - 1)))


def test_generated_tree_is_a_reduction_like_the_others():
    line = Rect(0, 0, 64, 3)
    named = {
        name: cost(Reduce(line, "x", 64, algorithm=name), WSE2).cycles for name in (*REDUCE_ALGORITHMS, "auto_gen")
    }
    assert min(named, key=named.__getitem__) == "auto_gen"
    assert named["auto_gen"] == auto_gen_terms(64, 64, WSE2).cycles(WSE2)


def test_published_gap_between_fixed_algorithms_and_the_best_one():
    """HPDC'24 finds each fixed algorithm up to 5.9 times slower than its lower bound, which no tree can beat."""
    sizes = [(p, b) for p in (4, 16, 64, 256) for b in (1, 16, 64, 256, 1024, 4096)]
    for name in ("chain", "tree"):
        fixed = REDUCE_ALGORITHMS[name]
        worst = max(fixed(p, b, WSE2).cycles(WSE2) / auto_gen_terms(p, b, WSE2).cycles(WSE2) for p, b in sizes)
        assert 3 < worst < 5.9


@patient
@given(st.integers(2, 40), st.integers(2, 40), counts, machines)
def test_plane_is_no_slower_than_both_axes_or_one_snake(width, height, b, machine):
    rect = Rect(0, 0, width, height)
    plane = cost(Reduce(rect, "xy", b), machine).cycles
    axes = sum(cost(Reduce(rect, axis, b), machine).cycles for axis in ("x", "y"))
    assert plane == min(axes, chain_terms(rect.area, b, machine).cycles(machine))
    assert plane >= cost(Reduce(rect, "x", b), machine).cycles
    assert cost(AllReduce(rect, "xy", b), machine).cycles >= plane


def test_snake_wins_for_many_words_on_a_small_plane_alone():
    rect = Rect(0, 0, 3, 3)
    long, short = (cost(Reduce(rect, "xy", b), WSE2).cycles for b in (4096, 1))
    assert long == chain_terms(9, 4096, WSE2).cycles(WSE2)
    assert short < chain_terms(9, 1, WSE2).cycles(WSE2)


@pytest.mark.parametrize(
    "wrong",
    [{"algorithm": "magic"}, {"algorithm": "chain", "size": 4}, {"size": 4}, {"algorithm": "two_phase", "size": -1}],
)
def test_unknown_reductions_are_refused(wrong):
    with pytest.raises(LazyError):
        Reduce(Rect(0, 0, 8, 1), "x", 4, **wrong)
