"""What a notebook shows of a tensor, a graph, a program and a nest: HTML that parses, is small, and is escaped."""

import base64
import re
import struct
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest

import lazytensor as lt
from lazytensor.ir.graph import Graph
from lazytensor.ops import call
from lazytensor.testing import batch, state

LARGEST_BYTES = 60_000
SVG = "{http://www.w3.org/2000/svg}"


def parsed(shown):
    assert len(shown.encode()) <= LARGEST_BYTES
    return ElementTree.fromstring(f"<div>{shown}</div>")


def pixels(shown):
    """The numbers of the palette that a picture has, row by row."""
    data = base64.b64decode(re.search(r"base64,([^\"]+)", shown)[1])
    width, height = struct.unpack(">II", data[16:24])
    (size,) = struct.unpack(">I", data[data.index(b"IDAT") - 4 :][:4])
    rows = np.frombuffer(zlib.decompress(data[data.index(b"IDAT") + 4 :][:size]), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()
    return rows[:, 1:]


def test_tensor_shows_its_type_its_numbers_as_colours_and_its_text():
    x = lt.tensor([[0.0, 2.0], [-2.0, float("nan")]])
    shown = x._repr_html_()
    assert parsed(shown).find("p/code").text == "float32[2, 2]"
    assert pixels(shown).tolist() == [[128, 255], [1, 0]]
    assert parsed(shown).find("pre").text == repr(x)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (300,), (3, 0), (2, 3, 4), (1000, 1000)])
@pytest.mark.parametrize("dtype", [lt.float32, lt.bool_, lt.int64])
def test_tensor_of_any_shape_is_shown_small(shape, dtype):
    shown = lt.ones(*shape, dtype=dtype)._repr_html_()
    parsed(shown)
    if "base64" in shown:
        assert max(pixels(shown).shape) <= 128


def test_graph_is_drawn_with_a_box_for_each_node_and_escaped_names():
    spec = lt.ones(2, 3).spec
    x, s = batch(0, spec), state("<weight>&", spec)
    graph = Graph((x,), {"<weight>&": s}, (call("tanh", call("add", x, s)),), {"<weight>&": call("mul", x, s)})
    page = parsed(graph._repr_html_())
    titles = [text.text for text in page.iter(f"{SVG}text") if text.get("font-weight")]
    assert sorted(titles) == ["<weight>&", "add", "mul", "tanh", "x0"]
    assert len(list(page.iter(f"{SVG}line"))) == 5


def test_large_graph_is_counted_and_not_drawn():
    x = n = batch(0, lt.ones(4).spec)
    for _ in range(200):
        n = call("tanh", n)
    page = parsed(Graph((x,), {}, (n,), {})._repr_html_())
    assert [cell.text for cell in page.iter("td")] == ["tanh", "200", "batch", "1"]


def test_program_shows_its_instructions_and_nest_its_loops():
    program = lt.trace(lambda x: (x @ x.t()).relu().sum(), lt.ones(4, 3))
    page = parsed(program._repr_html_())
    assert [row[0].text for row in page.findall("table/tr")[1:]] == [i.label for i in program.instrs]
    nest = next(i.nest for i in program.instrs if i.nest is not None)
    assert parsed(nest._repr_html_()).find("pre").text == str(nest)
