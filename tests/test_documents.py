"""Links in documents and on the site have targets, and code on a page prints the output that the page shows."""

import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

from cstorch_compat.__main__ import _make_parser
from lazytensor import config
from tests.documents import ROOT, broken_pages, broken_texts, build_site, code_blocks, command_lines, texts

DOCS = ROOT / "docs"
MAX_SITE_BYTES = 10_000_000


def test_links_of_texts_and_notebooks_lead_somewhere():
    assert len(list(texts())) > 10
    assert list(broken_texts()) == []


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(importlib.util.find_spec("material") is None, reason="needs the extra docs")
def test_site_builds_without_warnings_and_its_links_lead_somewhere(tmp_path):
    output = build_site(tmp_path)
    assert "WARNING" not in output and (tmp_path / "index.html").is_file(), output
    assert (tmp_path / "reference" / "api" / "reduction.html").is_file()
    assert "LW101" in (tmp_path / "reference" / "rules.html").read_text(encoding="utf-8")
    assert list(broken_pages(tmp_path)) == []
    assert sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file()) < MAX_SITE_BYTES


def test_link_to_nowhere_is_seen(tmp_path):
    (tmp_path / "a.html").write_text('<p id="here"></p><a href="#here"></a><a href="#there"></a><a href="b.html"></a>')
    assert list(broken_pages(tmp_path)) == ["a.html: #there", "a.html: b.html"]


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize(
    "page",
    [
        "how-to/write-a-mesh-kernel.md",
        "how-to/lazytensor-as-a-library.md",
        "explanation/closed-forms.md",
        "how-to/validate-your-own-rows.md",
    ],
)
def test_code_of_a_page_prints_what_the_page_shows(page, tmp_path):
    script = tmp_path / "page.py"
    script.write_text("\n\n".join(code_blocks(DOCS / page, "python")), encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout == "".join(code_blocks(DOCS / page, "text"))


@pytest.mark.slow
@pytest.mark.process
def test_check_finds_in_the_script_to_port_what_the_page_shows(tmp_path):
    page = DOCS / "how-to" / "port-a-script.md"
    found = []
    for number, block in enumerate(code_blocks(page, "python")):
        script = tmp_path / f"script_{number}.py"
        script.write_text(block, encoding="utf-8")
        command = [sys.executable, "-m", "cstorch_compat", "check", "--json", str(script)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        found.append([f["id"] for f in json.loads(done.stdout)["findings"]])
    assert found == [["LW107", "LW201"] + ["LW502"] * 5, []]


def test_commands_in_texts_are_accepted_by_the_command_line(tmp_path, monkeypatch):
    files = ("PROBLEM.kgraph", "rows.json", "graph.mlir", "torch.generic.mlir", "patterns.pdl.mlir", "relu.pdl.mlir")
    for name in files:
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    parser, names = _make_parser()
    commands = [words for path, text in texts() if path.suffix == ".md" for words in command_lines(text)]
    assert {words[0] for words in commands} == set(names)
    for words in commands:
        parser.parse_args(words)


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda path: path.stem)
def test_python_on_a_page_compiles(path: pathlib.Path):
    for block in code_blocks(path, "python"):
        compile(block, str(path), "exec")


def test_every_switch_is_on_the_page_of_environment_variables():
    page = (DOCS / "reference" / "environment.md").read_text(encoding="utf-8")
    switches = [line.split("=")[0] for line in (config.__doc__ or "").splitlines() if line.startswith("LT_")]
    assert len(switches) > 5
    assert [s for s in switches if f"`{s}`" not in page] == []
