"""The sources keep the house's rules of words: `python -m tests.prose` prints the figures by room."""

import pytest

from tests import prose


@pytest.mark.slow
@pytest.mark.parametrize("rule", [prose.undocumented, prose.positional, prose.colourless], ids=lambda r: r.__name__)
def test_sources_keep_the_rule(rule):
    assert [f"{path.relative_to(prose.ROOT)}:{line} {what}" for path, line, what in rule()] == []


def test_directives_and_blank_lines_are_no_comments():
    lines = ["# why", "    # why, too", "# noqa: F401", "# type: ignore[attr-defined]", "x = 1  # beside code", ""]
    assert [prose.is_comment(line) for line in lines] == [True, True, False, False, False, False]
