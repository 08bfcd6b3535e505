"""Notebooks are executed as they are; what one of them shows is stored beside its cells, or in none of them."""

import json
import os
import pathlib
import re

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = pathlib.Path(__file__).parent.parent
FRONT_PAGE = ROOT / "notebooks" / "README.md"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
STORED = (
    "03_rewriting_and_cirh",
    "04_fusion_and_code",
    "05_placement_and_routes",
    "06_mesh_and_recipes",
    "07_pipelined",
    "08_weight_streaming",
    "09_copies_and_systems",
    "11_precision",
    "12_checkpoints_and_workers",
    "13_truth_of_the_simulator",
    "14_sparsity",
)
SOLUTIONS = {
    "03_rewriting_and_cirh": {
        "answer_1 = set()": 'answer_1 = {"x * 1 = x", "x / 1 = x", "x - 0 = x", "-(-x) = x", "x + x = 2 * x"}',
        "rule_2 = None": 'rule_2 = Rule("relu(relu(x))", pat("relu", pat("relu", x)), lambda bound, n: n.inputs[0])',
        "answer_3 = (0.0, 0.0)": "answer_3 = (1.0, 1e8)",
    },
    "04_fusion_and_code": {
        "answer_1 = None": "answer_1 = 3",
        "return centred.square().mean(-1)": "return x.square().mean(-1) - x.mean(-1).square()",
        "return 0, 0": "return 2 * 4 * n * k, 2 * 4 * n",
    },
    "05_placement_and_routes": {"answer_1 = None": "answer_1 = 8", "answer_2 = None": "answer_2 = 0"},
    "06_mesh_and_recipes": {
        "rounds_1 = in_a_chain": "rounds_1 = [[(4 * g + k, 4 * g) for g in range(4)] for k in (1, 2, 3)]\n"
        "rounds_1 += [[(4 * g, 0)] for g in (1, 2, 3)]",
        'orders_2 = [["send", "take"], ["send", "take"]]': 'orders_2 = [["send&", "take"], ["send&", "take"]]',
    },
    "07_pipelined": {
        "answer_1 = None": "answer_1 = 4096",
        "return 0.0": "return (samples - 1) * rhythm + way",
        "answer_3 = None": "answer_3 = 0",
    },
    "09_copies_and_systems": {
        "answer_1 = None": "answer_1 = 512",
        "return 0.0": "return workers * systems * bytes_per_s / sample_bytes",
        "answer_3 = None": "answer_3 = 8192",
    },
    "11_precision": {
        "answer_1 = None": "answer_1 = -24",
        "return scale  # yours": "return scale / 2 if not finite else scale if good % 4 else 2 * scale",
        "answer_3 = None": "answer_3 = 1024",
    },
    "12_checkpoints_and_workers": {
        "answer_1 = None": "answer_1 = 12",
        "return items  # yours": "return items[worker::workers]",
        "answer_3 = set()": 'answer_3 = {"weights", "position"}',
    },
    "13_truth_of_the_simulator": {
        "answer_1 = None": 'answer_1 = "stencil"',
        "return 0.0  # yours": "return median(median(errors) for errors in families.values())",
        "answer_3 = None": "answer_3 = 15",
    },
    "14_sparsity": {"answer_1 = None": "answer_1 = 0.5", "answer_2 = None": "answer_2 = 1.3"},
}
"""Of each notebook with exercises: what stands in an unsolved cell, and what solves it."""
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
NEAR = 0.1
"""How far a stored figure may be from a fresh one: prices move by some percent as kernels are mended."""


def test_front_page_lists_every_chapter_in_order_with_its_exercises():
    rows = re.findall(
        r"^\|[^|]*\| \[[^]]*\]\((\w+)\.ipynb\) \| \d+ \|[^|]*\|([^|]*)\|$", FRONT_PAGE.read_text(), re.MULTILINE
    )
    assert [name for name, _ in rows] == [path.stem for path in NOTEBOOKS]
    assert {name: int(count) for name, count in rows if count.strip()} == {n: len(s) for n, s in SOLUTIONS.items()}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_runs_to_its_end(path, tmp_path, monkeypatch):
    folders = [str(ROOT), str(path.parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(folders))
    notebook = nbformat.read(path, as_version=4)
    stored = printed(notebook)
    solved = with_solutions(notebook, SOLUTIONS.get(path.stem, {}))
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    for cell in solved:
        notebook.cells.remove(cell)
        assert "".join(out.get("text", "") for out in cell.outputs).startswith("Right:"), cell.source
    if path.stem in STORED:
        assert [without_numbers(text) for text in printed(notebook)] == [without_numbers(text) for text in stored]
        for fresh, old in zip(numbers(printed(notebook)), numbers(stored), strict=True):
            assert fresh == pytest.approx(old, rel=NEAR, abs=NEAR)


def with_solutions(notebook, solutions):
    """Cells that solve exercises, put behind the unsolved ones."""
    solved = []
    for old, new in solutions.items():
        (place,) = (n for n, cell in enumerate(notebook.cells) if cell.cell_type == "code" and old in cell.source)
        solved.append(nbformat.v4.new_code_cell(notebook.cells[place].source.replace(old, new)))
        notebook.cells.insert(place + 1, solved[-1])
    return solved


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_every_checker_of_an_exercise_is_given_a_solution(path):
    code = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    asked = [c for c in code if any(line.startswith("check_") for line in c["source"])]
    assert len(asked) == len(SOLUTIONS.get(path.stem, {}))
    assert all("".join(out["text"][0] for out in c["outputs"]).startswith("Not yet:") for c in asked)


def printed(notebook):
    """What each cell of code printed, but for lines that say by their beginning that they are seconds of a machine."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    texts = ["".join(out.get("text", "") for out in cell.outputs) for cell in cells]
    return [re.sub(r"^~.*$", "~", text, flags=re.MULTILINE) for text in texts]


def without_numbers(text):
    """Words and layout; a number may take another column."""
    return re.sub(r"[\s|]+", " ", NUMBER.sub("#", text))


def numbers(texts):
    return [float(n.replace(",", "")) for n in NUMBER.findall("\n".join(texts))]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_stores_all_outputs_or_none_and_ends_in_an_assertion(path):
    code = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    if path.stem in STORED:
        assert [c["execution_count"] for c in code] == list(range(1, len(code) + 1))
        assert sum(bool(c["outputs"]) for c in code) >= 4
        assert not any(out["output_type"] == "error" for c in code for out in c["outputs"])
    else:
        assert all(not c["outputs"] and c["execution_count"] is None for c in code)
    assert "assert" in "".join(code[-1]["source"])
