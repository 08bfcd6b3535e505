"""Detours between calls that merge, against a search of the whole graph."""

import random
from itertools import pairwise

import pytest

from lazytensor.compiler.paths import Paths


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


@pytest.mark.parametrize("seed", range(30))
def test_detours_are_those_of_a_search_while_calls_merge(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randint(2, 14)
    calls = range(count)
    edges = {(a, b) for a in calls for b in range(a + 1, count) if draw.random() < 0.25}
    kernels = {call for call in calls if draw.random() < draw.choice((0.2, 0.8))}
    paths = Paths(edges, {call: (call, call) for call in calls}, kernels.__contains__)
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


def test_a_chain_of_kernels_answers_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    trunk = [("kernel", k) for k in range(50)]
    calls = ["early", *trunk, "late"]
    ranks = {call: (k, k) for k, call in enumerate(calls)}
    paths = Paths([*pairwise(calls), ("early", "late")], ranks, lambda call: isinstance(call, tuple))
    monkeypatch.setattr(paths, "_is_way", lambda *ends: pytest.fail("searched"))
    assert paths.has_detour("early", "late")
    assert not paths.has_detour("late", "early")
