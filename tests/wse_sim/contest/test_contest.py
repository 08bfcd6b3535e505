"""Problems of the ISPD-2020 contest: read strictly, placed legally, scored by the contest's costs."""

import itertools
import json
import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cstorch_compat.__main__ import main
from lazytensor.errors import DataError, PlacementError
from tests.wse_sim.contest.problems import CHAIN, problems, text
from wse_sim.contest.contest_command import as_dict
from wse_sim.contest.contest_kernels import Conv, KernelParameters, cblock, dblock, find_parameter_choices
from wse_sim.contest.kernel_choices import KernelChoices
from wse_sim.contest.kernel_graph import parse_problem
from wse_sim.contest.scoring import PlacedKernel, find_violations, score
from wse_sim.contest.solving import solve

few = settings(deadline=None, max_examples=10)


def parts(line):
    """(H, W, R, S, C, K, T) of each convolution of a kernel's line, by the contest's text."""
    kind, *fields = line.replace("[", " ").replace("]", " ").split()
    f = {name: int(value) for name, _, value in (field.partition("=") for field in fields) if value.isdigit()}
    if kind == "conv":
        return [tuple(f[n] for n in "HWRSCKT")]
    h, w, c = f["h"], f["w"], f["f"]
    if kind == "dblock":
        return [(h, w, 1, 1, c, c // 4, 1), (h, w, 3, 3, c // 4, c // 4, 1), (h, w, 1, 1, c // 4, c, 1)]
    small = (math.ceil(h / 2), math.ceil(w / 2))
    first = [(h, w, 1, 1, c // 2, c // 4, 1), (h, w, 3, 3, c // 4, c // 4, 2)]
    return [*first, (*small, 1, 1, c // 4, c, 1), (h, w, 1, 1, c // 2, c, 2)]


def assert_legal(content, document):
    """Holds a document of the command to the text of its problem, PE by PE, without the package's own checker."""
    lines = [line for line in content.splitlines() if "name=" in line and not line.startswith(("input", "output"))]
    limit = int(content.partition("memlimit=")[2].split()[0])
    owner, slowest = {}, 0
    for line, row in zip(lines, document["layout"], strict=True):
        p = row["parameters"]
        h, w = p["h"], p["w"]
        extents = (3 * sum(p["k"]), h * w * (max(p["c"]) + 1))
        assert (row["width"], row["height"]) == (extents if row["rotation"] == "R0" else extents[::-1])
        for x in range(row["x"], row["x"] + row["width"]):
            for y in range(row["y"], row["y"] + row["height"]):
                assert 0 <= x < document["width"]
                assert 0 <= y < document["height"]
                assert (x, y) not in owner
                owner[x, y] = row["name"]
        for (H, W, R, S, C, K, T), c, k in zip(parts(line), p["c"], p["k"], strict=True):
            assert C / c * K / k * R * S + (W + S - 1) / w * (H + R - 1) / h * K / k <= limit * (1 + 1e-12)
            cycles = math.ceil(H / h) * math.ceil(W / w) * math.ceil(C / c) * math.ceil(K / k) * R * S / T**2
            slowest = max(slowest, cycles)
    assert slowest == document["delta_t"] > document["bound"] - 1


def document_of(problem):
    solution = solve(problem, effort=0.0)
    return as_dict(problem, solution, score(problem, solution.layout), 0.0)


@few
@given(problems(), st.randoms(use_true_random=False))
def test_layouts_are_legal_in_whatever_order_the_kernels_come(content, shuffle):
    lines = content.splitlines()
    nodes, end = [line for line in lines if "name=" in line], lines.index("*)") + 1
    mixed = shuffle.sample(nodes, len(nodes))
    for order in (nodes, mixed):
        one = "\n".join([*lines[:end], *order, *(line for line in lines if "->" in line)])
        try:
            document = document_of(parse_problem(one))
        except PlacementError as error:
            assert "over" in error.what
        else:
            assert_legal(one, document)


@settings(deadline=None, max_examples=5)
@given(problems())
def test_checker_agrees_that_layouts_are_legal(content):
    problem = parse_problem(content)
    try:
        layout = solve(problem, effort=0.0).layout
    except PlacementError:
        return
    assert list(find_violations(problem, layout)) == []


def test_checker_sees_overlaps_borders_extents_and_memory():
    problem = parse_problem(text(["conv W=4 H=4 R=1 S=1 C=4 K=4 T=1 U=1"] * 2, memory=70))
    cut = KernelParameters(2, 2, (2,), (2,))
    right = PlacedKernel("k0", 0, 0, 6, 12, "R0", cut)
    assert list(find_violations(problem, [right, replace(right, name="k1", x=6)])) == []
    wrong = {
        "shares 12 PEs with k0": {"x": 5},
        "1 x 0 PEs beyond": {"x": 59},
        "begins outside of the mesh, at (-1, 0)": {"x": -1},
        "covers 6 x 12": {"x": 6, "rotation": "R90"},
        "has the invalid rotation R45": {"x": 6, "rotation": "R45"},
        "which Conv": {"x": 8, "width": 15, "parameters": KernelParameters(2, 2, (2,), (5,))},
        "words on a PE": {"x": 6, "width": 3, "height": 2, "parameters": KernelParameters(1, 1, (1,), (1,))},
    }
    for said, fields in wrong.items():
        (fault, *_) = find_violations(problem, [right, replace(right, name="k1", **fields)])
        assert said in fault


def test_costs_are_those_of_the_description():
    # By hand: 4 x 2 x 3 x 2 tiles of 9 products each, a quarter of them with stride 2.
    conv = Conv(H=8, W=7, R=3, S=3, C=5, K=6, T=2)
    assert conv.time(2, 4, 2, 3) == 4 * 2 * 3 * 2 * 9 / 4
    assert conv.memory(2, 4, 2, 3) == 5 / 2 * 2 * 9 + 9 / 4 * 5 * 2
    assert (KernelParameters(2, 4, (2, 5), (3, 1)).width, KernelParameters(2, 4, (2, 5), (3, 1)).height) == (12, 48)


def test_blocks_are_the_convolutions_of_a_residual_network():
    assert [(v.H, v.R, v.C, v.K, v.T) for v in dblock(8, 8, 32)] == [
        (8, 1, 32, 8, 1),
        (8, 3, 8, 8, 1),
        (8, 1, 8, 32, 1),
    ]
    assert [(v.H, v.R, v.C, v.K, v.T) for v in cblock(8, 8, 32)] == [
        (8, 1, 16, 8, 1),
        (8, 3, 8, 8, 2),
        (4, 1, 8, 32, 1),
        (8, 1, 16, 32, 2),
    ]


@few
@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.integers(1, 300))
def test_menus_hold_every_cut_that_keeps_the_time(size, filters, channels, outputs, time):
    conv = Conv(size, size, filters, filters, channels, outputs, 1)
    curve = find_parameter_choices([conv], time, 500, 60).curve(60, 60)
    cuts = itertools.product(*(range(1, n + 1) for n in (size, size, channels, outputs)))
    best = np.full(61, 16000)
    for h, w, c, k in cuts:
        sides = (3 * k, h * w * (c + 1))
        if conv.time(h, w, c, k) <= time and conv.memory(h, w, c, k) <= 500 and max(sides) <= 60:
            for wide, high in (sides, sides[::-1]):
                best[wide:] = np.minimum(best[wide:], high)
    assert curve.tolist() == best[1:].tolist()


def test_a_problem_is_read_and_its_ends_have_no_place():
    problem = parse_problem(CHAIN)
    assert [k.name for k in problem.kernels] == ["k1", "k2", "k3", "k4"]
    assert problem.edges == ((0, 1), (1, 2), (2, 3))
    assert (problem.width, problem.height, problem.memory_limit) == (64, 48, 4096)


@pytest.mark.parametrize(
    "before, after, said",
    [
        ("height=48\n", "", "p.kgraph: the header has no height"),
        ("width=64", "width=six", "p.kgraph:3: width=six in the header"),
        ("width=64", "width=64000", "p.kgraph:3: width=64000 in the header"),
        ("wlength=1", "wlength=-1", "wlength=-1 in the header"),
        ("C=8 ", "", "p.kgraph:13: C of conv k1 is missing"),
        ("C=8 ", "C=0 ", "p.kgraph:13: C of conv k1 is 0"),
        ("C=8 ", "C=8 ? ", "p.kgraph:13: "),
        ("U=1", "U=2", "p.kgraph:13: k1 has different strides 1 and 2"),
        ("f=32 h=16", "f=30 h=16", "p.kgraph:14: f of cblock k2 is 30"),
        ("dblock[3] f", "dblock[2] f", "p.kgraph:15: a second node has the number 2"),
        ("conv[4] W", "pool[4] W", 'p.kgraph:16: "pool[4]'),
        ("dblock[3]:x", "dblock[9]:x", "p.kgraph:22: an edge has the end dblock[9], but this node does not exist"),
        ("dblock[3]:x", "conv[3]:x", "p.kgraph:22: an edge has the end conv[3], but node 3 is a dblock"),
        ("-> dblock[3]:x", "-> dblock[3]", "p.kgraph:22: "),
        ("(* Connectivity *)", "(* Connectivity", "a comment that begins with (* has no end"),
    ],
)
def test_a_fault_is_named_with_its_line(before, after, said):
    assert before in CHAIN
    with pytest.raises(DataError, match=re.escape(said)):
        parse_problem(CHAIN.replace(before, after, 1), "p.kgraph")


def test_a_kernel_that_is_too_large_is_named_with_what_is_over():
    # 300 x 300 weights in pieces of at most 100 words: 3 k (c + 1) is the least where c and k are alike.
    kernel = "conv W=1 H=1 R=1 S=1 C=300 K=300 T=1 U=1"
    with pytest.raises(PlacementError, match=r"k1 needs \d+ x \d+ PEs for its memory.* \d+ over in x, \d+ over in y"):
        solve(parse_problem(text(["conv W=1 H=1 R=1 S=1 C=2 K=2 T=1 U=1", kernel], width=20, height=20, memory=100)))


def test_memory_that_no_cut_keeps_is_named_with_what_is_over():
    with pytest.raises(PlacementError, match="k0 needs 18 words on a PE in its finest cut, but a PE has 4: 14 over"):
        solve(parse_problem(text(["conv W=1 H=1 R=3 S=3 C=1 K=1 T=1 U=1"], memory=4)))


def test_kernels_that_fill_a_mesh_too_well_say_what_would_do():
    # Four of 3 x 2 PEs go round a hole in 5 x 5, which no straight cut makes.
    four = text(["conv W=1 H=1 R=1 S=1 C=1 K=1 T=1 U=1"] * 4, width=5, height=5)
    with pytest.raises(PlacementError, match="1 over in x, or 1 over in y"):
        solve(parse_problem(four))


def test_area_bound_is_the_least_time_that_area_allows():
    problem = parse_problem(CHAIN)
    menus, bound = KernelChoices(problem), solve(problem, effort=0.0).bound
    assert menus.area(bound) <= 64 * 48 < menus.area(bound - 1)


def test_time_is_traded_for_wires_only_where_the_score_gains():
    problem = parse_problem(CHAIN.replace("wlength=1", "wlength=500"))
    quick, traded = (solve(problem, 0.0, trade) for trade in (False, True))
    assert score(problem, quick.layout).delta_t <= score(problem, traded.layout).delta_t
    assert score(problem, traded.layout).total <= score(problem, quick.layout).total


@pytest.fixture
def chain(tmp_path):
    path = tmp_path / "chain.kgraph"
    path.write_text(CHAIN, encoding="utf-8")
    return path


def test_the_command_tells_figures_and_a_record_for_each_kernel(chain, capsys):
    assert main(["place", str(chain), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert_legal(CHAIN, document)
    centre = [(p["x"] + p["width"] / 2, p["y"] + p["height"] / 2) for p in document["layout"]]
    wires = sum(abs(a - c) + abs(b - d) for (a, b), (c, d) in itertools.pairwise(centre))
    assert document["wirelength"] == wires
    assert document["score"] == document["delta_t"] + wires
    cuts = [(p["parameters"]["h"], p["parameters"]["w"]) for p in document["layout"]]
    assert document["adapter"] == sum((a != c) + (b != d) for (a, b), (c, d) in itertools.pairwise(cuts))


def test_the_command_draws_the_layout(chain, tmp_path, capsys):
    picture = tmp_path / "chain.svg"
    assert main(["place", str(chain), "--svg", str(picture)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("chain: 4 kernels, 64 x 48 PEs")
    assert all(f"{letter} " in out for letter in "ABCD")
    root = ElementTree.parse(picture).getroot()
    assert sum(child.tag.endswith("text") for child in root) == 4
    assert sum(child.tag.endswith("line") for child in root) == 3


def test_the_command_says_where_a_file_has_its_fault(chain, capsys):
    chain.write_text(CHAIN.replace("C=8 ", "", 1), encoding="utf-8")
    assert main(["place", str(chain)]) == 1
    assert f"{chain}:13: C of conv k1 is missing" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["place", "nowhere.kgraph"])
    assert "takes a file that exists, got 'nowhere.kgraph'" in capsys.readouterr().err
