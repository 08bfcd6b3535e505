"""Numbers of the text report show what the JSON report holds, at the edges of each unit."""

import dataclasses
import re

import pytest

import lazytensor as lt
from tests.shown_numbers import EDGES, NUMBER, misleading, numbers_of_all_sizes, value_of
from wse_sim import WSE2, number_format, simulate
from wse_sim.planner.report import RateBound

THREE_DIGITS, FOUR_DIGITS = 0.005, 0.0005


@pytest.mark.parametrize(
    "show, rounding",
    [
        (number_format.format_number, FOUR_DIGITS),
        (number_format.format_short, FOUR_DIGITS),
        (number_format.format_duration, FOUR_DIGITS),
        (lambda value: number_format.format_percent(value / 100), THREE_DIGITS),
    ],
    ids=["figure", "short", "duration", "percent"],
)
def test_shown_number_is_the_value_to_its_digits(show, rounding):
    values = numbers_of_all_sizes()
    assert misleading(values, map(show, values), rounding) == []


@pytest.mark.parametrize(
    "value, text", [(999_960_000, "1G"), (999_940_000, "999.9M"), (1e18, "1E"), (120_300_000, "120.3M")]
)
def test_prefix_is_that_of_the_rounded_number(value, text):
    assert number_format.format_short(value) == text


def test_every_rate_of_the_text_report_is_that_of_the_json_report():
    report = simulate(lt.trace(lt.nn.Linear(8, 8), lt.ones(4, 8)), WSE2)
    for rate in filter(None, EDGES):
        bounds = (RateBound("edge", rate, "a source"), RateBound("fill", 3 * rate, "a source"))
        mode = dataclasses.replace(report.chosen, samples_per_s=rate, bounds=bounds)
        shown = dataclasses.replace(report, **{report.mode: mode, "mode": report.mode})
        text = shown.text().partition(f"{report.mode} (chosen)")[2].partition("verdict")[0]
        rates = [value_of(found) for found in re.findall(rf"({NUMBER}) samples/s", text)]
        assert rates == [pytest.approx(r, rel=FOUR_DIGITS) for r in (rate, rate, 3 * rate)]
        assert f"{number_format.format_number(rate)} samples/s" in shown._repr_html_()
