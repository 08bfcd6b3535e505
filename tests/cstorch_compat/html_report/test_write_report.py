"""The page of a run and of a plan: one file that loads nothing, in which the user's words stay words."""

import base64
import csv
import gzip
import html.parser
import io
import json
import pathlib
import re
import xml.etree.ElementTree

import pytest

from cstorch_compat.html_report.contents import PageStep
from cstorch_compat.html_report.write_report import make_texts, write_page
from cstorch_compat.planning.recording import record_script
from lazytensor import config
from tests.conftest import ROOT, lazywafer, training
from tests.shown_numbers import value_of
from wse_sim import WSE2, plan

pytestmark = pytest.mark.slow

SCRIPT = """
import torch, torch.nn as nn, torch.nn.functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module(NAME, nn.Linear(16, 8))
        self.last = nn.Linear(8, 3)

    def forward(self, x):
        hidden = F.relu(getattr(self, NAME)(x))
        return self.last(hidden)

NAME = "first"
model = Net()
optimizer = torch.optim.Adam(model.parameters())
data = torch.utils.data.TensorDataset(torch.randn(32, 16), torch.randint(0, 3, (32,)))
for x, y in torch.utils.data.DataLoader(data, batch_size=8):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
RESIDUAL = """
import torch, torch.nn as nn, torch.nn.functional as F

class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.bn1, self.bn2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.relu(x + self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))

head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), Block(4), *head)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 3, 10, 10), torch.arange(8) % 3), 4)
for x, y in loader:
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
RISKY = SCRIPT.replace(
    "hidden = F.relu(getattr(self, NAME)(x))",
    "hidden = getattr(self, NAME)(x)[:, :8] * (1 + x.sum().item())",
)
LINE = "hidden = F.relu(getattr(self, NAME)(x))"
COMBINATIONS = ("--batch", "8,16", "--machine", "wse2,tiny", "--mode", "all")
HOSTILE = "</script><script>hit = 1</script><img src=x onerror='hit = 2'>"
HOSTILE_FILE = "<img src=x onerror=hit=3>&amp;\"'.py"


class Reader(html.parser.HTMLParser):
    """The elements of a page with their attributes, and what the scripts hold."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self.title = [], {}, ""
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside = tag if tag != "script" else dict(attrs).get("id", "code")

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside == "title":
            self.title += data
        elif self.elements and self.elements[-1][0] == "script" and self._inside:
            self.scripts[self._inside] = self.scripts.get(self._inside, "") + data


def data_of(text):
    return json.loads(Reader(text).scripts["data"])


def graphs_of(text):
    return json.loads(gzip.decompress(base64.b64decode(Reader(text).scripts["graph"])))


def page(folder, *options, name="train.py", text=SCRIPT):
    """The page of a plan; nothing is computed for it."""
    (folder / name).write_text(text)
    done = lazywafer("plan", "--html", "page.html", *options, name, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "page.html"


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return page(tmp_path_factory.mktemp("plain"), *COMBINATIONS)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    return page(folder, name=HOSTILE_FILE, text=SCRIPT.replace('"first"', repr(HOSTILE)))


@pytest.fixture(scope="module")
def risky(tmp_path_factory):
    return page(tmp_path_factory.mktemp("risky"), "--zeros", text=RISKY)


@pytest.fixture(scope="module")
def residual(tmp_path_factory):
    return page(tmp_path_factory.mktemp("residual"), text=RESIDUAL)


@pytest.fixture(scope="module")
def what_if(tmp_path_factory):
    return page(tmp_path_factory.mktemp("what_if"), "--what-if", "--machine", "tiny", "--mode", "streaming")


@pytest.mark.process
def test_the_page_has_a_line_for_each_resource_if_their_shares_were_planned(window, what_if, plain):
    (row,) = data_of(what_if.read_text())["rows"]
    lines = "[...document.querySelectorAll('#resources tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    window.open(what_if)
    shown = window.value(lines)
    assert [line[0] for line in shown] == [one["resource"] for one in row["resources"]]
    assert [value_of(line[1]) for line in shown] == pytest.approx(
        [100 * r["share"] for r in row["resources"]], rel=0.01
    )
    assert row["verdict"] in window.text("#resources")
    assert window.text("#verdict") == row["verdict"]
    window.open(plain)
    assert window.value(lines) == []
    assert window.faults == []


def test_the_page_has_every_figure_of_the_plan_and_the_lines_of_the_script(plain):
    text = plain.read_text()
    data = data_of(text)
    rows = json.loads(lazywafer("plan", "--json", *COMBINATIONS, "train.py", cwd=plain.parent).stdout)["rows"]
    assert data["rows"] == rows
    step = data["steps"][0]
    shown = step["modes"]["streaming"]
    assert [shown[k] for k in ("step_cycles", "samples_per_s", "verdict")] == [
        rows[1][k] for k in ("step_cycles", "samples_per_s", "verdict")
    ]
    assert shown["rows"][0]["label"] == "model.first" and shown["timeline"]["end"] > 0
    file, _, line = shown["rows"][0]["where"].rpartition(":")
    assert data["sources"][file][line].strip() == LINE
    links = step["modes"]["pipelined"]["links"]
    assert max(map(max, links["shares"])) == 100 and links["bytes"] > 0
    assert step["modes"][step["mode"]]["verdict"] in text.replace("&#x27;", "'")
    assert set(data["versions"]) == {"lazywafer", "python", "numpy", "h5py", "numba"}


@pytest.mark.process
def test_the_table_of_combinations_has_input_workers_if_they_are_an_option(window, plain, tmp_path):
    heads = "[...document.querySelectorAll('#compared th')].map((cell) => cell.textContent)"
    column = "[...document.querySelectorAll('#compared td:nth-child(4)')].map((cell) => cell.textContent)"
    # Samples of 16 kB, so that one worker limits.
    wide = SCRIPT.replace("Linear(16,", "Linear(4096,").replace("randn(32, 16)", "randn(32, 4096)")
    window.open(page(tmp_path, "--workers", "1,2000", "--mode", "streaming", text=wide))
    assert window.value(heads)[:5] == ["batch", "machine", "systems", "workers", "mode"]
    assert window.value(column) == ["1", "2,000"]
    # The step that the page shows whole has the first number of workers.
    data = data_of((tmp_path / "page.html").read_text())
    assert data["steps"][0]["modes"]["streaming"]["samples_per_s"] == data["rows"][0]["samples_per_s"]
    assert data["rows"][0]["samples_per_s"] < data["rows"][1]["samples_per_s"]
    window.open(plain)
    assert window.value(heads)[:4] == ["batch", "machine", "systems", "mode"]
    assert window.value("document.querySelector('#page section:not([hidden])').id") == "compared"
    assert window.faults == []


def test_the_graph_of_a_module_goes_from_aten_to_generated_code(plain):
    (graph,) = graphs_of(plain.read_text())
    first = graph["modules"]["model.first"]
    assert any("torch.aten.matmul" in line or "torch.aten.linear" in line for line in first["aten"])
    assert any("cirh." in line for line in first["cirh"]) and not any("loc(" in line for line in first["cirh"])
    kernel = next(k for k in first["kernels"] if k["nest"] >= 0)
    nest = graph["nests"][kernel["nest"]]
    assert nest["source"].startswith("import numpy") and nest["loops"].startswith("nest ")
    assert graph["places"][kernel["place"]].startswith("train.py:")


def test_the_page_loads_nothing_and_allows_its_own_script_alone(plain):
    read = Reader(plain.read_text())
    loading = {"src", "href", "srcset", "action", "data", "poster", "background"}
    assert [e for e in read.elements if loading & e[1].keys() or e[0] in ("link", "iframe", "object", "base")] == []
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", plain.read_text())
    (policy,) = [a["content"] for tag, a in read.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'") and "script-src 'sha256-" in policy


def test_words_of_the_script_are_text_in_the_page(hostile):
    read = Reader(hostile.read_text())
    assert read.title == f"{HOSTILE_FILE} on the wafer"
    assert [tag for tag, _ in read.elements].count("script") == 3 and "img" not in [tag for tag, _ in read.elements]
    assert data_of(hostile.read_text())["steps"][0]["modes"]["pipelined"]["rows"][0]["label"].startswith(
        f"model.{HOSTILE}"
    )


def test_a_page_is_asked_for_by_its_ending_and_in_a_folder_that_is_there(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    for wrong in ("report.txt", "nowhere/report.html"):
        done = lazywafer("plan", "--html", wrong, "train.py", cwd=tmp_path)
        assert done.returncode == 2 and wrong.split("/")[0] in done.stderr


def test_a_run_writes_the_page_of_each_program_that_it_compiled(script, tmp_path):
    done = script(
        training(steps=2),
        options=("--html", str(tmp_path / "page.html")),
    )
    assert done.returncode == 0, done.stderr
    data = data_of((tmp_path / "page.html").read_text())
    assert [step["batch"] for step in data["steps"]] == [4]
    (graph,) = graphs_of((tmp_path / "page.html").read_text())
    assert graph["modules"]["model.fc1"]["cirh"]


def test_a_run_without_a_wafer_writes_the_page_of_the_step_that_it_recorded(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    done = lazywafer("run", "--html", "page.html", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert data_of((tmp_path / "page.html").read_text())["steps"][0]["batch"] == 8


def press(window, selector, word):
    """Click the button with a word on it."""
    window.value(f"[...document.querySelectorAll('{selector} button')].find(b => b.textContent === '{word}').click()")


@pytest.mark.process
def test_a_click_on_a_kernel_shows_its_figures_and_its_source_line(window, plain):
    window.open(plain)
    assert window.text("#verdict").startswith("Limited by ")
    press(window, "#choices", "pipelined")
    window.click("#floor .cell")
    said = window.text("#detail")
    row = data_of(plain.read_text())["steps"][0]["modes"]["pipelined"]["rows"][0]
    assert (
        said.startswith("model.first\n") and f"{row['cycles']:,}" in said and window.text("#detail mark").endswith(LINE)
    )
    assert window.text("#tip").startswith("model.first\n") or window.value("document.getElementById('tip').hidden")
    for colour in ("sweep", "memory", "flows", "links"):
        press(window, "#floor", colour)
    assert window.value("document.querySelectorAll('#floor .link').length") > 0
    assert "the fullest link" in window.text("#floor")
    assert window.value("document.querySelectorAll('#floor .flow').length") > 0
    for section in ("timeline", "memory", "roofline", "layers", "compared"):
        assert window.value(f"document.querySelector('#{section}').hidden") is False, section
    assert window.value("document.querySelectorAll('#timeline .span').length") >= 5
    assert window.faults == [] and window.requests == [plain.as_uri()]


@pytest.mark.process
@pytest.mark.parametrize("mode", ["pipelined", "streaming"])
@pytest.mark.parametrize("width", [1200, 390])
def test_floor_plan_has_the_same_scale_in_x_and_y(window, plain, mode, width):
    window.open(plain, width=width)
    press(window, "#choices", mode)
    data = data_of(plain.read_text())["steps"][0]
    drawn = window.value(
        "[...document.querySelectorAll('#floor .cell')].map((c) =>"
        " [c.dataset.layer, c.getAttribute('width'), c.getAttribute('height')].map(Number))"
    )
    rects = [(data["modes"][mode]["rows"][layer]["rect"], wide, high) for layer, wide, high in drawn]
    if mode == "streaming":
        # The widths are shares of the cycles; together they are the whole wafer.
        rects = [((0, 0, data["machine"]["width"], data["machine"]["height"]), sum(d[1] for d in drawn), drawn[0][2])]
    scale = rects[0][1] / rects[0][0][2]
    for (_, _, columns, lines), wide, high in rects:
        assert (wide, high) == (pytest.approx(scale * columns), pytest.approx(scale * lines))


@pytest.mark.process
@pytest.mark.parametrize("dark", [False, True])
def test_free_area_differs_from_a_rectangle_of_zero_use(window, plain, dark):
    window.open(plain, dark=dark)
    press(window, "#choices", "pipelined")
    assert "free area" in window.text("#floor") and "0 % of peak" in window.text("#floor")
    assert window.value("getComputedStyle(document.querySelector('#floor .wafer')).fill").startswith("url(")
    assert window.value("mixed(0)") not in window.value("document.querySelector('#floor .wafer').outerHTML")
    press(window, "#choices", "streaming")
    # Each layer has the whole wafer in turn.
    assert "free area" not in window.text("#floor")


@pytest.mark.process
@pytest.mark.parametrize("mode", ["pipelined", "streaming"])
def test_each_chart_names_its_axes(window, plain, mode):
    window.open(plain)
    press(window, "#choices", mode)
    for section in ("floor", "timeline", "memory", "roofline"):
        # The lanes of a timeline and their names are two drawings of one chart.
        nameless = f"[...document.querySelectorAll('#{section} svg')].filter((s) => !s.querySelector('.axis-name'))"
        assert window.value(f"{nameless}.length") == 0, section
    assert "samples/s, l" in window.text("#limits") and "samples/s, l" in window.text("#compared")
    names = window.value("[...document.querySelectorAll('#roofline .axis-name')].map((t) => t.textContent)")
    assert names == ["FLOPs a byte touched", "FLOPs a cycle and PE"]


@pytest.mark.process
def test_a_limit_marks_its_layers_on_hover_and_on_focus(window, plain):
    window.open(plain)
    press(window, "#choices", "pipelined")
    shown = data_of(plain.read_text())["steps"][0]["modes"]["pipelined"]
    bound = next(b for b in shown["bounds"] if b["kind"] == "compute")
    layer = next(n for n, row in enumerate(shown["rows"]) if row["label"] == bound["what"])
    name = f"[...document.querySelectorAll('#limits button')].find((b) => b.innerText.endsWith('of {bound['what']}'))"
    lit = "[...new Set([...document.querySelectorAll('.lit')].map((e) => e.closest('section').id))].sort().join()"
    for begin, end in (
        (f"{name}.focus()", f"{name}.blur()"),
        *[[f"{name}.closest('li').dispatchEvent(new PointerEvent('pointer{e}'))" for e in ("enter", "leave")]],
    ):
        window.value(begin)
        assert window.value(lit) == "floor,layers,roofline,timeline"
        assert window.value(f"document.querySelector('#layers .lit').dataset.layers === '{layer}'")
        window.value(end)
        assert window.value(lit) == ""
    window.value(f"{name}.click()")
    assert window.text("#detail").startswith(bound["what"]) and window.faults == []


@pytest.mark.process
def test_terms_have_the_meaning_of_the_glossary(window, plain):
    window.open(plain)
    lines = (ROOT / "GLOSSARY.md").read_text(encoding="utf-8").splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    glossary = {row[0]: row[1] for row in rows}
    terms = window.value("TERMS.map(([term, , meaning]) => [term, meaning])")
    assert terms and [[term, glossary.get(term)] for term, _ in terms] == terms


@pytest.mark.process
@pytest.mark.parametrize("width", [1200, 390])
def test_a_term_shows_its_meaning_to_mouse_keyboard_and_screen_reader(window, plain, width):
    window.open(plain, width=width)
    term = "document.querySelector('#memory h2 .term')"
    meaning = "processing element: a core, its memory and its router"
    assert window.value(f"{term}.innerText") == "PE" and window.value(f"{term}.tabIndex") == 0
    described = f"document.getElementById({term}.getAttribute('aria-describedby')).textContent"
    assert window.value(described) == meaning
    hidden = "document.getElementById('tip').hidden"
    # Focus scrolls to the term, and the meaning stays.
    window.value(f"{term}.focus()")
    window.until("new Promise((done) => setTimeout(() => done(scrollY > 0), 200))")
    assert not window.value(hidden)
    assert window.text("#tip") == f"PE: {meaning}"
    window.value("dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))")
    assert window.value(hidden)
    window.click("#memory h2 .term")
    assert window.text("#tip") == f"PE: {meaning}"
    # A term is explained once per section, and never inside another button.
    assert window.value("document.querySelectorAll('button button').length") == 0
    words = window.value(
        "[...document.querySelectorAll('#floor .term')].map((b) => b.getAttribute('aria-describedby'))"
    )
    assert len(words) == len(set(words)) and window.faults == []


@pytest.mark.process
def test_tables_are_copied_with_the_figures_of_the_json_report(window, plain):
    window.open(plain)
    data = data_of(plain.read_text())
    tables = {"compared": data["rows"], "layers": data["steps"][0]["modes"][data["steps"][0]["mode"]]["rows"]}
    window.value("copied = []; navigator.clipboard.writeText = async (text) => { copied.push(text); }; 1")
    for n, (section, rows) in enumerate(tables.items()):
        press(window, f"#{section}", "Copy as CSV")
        window.until(f"copied.length === {n + 1}")
        assert "Copied as CSV." in window.text("#tip")
        copied = list(csv.DictReader(io.StringIO(window.value(f"copied[{n}]"), newline="")))
        assert len(copied) == len(rows)
        for line, row in zip(copied, rows, strict=True):
            for field, text in line.items():
                assert text.lower() == str(row[field]).lower() or float(text) == row[field], field
    # A cell keeps commas and quotes, and a spreadsheet does not run it.
    awkward = ['a,"b"\nc', "=1+1", "plain"]
    text = window.value(f"toCsv([{json.dumps(awkward)}])")
    assert next(csv.reader(io.StringIO(text, newline=""))) == ['a,"b"\nc', "'=1+1", "plain"]


@pytest.mark.process
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("section", ["floor", "timeline", "memory", "roofline"])
def test_charts_are_saved_as_svg_and_png_with_title_and_legend(window, plain, section, dark):
    window.open(plain, dark=dark)
    press(window, "#choices", "pipelined")
    # Downloads are recorded and not written.
    window.value(
        "saved = []; URL.createObjectURL = (blob) => { saved.push(blob); return 'data:,'; };"
        " HTMLAnchorElement.prototype.click = function () { saved.push(this.download); }; 1"
    )
    press(window, f"#{section}", "Save as SVG")
    press(window, f"#{section}", "Save as PNG")
    window.until("saved.length === 4")
    assert window.value("[saved[1], saved[3]]") == [f"{section}.svg", f"{section}.png"]
    text = window.value("saved[0].text()")
    drawing = xml.etree.ElementTree.fromstring(text)
    words = " ".join(drawing.itertext())
    title, keys = (
        window.text(f"#{section} h2"),
        window.value(f"[...document.querySelectorAll('#{section} .key')].map((k) => k.innerText)"),
    )
    assert title in words and all(key in words for key in keys)
    # The file needs no style sheet and loads nothing.
    assert "var(" not in text and "color-mix" not in text and "<image" not in text
    width = float(drawing.get("width"))
    assert window.value("createImageBitmap(saved[2]).then((p) => p.width)") == pytest.approx(2 * width, abs=1)
    assert window.faults == []


@pytest.mark.process
def test_the_graph_opens_down_to_the_code_of_a_kernel(window, plain):
    window.open(plain)
    window.value("openModule('model.first')")
    window.until("document.querySelector('details[data-path=\"model.first\"]')?.open")
    inside = "document.querySelector('details[data-path=\"model.first\"]')"
    window.value(f"{inside}.querySelectorAll('details').forEach((d) => d.open = true)")
    window.until(f"{inside}.innerText.includes('torch.aten.') && {inside}.innerText.includes('cirh.')")
    window.value(f"{inside}.querySelectorAll('details').forEach((d) => d.open = true)")
    window.until(f"{inside}.innerText.includes('def kernel(')")
    assert window.faults == []


@pytest.mark.process
@pytest.mark.parametrize("width, dark", [(1200, False), (390, False), (390, True)])
def test_the_page_fits_a_screen_in_light_and_dark(window, plain, width, dark):
    window.open(plain, width=width, height=800, dark=dark)
    assert window.value("document.documentElement.scrollWidth") <= width
    light = int(window.value("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/)[0]"))
    assert (light < 100) is dark


@pytest.mark.process
def test_words_of_the_script_run_nothing(window, hostile):
    window.open(hostile)
    press(window, "#choices", "pipelined")
    window.click("#floor .cell")
    assert HOSTILE in window.text("#detail")
    window.value("openModule('')")
    window.until("document.querySelectorAll('#tree details').length > 1")
    assert window.value("window.hit === undefined") and window.faults == []
    assert window.value("document.images.length") == 0


@pytest.mark.process
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (400, False)])
def test_findings_are_shown_beside_their_line(window, risky, width, dark):
    line = next(n for n, text in enumerate(RISKY.splitlines(), 1) if ".item()" in text)
    found = data_of(risky.read_text())["check"]["findings"]
    assert {(f["id"], f["severity"]) for f in found if f["line"] == line} == {("LW101", "refused"), ("LW307", "risk")}
    window.open(risky, width, dark=dark)
    shown = window.text("#findings")
    for finding in (f for f in found if f["severity"] != "note"):
        assert all(finding[key] in shown for key in ("id", "title", "source_line", "way_out")), finding
    assert window.text("#checked") == "lazywafer check: 1 refusal and 1 risk"
    # The row of the layer has links to the findings, and so have the source lines a remark.
    links = window.value("[...document.querySelectorAll('#layers .rule')].map((e) => [e.textContent, e.hash])")
    assert {name for name, _ in links} == {"LW101", "LW307"}
    assert window.value(f"document.querySelector({links[0][1]!r}).querySelector('.rule').textContent") == links[0][0]
    window.click("#layers tbody tr:has(.rule) button")
    remarks = window.text("#detail pre")
    assert "LW101 refused: " in remarks and "LW307 risk: " in remarks
    window.click("#layers .rule")
    assert window.value("location.hash") == links[0][1]
    assert window.value("document.documentElement.scrollWidth") <= width
    assert window.faults == []


def test_findings_mark_their_layers_and_their_reasons_open_by_keyboard(window, risky):
    window.open(risky)
    window.value("document.querySelector('#findings .finding.is-refused summary').focus(); 1")
    assert window.value("document.querySelectorAll('#layers .lit').length") >= 1
    window.value("document.activeElement.click(); 1")
    assert "no values while the step is traced" in window.text("#findings .finding.is-refused details")


def test_a_module_has_no_findings_and_the_page_says_why(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    done = lazywafer("plan", "--html", "page.html", "-m", "train", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = data_of((tmp_path / "page.html").read_text())["check"]
    assert (found["findings"], found["is_complete"]) == ([], False)
    assert "only scripts in a file are checked" in found["verdict"]


def test_memory_is_shown_by_stage_and_over_time(window, plain):
    window.open(plain)
    press(window, "#choices", "pipelined")
    modes = data_of(plain.read_text())["steps"][0]["modes"]
    shown = modes["pipelined"]
    for stage in shown["stages"]:
        held = sum(stage[part] for part in ("state", "waiting", "working"))
        assert -1 < shown["rows"][stage["layer"]]["bytes_per_pe"] - held < 1
    assert "samples in flight" in window.text("#memory")
    assert window.value("document.querySelectorAll('#memory rect.backward').length") == len(shown["stages"])
    press(window, "#choices", "streaming")
    # What a report calls the peak is the highest point of the course, in whole bytes a PE.
    pes = 750 * 994
    assert -(-max(modes["streaming"]["held"]) // pes) == modes["streaming"]["peak_bytes_per_pe"]
    assert window.value("document.querySelectorAll('#course .catch').length") == len(modes["streaming"]["held"])


def test_a_residual_net_shows_its_convolutions_at_their_lines(window, residual):
    window.open(residual)
    press(window, "#choices", "pipelined")
    labels = window.value("[...document.querySelectorAll('#layers tbody td:first-child')].map((d) => d.innerText)")
    convolution = next(n for n, label in enumerate(labels) if label.startswith("model.2.conv1"))
    window.value(f"document.querySelectorAll('#layers tbody button')[{convolution}].click()")
    assert window.text("#detail").startswith("model.2.conv1")
    assert "self.bn1(self.conv1(x))" in window.text("#detail mark")
    assert window.value("document.querySelectorAll('#timeline .span').length") > 10
    window.value("openModule('model.2.conv1')")
    window.until("document.querySelector('details[data-path=\"model.2.conv1\"]')?.open")
    assert window.faults == []


def violations(window):
    """What axe-core finds in the page that is open, with all of the graph's modules in it; skips without axe-core."""
    axe_core = pytest.importorskip("axe_core_python", reason="axe-core-python is an extra of the tests")
    window.value("openModule('')")
    window.value((pathlib.Path(axe_core.__file__).parent / "axe.min.js").read_text(encoding="utf-8") + "; 1")
    assert window.value("axe.run().then((r) => r.passes.length)") > 15
    return window.value("axe.run().then((r) => r.violations.map((v) => `${v.impact} ${v.id}`))")


@pytest.mark.parametrize(
    "net, dark",
    [
        *(("plain", False), ("residual", False), ("residual", True), ("risky", False), ("risky", True)),
        *(("what_if", False), ("what_if", True)),
    ],
)
def test_axe_finds_no_fault_in_the_page(window, request, net, dark):
    window.open(request.getfixturevalue(net), dark=dark)
    assert violations(window) == []


def test_the_page_of_gpt2_is_small_opens_and_shows_the_line_of_a_kernel(window, tmp_path):
    texts = []
    # Graphs are checked where they are compiled to be run.
    with config.override(check=False):
        path = ROOT / "notebooks" / "scripts" / "published" / "gpt2.py"
        family = record_script(str(path), on_graph=lambda graph: texts.append(make_texts(graph)))
        step = PageStep(family.program(), plan(family, WSE2, "streaming", other=False), WSE2, *texts)
        write_page(tmp_path / "gpt2.html", str(path), [step])
    assert (tmp_path / "gpt2.html").stat().st_size < 2_000_000
    window.open(tmp_path / "gpt2.html")
    assert window.value("document.querySelectorAll('#layers tbody tr').length") == 115
    assert window.faults == []
    assert window.value("document.querySelectorAll('#timeline .span').length") > 100
    window.value("document.querySelectorAll('#layers tbody button')[0].click()")
    assert "self." in window.text("#detail mark")
    assert window.faults == []
    assert violations(window) == []
