"""Links in our texts and in the reference lead somewhere."""

import importlib.util

import pytest

from tests.documents import broken_pages, broken_texts, texts, write_reference

DOORS = (
    "lazytensor.core.tracing",
    "lazytensor.testing",
    "lazytensor.ir",
    "wse_sim.planner.modes",
    "wse_sim.sweeps",
    "wse_sim.testing",
    "cstorch_compat.check.in_process",
)


def test_links_of_texts_and_notebooks_lead_somewhere():
    assert len(list(texts())) > 10
    assert list(broken_texts()) == []


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(importlib.util.find_spec("pdoc") is None, reason="needs the extra docs: pip install pdoc")
def test_links_of_the_reference_lead_somewhere(tmp_path):
    write_reference(tmp_path, DOORS)
    assert (tmp_path / "lazytensor" / "tracing.html").is_file()
    assert list(broken_pages(tmp_path)) == []


def test_link_to_nowhere_is_seen(tmp_path):
    (tmp_path / "a.html").write_text('<p id="here"></p><a href="#here"></a><a href="#there"></a><a href="b.html"></a>')
    assert list(broken_pages(tmp_path)) == ["a.html: #there", "a.html: b.html"]
