"""Laws of the fabric over random legal meshes: nothing lost or made, one answer from every engine, stalls reported."""

from dataclasses import dataclass

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from wse_sim.fabric import (
    RAMP,
    Builder,
    Memory,
    Mesh,
    Received,
    Result,
    Sent,
    mesh_of,
    simulate,
    simulate_phase,
    space_time,
    trace,
)
from wse_sim.fabric.mesh import STEPS
from wse_sim.layout import Rect
from wse_sim.machine import WSE2, WSE3
from wse_sim.phase import AllReduce, Reduce

REGION = 16
SCANS = (1, 1, 1, 2)
"""Threads of the other engine; two of them are slow to start."""


@dataclass(frozen=True)
class Flow:
    """A colour along a path; `takes` says how many words each of its receivers waits for."""

    colour: int
    path: tuple[tuple[int, int], ...]
    moves: tuple[int, ...]
    words: int
    takes: dict[tuple[int, int], int]


@st.composite
def paths(draw, width: int, height: int):
    """A walk over the mesh that never meets itself, and its directions."""
    cells = [(draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1)))]
    moves = []
    for move in draw(st.lists(st.integers(0, 3), max_size=12)):
        x, y = cells[-1][0] + STEPS[move][0], cells[-1][1] + STEPS[move][1]
        if 0 <= x < width and 0 <= y < height and (x, y) not in cells:
            cells.append((x, y))
            moves.append(move)
    return tuple(cells), tuple(moves)


@st.composite
def flows(draw, width: int, height: int, even: bool):
    found = []
    for colour in draw(st.lists(st.integers(0, 23), min_size=1, max_size=4, unique=True)):
        path, moves = draw(paths(width, height))
        if not moves:
            continue
        words = draw(st.integers(1, 12))
        taps = set(draw(st.lists(st.sampled_from(path[1:]), max_size=3))) | {path[-1]}
        more = st.just(0) if even else st.sampled_from([0, 0, 0, 0, 1, -1])
        takes = {cell: max(1, words + draw(more)) for cell in sorted(taps)}
        found.append(Flow(colour, path, moves, words, takes))
    return found


def data_of(flow: Flow) -> np.ndarray:
    return np.arange(1, REGION + 1, dtype=np.float32) + 100 * (flow.colour + 1)


@st.composite
def meshes(draw, even: bool):
    """A mesh with flows, and the flows. An `even` one gives every operation its own thread and matching counts."""
    width, height = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    mesh = Mesh(draw(st.sampled_from([WSE2, WSE3])), width, height)
    found = draw(flows(width, height, even))
    todo: dict[tuple[int, int], list] = {}
    for i, flow in enumerate(found):
        region = Memory(i * REGION)
        todo.setdefault(flow.path[0], []).append((Sent(flow.colour), region, flow.words))
        mesh.load(data_of(flow), *flow.path[0], i * REGION)
        for cell, words in flow.takes.items():
            todo.setdefault(cell, []).append((region, Received(flow.colour), words))
        _lay(mesh, flow)
    for cell, actions in todo.items():
        builder = Builder(f"at {cell}", REGION * len(found))
        for to, a, words in draw(st.permutations(actions)):
            builder.move(to, a, words, asynchronous=even or draw(st.booleans()))
        mesh.run(builder.build(), *cell)
    return mesh, found


def _lay(mesh: Mesh, flow: Flow) -> None:
    source = RAMP
    for i, cell in enumerate(flow.path):
        targets = [flow.moves[i]] if i < len(flow.moves) else []
        if cell in flow.takes:
            targets.append(RAMP)
        mesh.route(flow.colour, *cell, source, targets)
        if i < len(flow.moves):
            source = (flow.moves[i] + 2) % 4


def assert_equal(a: Result, b: Result) -> None:
    assert (a.status, a.cycles, a.waits, a.sent, a.received, a.left) == (
        b.status, b.cycles, b.waits, b.sent, b.received, b.left,
    )  # fmt: skip
    np.testing.assert_array_equal(a.memory, b.memory)
    np.testing.assert_array_equal(a.finished, b.finished)
    for name, counts in a.counters.items():
        np.testing.assert_array_equal(counts, b.counters[name], err_msg=name)


@settings(max_examples=120, deadline=None)
@given(meshes(even=False), st.sampled_from([1_000_000, 40]), st.sampled_from(SCANS))
def test_every_engine_gives_the_same_and_loses_nothing(made, most, threads):
    mesh, found = made
    first = simulate(mesh, "list", max_cycles=most)
    event(first.status)
    assert_equal(first, simulate(mesh, "scan", threads, most))
    for i, flow in enumerate(found):
        _assert_conserved(first, flow, i)
    if first.status == "finished":
        assert not first.waits
        assert not first.left
    else:
        assert first.waits


def _assert_conserved(done: Result, flow: Flow, i: int) -> None:
    """Every receiver holds a beginning of what was sent, in order; what is neither sent nor taken is on the way."""
    sent, expected = done.sent[flow.colour], data_of(flow)
    taken = 0
    for (x, y), words in flow.takes.items():
        region = done.memory[y, x, i * REGION : (i + 1) * REGION]
        count = int((region != 0).sum())
        np.testing.assert_array_equal(region[:count], expected[:count])
        assert count <= min(sent, words)
        taken += count
        if done.status == "finished":
            assert count == words == flow.words
    assert done.received[flow.colour] == taken
    if len(flow.takes) == 1:
        assert sent == taken + done.left.get(flow.colour, 0)
    if any(words != flow.words for words in flow.takes.values()):
        assert done.status != "finished"


@settings(max_examples=5, deadline=None)
@given(st.integers(1, 3), st.integers(520, 700), st.integers(1, 3), st.sampled_from([WSE2, WSE3]))
def test_bands_of_threads_see_each_other(width, height, words, machine):
    """Long columns, of which each thread has a part."""
    data = np.random.default_rng(height).integers(-9, 9, (height, width, words)).astype(np.float32)
    phase = AllReduce(Rect(0, 0, width, height), "y", words, algorithm="tree")
    first = simulate_phase(phase, machine, data, engine="list")
    np.testing.assert_array_equal(first.memory, np.broadcast_to(data.sum(0), data.shape))
    for engine, threads in (("list", 2), ("scan", 2), ("scan", 3), ("auto", 2)):
        assert_equal(first, simulate_phase(phase, machine, data, engine=engine, threads=threads))


@settings(max_examples=60, deadline=None)
@given(meshes(even=True))
def test_flows_that_match_and_run_beside_each_other_always_finish(made):
    mesh, _ = made
    simulate(mesh).expect_finished()


@settings(max_examples=30, deadline=None)
@given(meshes(even=False))
def test_a_traced_run_gives_the_same_and_accounts_for_every_cycle(made):
    mesh, _ = made
    cells = [(x, y) for x in range(mesh.width) for y in range(mesh.height)]
    done, moments = trace(mesh, cells)
    plain = simulate(mesh)
    assert (done.status, done.cycles, done.waits) == (plain.status, plain.cycles, plain.waits)
    np.testing.assert_array_equal(done.memory, plain.memory)
    for x, y in cells:
        busy = sum((m.x, m.y, m.did) == (x, y, "busy") for m in moments)
        assert busy == plain.counters["busy"][y, x]


def test_a_chain_of_four_is_drawn_as_stairs():
    mesh = mesh_of(Reduce(Rect(0, 0, 4, 1), "x", 8, algorithm="chain"), WSE2, 1, 4, 8)
    done, moments = trace(mesh, [(x, 0) for x in range(4)])
    assert done.status == "finished"
    assert space_time(moments).splitlines() == [
        "(0, 0) ######------------------########",
        "(1, 0) ######------------########",
        "(2, 0) ######------########",
        "(3, 0) ##############",
    ]
    assert moments[0].stands_at == (f"{mesh.programs[mesh.program_at[0, 0]].name}, main.0, `add [0], [0], in0 x8`",)
