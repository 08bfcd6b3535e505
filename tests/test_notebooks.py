"""Chapters of the course show the outputs that are stored, except for times; exercises and links work."""

import pathlib
import re

import nbformat
import pytest

from tests.notebook_outputs import code_of, execute, module_path, shown, text_of

ROOT = pathlib.Path(__file__).parent.parent
FRONT_PAGE = ROOT / "notebooks" / "README.md"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SOLUTIONS = {
    "00_tour": {
        "answer_1 = None": "answer_1 = 4820",
        "return np.zeros(len(unseen), int)": "means = np.stack([pixels[digits == n].mean(0) for n in range(10)])\n"
        "    return ((unseen[:, None] - means) ** 2).sum((2, 3)).argmin(1)",
        "answer_3 = None": "answer_3 = 93",
    },
    "01_tensor_and_trace": {
        "answer_1 = None": "answer_1 = [[1, 1, 6], [0, 0, 1]]",
        "total = x\n    for _ in range(4095):\n        total = total + x": "total = x\n    for _ in range(12):\n"
        "        total = total + total",
        "answer_3 = None": "answer_3 = 5",
    },
    "02_autograd": {
        "return np.zeros_like(x)": "return np.tanh(x) + x * (1 - np.tanh(x) ** 2)",
        "return x.round()": "return x + (x.round() - x).detach()",
    },
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
    "05_placement_and_routes": {"answer_1 = None": "answer_1 = 2", "answer_2 = None": "answer_2 = 0"},
    "06_mesh_and_recipes": {
        "rounds_1 = in_a_chain": "rounds_1 = [[(4 * g + k, 4 * g) for g in range(4)] for k in (1, 2, 3)]\n"
        "rounds_1 += [[(4 * g, 0)] for g in (1, 2, 3)]",
        'orders_2 = [["send", "take"], ["send", "take"]]': 'orders_2 = [["send&", "take"], ["send&", "take"]]',
        "ways_3 = by_rows": "ways_3 = [by_rows[0], (1, [(1, 1), (1, 2), (2, 2), (3, 2)])]\n"
        "ways_3 += [(1, [(2, 1), (2, 0), (3, 0)])]",
    },
    "07_pipelined": {
        "answer_1 = None": "answer_1 = 2048",
        "return 0.0": "return (samples - 1) * rhythm + fill",
        "answer_3 = None": "answer_3 = 0",
    },
    "08_weight_streaming": {
        "answer_1 = None": "answer_1 = 8192",
        "return 0.0": "return seconds_to_send * WSE2.edge_bits_per_s / machine.edge_bits_per_s * (\n"
        "        machine.usable_pes * 2 * machine.fma_f16_per_cycle * machine.clock_hz) / 6",
        "answer_3 = None": "answer_3 = 8192",
    },
    "09_copies_and_systems": {
        "answer_1 = None": "answer_1 = 512",
        "return 0.0": "return workers * systems * bytes_per_s / sample_bytes",
        "answer_3 = None": "answer_3 = 2048",
    },
    "10_cstorch_script": {
        "answer_1 = set()": "answer_1 = {20, 40, 50}",
        "if loss > 2.0:  # yours\n        loss = loss * 0.5": "loss = torch.where(loss > 2.0, loss * 0.5, loss)",
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
        "answer_1 = None": 'answer_1 = "gemm"',
        "return 0.0  # yours": "return median(median(errors) for errors in families.values())",
        "answer_3 = None": "answer_3 = 3",
    },
    "14_sparsity": {"answer_1 = None": "answer_1 = 0.5", "answer_2 = None": "answer_2 = 1.3"},
    "15_serving": {
        "return 0  # yours": "return 2 * 2 * layers * kv_heads * head_size * tokens",
        "answer_2 = None": "answer_2 = 16",
    },
    "16_a_kernel_of_ones_own": {
        "answer_1 = None": "answer_1 = 31",
        "return tiles.width, 0": "return tiles.width + 2, -1",
    },
}
"""Chapter -> text of an unsolved cell -> the text that solves it."""
WRONG = {
    "06_mesh_and_recipes": {
        "ways_3 = by_rows": {
            "ways_3 = by_rows[:2]": "Not yet: each route has to begin at its sender",
            "ways_3 = [(0, [(0, 1), (3, 1)]), *by_rows[1:]]": r"Not yet: \(3, 1\) is not a neighbour of \(0, 1\)",
            "ways_3 = [(0, way) for _, way in by_rows]": "Not yet: the mesh refuses a route: .*two inputs on colour 0",
            "ways_3 = [by_rows[0], by_rows[1], (2, [(2, 1), (2, 0), (3, 0)])]": "Not yet: .* with 3 colours",
            "ways_3 = [by_rows[0], (1, [(1, 1), (1, 2), (2, 2), (3, 2)]), (1, by_rows[2][1])]": "Not yet: .*one word",
        }
    }
}
"""Chapter -> text of an unsolved cell -> a wrong answer -> a pattern at the start of the checker's output."""
SHOWN = {
    "Tensor": ("01_tensor_and_trace", "z"),
    "Graph": ("03_rewriting_and_cirh", "simplify(linear)"),
    "Program": ("04_fusion_and_code", "whole"),
    "Nest": ("04_fusion_and_code", "nest"),
    "Report": ("00_tour", "report"),
    "Machine": ("08_weight_streaming", "WSE2"),
    "Mesh": ("06_mesh_and_recipes", "mesh_with(by_rows)"),
}
"""Class -> a chapter, and the last line of a cell that shows an object of the class as a page."""
CHAPTERS = [path.stem for path in NOTEBOOKS]


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def chapter(request):
    """The path of each notebook, and what is in it."""
    return request.param, nbformat.read(request.param, as_version=4)


def test_front_page_lists_every_chapter_in_order_with_its_exercises():
    rows = re.findall(
        r"^\|[^|]*\| \[[^]]*\]\((\w+)\.ipynb\) \| \d+ \|[^|]*\|([^|]*)\|$", FRONT_PAGE.read_text(), re.MULTILINE
    )
    assert [name for name, _ in rows] == CHAPTERS
    assert {name: int(count) for name, count in rows} == {n: len(s) for n, s in SOLUTIONS.items()}


@pytest.mark.process
def test_chapter_runs_to_its_end_and_shows_what_is_stored(chapter, tmp_path, monkeypatch):
    path, notebook = chapter
    monkeypatch.setenv("PYTHONPATH", module_path())
    stored = shown(notebook)
    right = {old: {new: "Right:"} for old, new in SOLUTIONS[path.stem].items()}
    verdicts = answered(notebook, right) | answered(notebook, WRONG.get(path.stem, {})) | asked_for_types(notebook)
    execute(notebook, tmp_path)
    assert all(cell.execution_count for cell in code_of(notebook))
    for cell in [cell for cell in notebook.cells if cell.id in verdicts]:
        notebook.cells.remove(cell)
        assert re.search(f"^{verdicts[cell.id]}", text_of(cell), re.MULTILINE), cell.source
    assert shown(notebook) == stored, f"store it with python -m tests.notebook_outputs {path.stem}"


def test_text_that_names_a_colour_of_cores_names_all(chapter):
    _, notebook = chapter
    if any(re.search(r"pictures\.space_time\(", cell.source) for cell in code_of(notebook)):
        words = " ".join(cell.source.lower() for cell in notebook.cells if cell.cell_type == "markdown")
        named = {colour for colour in ("blue", "orange", "red", "purple", "grey") if re.search(rf"\b{colour}\b", words)}
        assert len(named) in (0, 5), named


def test_chapter_links_to_the_one_before_and_to_the_next(chapter):
    path, notebook = chapter
    first = notebook.cells[0].source
    here = CHAPTERS.index(path.stem)
    assert re.findall(r"\]\((\w+)\.\w+\)", first) == [*CHAPTERS[:here][-1:], [*CHAPTERS, "README"][here + 1]]


def test_each_exercise_has_a_checker_that_refuses_the_unsolved(chapter):
    path, notebook = chapter
    numbered = re.findall(r"^\*\*(\d)\.\*\* ", "\n\n".join(c.source for c in notebook.cells), re.MULTILINE)
    asked = [cell for cell in code_of(notebook) if "\ncheck_" in cell.source]
    names = [re.search(r"^check_(\d+_\d)\(", cell.source, re.MULTILINE)[1] for cell in asked]
    assert names == [f"{path.stem[:2]}_{number}" for number in numbered]
    assert len(names) == len(SOLUTIONS[path.stem])
    assert all(re.search("^Not yet:", text_of(cell), re.MULTILINE) for cell in asked)


def test_chapter_stores_outputs_of_cells_that_ran_in_order(chapter):
    _, notebook = chapter
    code = code_of(notebook)
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not any(out.output_type == "error" for cell in code for out in cell.outputs)


@pytest.mark.parametrize("name", SHOWN)
def test_picture_of_each_class_is_the_last_line_of_a_cell(name):
    stem, line = SHOWN[name]
    notebook = nbformat.read(ROOT / "notebooks" / f"{stem}.ipynb", as_version=4)
    cells = [cell for cell in code_of(notebook) if cell.source.rpartition("\n")[2] == line]
    assert any("text/html" in out.get("data", {}) for cell in cells for out in cell.outputs)


def answered(notebook, answers):
    """Insert cells with `answers` after the unsolved cells. Return cell id -> pattern at the start of its output."""
    verdicts = {}
    for old, instead in answers.items():
        (place,) = (n for n, cell in enumerate(notebook.cells) if cell.cell_type == "code" and old in cell.source)
        for new, verdict in instead.items():
            cell = nbformat.v4.new_code_cell(notebook.cells[place].source.replace(old, new))
            notebook.cells.insert(place + 1, cell)
            verdicts[cell.id] = verdict
    return verdicts


def asked_for_types(notebook):
    """Insert cells after those of SHOWN that print the class of the shown object. Return cell id -> pattern."""
    verdicts = {}
    for name, (_, line) in SHOWN.items():
        for place, cell in reversed(list(enumerate(notebook.cells))):
            if cell.cell_type == "code" and cell.source.rpartition("\n")[2] == line:
                asking = nbformat.v4.new_code_cell(f"print(type({line}).__name__)")
                notebook.cells.insert(place + 1, asking)
                verdicts[asking.id] = f"{name}$"
    return verdicts
