"""Detours between calls that merge, against a search of the whole graph."""

import random
from itertools import pairwise

import pytest

from lazytensor.compiler.reachability import Reachability


def leads(after: dict[int, set[int]], start: int, goal: int) -> bool:
    """Whether a path of two edges or more leads from `start` to `goal`."""
    waiting, seen = [u for u in after[start] if u != goal], set[int]()
    while waiting:
        u = waiting.pop()
        if goal in after[u]:
            return True
        seen.add(u)
        waiting += after[u] - seen - {goal}
    return False


@pytest.mark.parametrize("block", range(8))
def test_detours_are_those_of_a_search_while_calls_merge(block: int) -> None:
    # Hundreds, since few have a path through a merged call from what is behind one end to what is before the other.
    for seed in range(200 * block, 200 * (block + 1)):
        draw = random.Random(seed)
        count, density = draw.randint(2, 20), draw.choice((0.1, 0.25))
        calls = range(count)
        edges = {(a, b) for a in calls for b in range(a + 1, count) if draw.random() < density}
        kernels = {call for call in calls if draw.random() < draw.choice((0.2, 0.8))}
        paths = Reachability(edges, {call: call for call in calls}, kernels.__contains__)
        after = {a: {b for x, b in edges if x == a} for a in calls}
        left = [call for call in calls if call not in kernels]
        while len(left) > 1:
            a, b = draw.sample(left, 2)
            assert paths.has_detour(a, b) == leads(after, a, b)
            if leads(after, a, b) or leads(after, b, a):
                draw.shuffle(left)
                left.pop()
                continue
            paths.merge(a, b)
            left.remove(b)
            after[a] |= after.pop(b)
            after = {u: {a if v == b else v for v in ends} - {u} for u, ends in after.items()}


def test_a_path_leads_through_a_merged_call_to_what_comes_before_its_start() -> None:
    # 0 and 3 become one, which 1 reads and which reads 2: so 2 comes before 1.
    paths = Reachability([(0, 1), (2, 3)], {call: call for call in range(4)}, lambda call: False)
    assert not paths.has_detour(2, 1)
    paths.merge(0, 3)
    assert paths.has_detour(2, 1)


def test_a_chain_of_kernels_answers_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    trunk = [("kernel", k) for k in range(50)]
    calls = ["early", *trunk, "late"]
    ranks = {call: k for k, call in enumerate(calls)}
    paths = Reachability([*pairwise(calls), ("early", "late")], ranks, lambda call: isinstance(call, tuple))
    monkeypatch.setattr(paths, "_has_path", lambda *ends: pytest.fail("searched"))
    assert paths.has_detour("early", "late")
    assert not paths.has_detour("late", "early")
