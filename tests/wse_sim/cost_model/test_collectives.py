"""Closed forms against the formulas and the cycle counts that were published for the WSE-2."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wse_sim.programs import patient
from wse_sim.cost_model.collectives import (
    broadcast_terms,
    chain_terms,
    plane_broadcast_terms,
    ring_all_reduce_terms,
    shift_pairs,
    shift_terms,
    star_terms,
    tree_terms,
    two_phase_terms,
)
from wse_sim.cost_model.cost import cost
from wse_sim.cost_model.reduction_tree import REDUCTION_TERMS, choose_reduce
from wse_sim.layout import Rect
from wse_sim.machine import WSE2, WSE3
from wse_sim.phase import AllReduce, Broadcast, Reduce

T_R = 2
pes = st.integers(2, 600)
counts = st.integers(1, 5000)

# Two-phase reduction of 4,096 words on 512 PEs in groups of S, and a chain: cycles of the vendor's simulator, from the
# public log results.txt of the SpMM_Cerebras repository (reduce_2colors_2phase).
PUBLISHED = {2: 10055, 4: 9421, 8: 9117, 16: 8989, 32: 8973, 64: 9061, 128: 9297, 256: 9800}
PUBLISHED_CHAIN = 7218


START = WSE2.dsd_setup_cycles
"""What each operation adds to the printed formulas that has to wait for another one to end."""


@patient
@given(pes, counts)
def test_printed_formulas_and_a_start(p, b):
    assert broadcast_terms(p, b).cycles(WSE2) == b + p + 2 * T_R + START
    assert chain_terms(p, b, WSE2).cycles(WSE2) == b + (2 * T_R + 2) * (p - 1) + START
    assert star_terms(p, b, WSE2).cycles(WSE2) == b * (p - 1) + 2 * T_R + 1 + 1 + START  # and the hop of the nearest


@patient
@given(st.integers(2, 40), st.integers(2, 40), counts)
def test_two_phase_formula_and_two_starts(s, g, b):
    printed = 2 * b + (s * g - 1) + (s + g - 2) * (2 * T_R + 1)
    assert two_phase_terms(s * g, b, WSE2, s).cycles(WSE2) == printed + 2 * START


@patient
@given(pes, counts, st.integers(1, 600))
def test_a_shorter_last_group_is_no_slower(p, b, s):
    s = min(s, p)
    g = math.ceil(p / s)
    printed = 2 * b + (p - 1) + (s + g - 2) * (2 * T_R + 1) + 2 * START
    taken = two_phase_terms(p, b, WSE2, s)
    assert taken.cycles(WSE2) - taken.local_cycles <= printed


@patient
@given(st.integers(1, 9), counts)
def test_tree_formula_and_a_start_for_each_round(rounds, b):
    steps = 2**rounds - 1 + (2 * T_R + 1) * rounds
    assert tree_terms(2**rounds, b, WSE2).cycles(WSE2) == b * rounds + steps + START * rounds


@patient
@given(pes, counts)
def test_trees_of_any_size_lie_between_those_of_powers_of_two(p, b):
    below, above = (tree_terms(2**n, b, WSE2).cycles(WSE2) for n in (p.bit_length() - 1, (p - 1).bit_length()))
    taken = tree_terms(p, b, WSE2)
    assert below <= taken.cycles(WSE2) <= above + taken.local_cycles


@patient
@given(pes, counts)
def test_a_ring_is_no_faster_than_its_cores_take_turns(p, b):
    rounds = 2 * (p - 1)
    assert ring_all_reduce_terms(p, b, WSE2).cycles(WSE2) >= 2 * rounds * b / p
    chained = chain_terms(p, b, WSE2).cycles(WSE2) + broadcast_terms(p, b).cycles(WSE2)
    assert ring_all_reduce_terms(p, b, WSE2).cycles(WSE2) >= min(chained, 2 * rounds * b // p)


@patient
@given(st.integers(2, 100), st.integers(2, 100), counts)
def test_plane_broadcast_formula(m, n, b):
    assert plane_broadcast_terms(m, n, b).cycles(WSE2) == b + m + n - 2 + 2 * T_R + 1 + START


@pytest.mark.parametrize("group", PUBLISHED)
def test_two_phase_is_within_two_percent_of_the_published_simulation(group):
    assert two_phase_terms(512, 4096, WSE2, group).cycles(WSE2) == pytest.approx(PUBLISHED[group], rel=0.02)


def test_chain_is_within_two_percent_of_the_published_simulation():
    assert chain_terms(512, 4096, WSE2).cycles(WSE2) == pytest.approx(PUBLISHED_CHAIN, rel=0.02)


def test_published_ranking_of_groups_is_kept():
    modelled = {group: two_phase_terms(512, 4096, WSE2, group).cycles(WSE2) for group in PUBLISHED}
    assert min(modelled, key=modelled.__getitem__) in (16, 32)


@patient
@given(pes, counts)
def test_chosen_reduction_is_the_least_of_all(p, b):
    every = {name: algorithm(p, b, WSE2).cycles(WSE2) for name, algorithm in REDUCTION_TERMS.items()}
    assert every[choose_reduce(p, b, WSE2)] == min(every.values())


def test_a_chain_a_star_and_a_generated_tree_are_chosen_somewhere():
    chosen = {choose_reduce(p, b, WSE2) for p in (2, 3, 8, 64, 512) for b in (1, 4, 16, 64, 512, 4096)}
    assert chosen == {"chain", "star", "auto_gen"}


@patient
@given(pes, counts, st.integers(1, 10))
def test_shift_waits_for_its_cores_and_for_the_busiest_link(p, b, hops):
    """As derived: a core that sends and receives takes turns; a link in the middle carries `hops` times the words."""
    taken = shift_terms(p, b, hops, "", WSE2).cycles(WSE2)
    if hops >= p:
        assert taken == 0
        return
    assert taken >= START + max(b * min(hops, p - hops), (2 if p > 2 * hops else 1) * b)
    assert taken <= START + max(b * min(hops, p - hops), 2 * b) + hops + 2 * T_R + 1


@patient
@given(st.integers(1, 60), st.integers(-70, 70), st.sampled_from(["", "line", "folded"]))
def test_a_shift_pairs_every_pe_once(p, hops, wrap):
    pairs = shift_pairs(p, hops, wrap)
    senders, receivers = [i for i, _ in pairs], [j for _, j in pairs]
    assert len(set(senders)) == len(senders) and len(set(receivers)) == len(receivers)
    if wrap:
        assert len(pairs) == (p if hops % p else 0)
    else:
        assert set(pairs) == {(i, i + hops) for i in range(p) if hops and 0 <= i + hops < p}


@patient
@given(st.integers(2, 60), st.sampled_from([-1, 1]))
def test_neighbours_on_the_folded_ring_are_at_most_two_hops_away(p, hops):
    pairs = shift_pairs(p, hops, "folded")
    assert max(abs(i - j) for i, j in pairs) <= 2
    at, seen = 0, []
    for _ in range(p):
        seen.append(at)
        at = dict(pairs)[at]
    assert at == 0 and sorted(seen) == list(range(p))


@pytest.mark.parametrize("algorithm", [chain_terms, star_terms, tree_terms, two_phase_terms, ring_all_reduce_terms])
def test_nothing_to_send_takes_no_time(algorithm):
    for time in (algorithm(1, 100, WSE2), algorithm(100, 0, WSE2), broadcast_terms(1, 100), broadcast_terms(100, 0)):
        assert time.cycles(WSE2) == 0


def test_parameters_of_the_machine_enter():
    """WSE-3: 1.125 cycles a wavelet, 2 a hop, 2 a depth step, 16 a start."""
    assert chain_terms(11, 80, WSE3).cycles(WSE3) == math.ceil(80 * 1.125 + 10 * 2 + 10 * 2 + 16)


def test_reduction_over_a_plane_goes_along_rows_then_a_column():
    rect = Rect(0, 0, 16, 9)
    along = [cost(Reduce(rect, axis, 30), WSE2).cycles for axis in ("x", "y")]
    assert cost(Reduce(rect, "xy", 30), WSE2).cycles == sum(along)
    back = cost(Broadcast(rect, "xy", 30), WSE2).cycles
    assert cost(AllReduce(rect, "xy", 30), WSE2).cycles == sum(along) + back


def test_turns_cost_on_the_plane_only():
    flat, plane = Rect(0, 0, 16, 1), Rect(0, 0, 16, 9)
    assert cost(Broadcast(plane, "xy", 8), WSE3).cycles == plane_broadcast_terms(16, 9, 8).cycles(WSE3) + 20
    assert cost(Broadcast(flat, "xy", 8), WSE3).cycles == plane_broadcast_terms(16, 1, 8).cycles(WSE3)


@patient
@given(st.integers(2, 200), st.integers(1, 3000))
def test_all_reduce_is_a_reduction_and_a_broadcast_and_no_slower_than_a_ring(p, b):
    rect = Rect(0, 0, p, 1)
    two_steps = cost(Reduce(rect, "x", b), WSE2).cycles + cost(Broadcast(rect, "x", b), WSE2).cycles
    ring = cost(AllReduce(rect, "x", b, algorithm="ring"), WSE2).cycles
    assert cost(AllReduce(rect, "x", b), WSE2).cycles == two_steps <= ring


def test_groups_cut_a_line_into_shorter_ones():
    whole, half = Rect(0, 0, 16, 3), Rect(0, 0, 8, 3)
    cut = cost(Reduce(whole, "x", 50, groups=2), WSE2)
    assert cut.cycles == cost(Reduce(half, "x", 50), WSE2).cycles
    assert cut.wire_words == 2 * cost(Reduce(half, "x", 50), WSE2).wire_words
