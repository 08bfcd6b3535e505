"""Tables: every printer shows the same cells in the same order."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from lazytensor.display.table import Column, Table, rate_text

COLUMNS = (Column("name", is_words=True), Column("bytes", "{:,}".format, width=7), Column("share", "{:.1%}".format))
ROWS = st.lists(
    st.tuples(st.text("abc", min_size=1), st.integers(0, 10**9), st.floats(0, 1)),
    max_size=5,
)
EXAMPLE = Table(COLUMNS, [("weights", 40_000, 0.5), ("b", 10, 0.0)])


def test_text_puts_words_left_and_figures_right():
    assert EXAMPLE.text().splitlines() == [
        "name       bytes  share",
        "weights   40,000  50.0%",
        "b             10   0.0%",
    ]


def test_markdown_says_the_alignment_of_each_column():
    assert EXAMPLE.markdown().splitlines()[:3] == [
        "| name | bytes | share |",
        "|---|---:|---:|",
        "| weights | 40,000 | 50.0% |",
    ]


def test_dictionaries_hold_values_and_not_what_is_shown():
    assert EXAMPLE.as_dicts()[0] == {"name": "weights", "bytes": 40_000, "share": 0.5}


@given(ROWS)
def test_columns_of_text_end_at_the_same_place(rows):
    lines = Table(COLUMNS, rows).text().splitlines()
    assert len(lines) == 1 + len(rows)
    assert len({len(line) for line in lines}) == 1


@given(ROWS, st.integers(1, 4))
def test_text_and_markdown_show_the_same_cells(rows, gap):
    table = Table(COLUMNS, rows)
    marked = [line.strip("| ").split(" | ") for line in table.markdown().splitlines()]
    assert [line.split() for line in table.text(gap).splitlines()] == [marked[0], *marked[2:]]


@given(ROWS)
def test_html_shows_the_same_cells_and_escapes_them(rows):
    table = Table(COLUMNS, [*rows, ("<a>", 1, 0.0)])
    page = ElementTree.fromstring(table.html())
    assert [tuple(cell.text for cell in row) for row in page] == [table.heads, *table.cells()]


@given(st.floats(1e-6, 1e12), st.integers(2, 5))
def test_rate_is_shown_to_its_digits_however_small_it_is(rate, digits):
    shown = rate_text(rate, digits)
    assert abs(float(shown.replace(",", "")) - rate) <= rate * 10 ** (1 - digits)
    assert "e+" not in shown
