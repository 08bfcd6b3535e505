"""What a notebook shows of a report, a machine and a mesh: HTML that parses, is small, and escapes what it is given."""

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

import lazytensor as lt
from lazytensor import nn
from wse_sim import WSE2, Rect, simulate
from wse_sim.fabric import mesh_of
from wse_sim.isa.core_program import CoreProgram
from wse_sim.phase import Reduce

LARGEST_BYTES = 60_000


def parsed(thing):
    """The elements of what is shown, which has to be small and well-formed."""
    shown = thing._repr_html_()
    assert len(shown.encode()) <= LARGEST_BYTES
    return ElementTree.fromstring(f"<div>{shown}</div>")


@pytest.fixture(scope="module")
def report():
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    return simulate(lt.trace(model, lt.ones(32, 64)), "wse2", "pipelined")


@pytest.mark.slow
def test_report_shows_verdict_floor_plan_and_layers(report):
    page = parsed(report)
    assert page.find("p/b").text == report.verdict
    drawn = page.findall(".//{http://www.w3.org/2000/svg}text")
    assert len(drawn) == sum(row.rect is not None for row in report.rows)
    assert len(page.findall("table/tr")) == 1 + len(report.rows)


def test_report_escapes_names_and_cuts_many_layers(report):
    odd = replace(report.rows[0], label="<b>&")
    page = parsed(replace(report, pipelined=replace(report.pipelined, rows=(odd,) * 100)))
    assert page.findall("table/tr")[1][0].text == "<b>&"
    assert page.findall("p")[-1].text == "... and 60 more layers"


def test_machine_shows_every_number_with_its_source():
    rows = parsed(WSE2).findall("table/tr")
    texts = {row[0].text: (row[1].text, row[2].text) for row in rows[1:]}
    assert texts["width"] == (f"{WSE2.width:,}", WSE2.sources["width"])


def test_mesh_shows_which_core_has_which_program():
    mesh = mesh_of(Reduce(Rect(0, 0, 6, 1), "x", 8), WSE2, 1, 8, 8)
    page = parsed(mesh)
    (line,) = page.find("pre").text.splitlines()
    letters = {row[0].text: int(row[2].text) for row in page.findall("table/tr")[1:]}
    assert {letter: line.count(letter) for letter in letters} == letters
    assert line.count(".") == int((mesh.program_at < 0).sum())


def test_large_mesh_of_oddly_named_programs_is_cut_and_escaped():
    mesh = mesh_of(Reduce(Rect(0, 0, 6, 1), "x", 8), WSE2, 200, 300, 8)
    mesh.run(CoreProgram("<i>&", 1, (("main", ()),)), np.arange(200), 5)
    page = parsed(mesh)
    assert "<i>&" in [cell.text for cell in page.iter("td")]
    assert len(page.find("pre").text.splitlines()) <= 64
