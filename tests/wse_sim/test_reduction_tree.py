"""The generated tree: what it promises is what its edges give, and nothing that the model knows is faster."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import patient

from lazytensor.errors import LazyError
from wse_sim.collectives import REDUCE_ALGORITHMS, chain
from wse_sim.cost import cost
from wse_sim.layout import Rect
from wse_sim.machine import WSE2, WSE3
from wse_sim.phase import AllReduce, Reduce
from wse_sim.reduction_tree import FAN_INS, auto_gen, generated_tree

pes = st.integers(2, 130)
counts = st.integers(1, 5000)
machines = st.sampled_from([WSE2, WSE3])


def depth_of(parents, i):
    return 0 if parents[i] < 0 else 1 + depth_of(parents, parents[i])


def terms_of(parents, words):
    """(depth, fan-in, energy in wavelet-hops) of a tree, counted on its edges."""
    depth = max(depth_of(parents, i) for i in range(len(parents)))
    fan_in = max(Counter(p for p in parents if p >= 0).values())
    return depth, fan_in, words * sum(i - p for i, p in enumerate(parents) if p >= 0)


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


@patient
@given(pes, counts, machines)
def test_generated_tree_is_never_slower_than_what_is_published(p, b, machine):
    every = [algorithm(p, b).cycles(machine) for algorithm in REDUCE_ALGORITHMS.values()]
    assert auto_gen(p, b, machine).cycles(machine) <= min(every)


@patient
@given(st.integers(3, 130), counts, machines)
def test_terms_are_those_of_the_edges(p, b, machine):
    parents = generated_tree(p, b, machine)
    depth, fan_in, energy = terms_of(parents, b)
    assert parents[0] == -1 and is_pre_order(parents)
    stream = max(fan_in * b, energy / (p - 1)) * machine.wavelet_cycles
    taken = stream + (p - 1) * machine.hop_cycles + depth * machine.depth_step_cycles
    # The chosen bounds of fan-in and depth need not be reached, so the tree may be better than its price, not worse.
    promised = auto_gen(p, b, machine).cycles(machine)
    if promised < min(a(p, b).cycles(machine) for a in REDUCE_ALGORITHMS.values()):
        assert taken <= promised
    assert fan_in <= max(FAN_INS)


def least_cycles_of_all_trees(p, b, machine):
    """By trying every pre-order tree: every PE chooses among those on the path from the PE before it."""
    best = float("inf")
    for choice in product(*(range(i) for i in range(1, p))):
        parents = (-1, *choice)
        if is_pre_order(parents):
            depth, fan_in, energy = terms_of(parents, b)
            stream = max(fan_in * b, energy / (p - 1)) * machine.wavelet_cycles
            best = min(best, stream + (p - 1) * machine.hop_cycles + depth * machine.depth_step_cycles)
    return best


@pytest.mark.parametrize("p", [3, 4, 5, 6, 7])
@pytest.mark.parametrize("b", [1, 4, 9, 30, 200])
def test_no_tree_of_a_short_line_is_faster(p, b):
    """The star is left out: its published price is lower, since it sets the distance to 0."""
    found = min(auto_gen(p, b, WSE2).cycles(WSE2), chain(p, b).cycles(WSE2))
    assert found <= least_cycles_of_all_trees(p, b, WSE2) + 1


@patient
@given(st.integers(2, 120), counts)
def test_longer_lines_and_more_words_are_never_faster(p, b):
    taken = auto_gen(p, b, WSE2).cycles(WSE2)
    assert taken <= auto_gen(p + 1, b, WSE2).cycles(WSE2)
    assert taken <= auto_gen(p, b + 1, WSE2).cycles(WSE2)


@patient
@given(pes, counts)
def test_reduction_takes_at_least_its_words_and_its_way(p, b):
    assert auto_gen(p, b, WSE2).cycles(WSE2) >= max(b, min(p - 1, b * (p - 1)))


def test_generated_tree_is_a_reduction_like_the_others():
    line = Rect(0, 0, 64, 3)
    named = {
        name: cost(Reduce(line, "x", 64, algorithm=name), WSE2).cycles for name in (*REDUCE_ALGORITHMS, "auto_gen")
    }
    assert min(named, key=named.__getitem__) == "auto_gen"
    assert named["auto_gen"] == auto_gen(64, 64, WSE2).cycles(WSE2)


def test_published_gap_between_fixed_algorithms_and_the_best_one():
    """HPDC'24 finds each fixed algorithm up to 5.9 times slower than its lower bound, which no tree can beat."""
    sizes = [(p, b) for p in (4, 16, 64, 256) for b in (1, 16, 64, 256, 1024, 4096)]
    for name in ("chain", "tree"):
        fixed = REDUCE_ALGORITHMS[name]
        worst = max(fixed(p, b).cycles(WSE2) / auto_gen(p, b, WSE2).cycles(WSE2) for p, b in sizes)
        assert 3 < worst < 5.9


@patient
@given(st.integers(2, 40), st.integers(2, 40), counts, machines)
def test_plane_is_no_slower_than_both_axes_or_one_snake(width, height, b, machine):
    rect = Rect(0, 0, width, height)
    plane = cost(Reduce(rect, "xy", b), machine).cycles
    axes = sum(cost(Reduce(rect, axis, b), machine).cycles for axis in ("x", "y"))
    turns = 2 * (min(width, height) - 1) * machine.turn_cycles
    assert plane == min(axes, chain(rect.area, b).cycles(machine) + turns)
    assert plane >= cost(Reduce(rect, "x", b), machine).cycles
    assert cost(AllReduce(rect, "xy", b), machine).cycles >= plane


def test_snake_wins_for_many_words_on_a_small_plane_alone():
    rect = Rect(0, 0, 3, 3)
    long, short = (cost(Reduce(rect, "xy", b), WSE2).cycles for b in (4096, 1))
    assert long == chain(9, 4096).cycles(WSE2)
    assert short < chain(9, 1).cycles(WSE2)


@pytest.mark.parametrize(
    "wrong",
    [{"algorithm": "magic"}, {"algorithm": "chain", "size": 4}, {"size": 4}, {"algorithm": "two_phase", "size": -1}],
)
def test_unknown_reductions_are_refused(wrong):
    with pytest.raises(LazyError):
        Reduce(Rect(0, 0, 8, 1), "x", 4, **wrong)
