"""Numbers on the page are those of the JSON report, at the edges of each unit; bars of a section share one axis."""

import itertools
import json
import math
import re

import pytest

from cstorch_compat.html_report.document import format_html
from tests.cstorch_compat.html_report.test_write_report import COMBINATIONS, data_of, graphs_of, page, press
from tests.shown_numbers import EDGES, NUMBER, misleading, numbers_of_all_sizes, value_of

pytestmark = pytest.mark.process

ROUNDING = {
    "short(v)": 0.005,
    "figure(v)": 0.005,
    "rate(v)": 0.0005,
    "percent(v / 100)": 0.005,
    "quantity(v, 's')": 0.0005,
    "quantity(v, 'J')": 0.0005,
}
"""Share of a number by which its rounding may change it: half a unit of the last of three or four digits."""
COUNTS = [int(v) for v in EDGES if v.is_integer() and v < 2**53]
RATES = {
    "two that are close": (958_377, 1_096_111),
    "a small range": (6_614_786, 6_614_786.5, 11_888_112, 20_924_567, 66_000_000),
    "a large range": (958_377, 1_096_111, 2_192_222, 26_562_500, 971_428_571),
    "far apart": (3.2, 6.4, 1e4, 4.7e8),
    "slow": (0.021, 0.022, 0.19),
    "powers of ten": (1, 10, 100, 1000),
    "one": (1234.5,),
    "none": (0,),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return page(tmp_path_factory.mktemp("numbers"), *COMBINATIONS)


@pytest.fixture
def rewritten(window, plain, tmp_path):
    """Open the page of other figures: a function of what changes a copy of its data."""

    def opened(change, **how):
        text = plain.read_text()
        data = data_of(text)
        change(data)
        path = tmp_path / "page.html"
        path.write_text(format_html({**data, "graphs": graphs_of(text)}))
        window.open(path, **how)
        assert window.faults == []
        return data

    return opened


def chosen(data):
    return data["steps"][0]["modes"][data["steps"][0]["mode"]]


def texts(window, selector):
    return window.value(f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.innerText)")


def test_each_formatter_shows_the_value_to_its_digits(window, plain):
    window.open(plain)
    values = numbers_of_all_sizes()
    for call, digits in ROUNDING.items():
        shown = window.value(f"{json.dumps(values)}.map((v) => {call})")
        assert misleading(values, shown, digits) == [], call
        # A prefix is that of the rounded number: there is no 1,000k.
        assert [t for t in shown if re.match(r"-?1,000 ?[numkMGTP]", t)] == [], call


def test_whole_numbers_show_all_their_digits(window, plain):
    window.open(plain)
    assert window.value(f"{json.dumps(COUNTS)}.map(whole)") == [f"{count:,}" for count in COUNTS]
    assert window.value(
        "[-0.4, -0, 0].map((v) => [whole(v), short(v), rate(v), percent(v), quantity(v, 's')].join())"
    ) == [
        "0,-0.4,-0.4,-40 %,-400 ms",
        *["0,0,0,0 %,0 s"] * 2,
    ]


def test_table_of_layers_shows_the_figures_of_the_json_report(window, rewritten):
    def change(data):
        first = chosen(data)["rows"][0]
        sweeps = ("cycles", "forward_cycles", "backward_cycles", "update_cycles", "bytes_per_pe")
        chosen(data)["rows"] = [
            {**first, **dict.fromkeys(sweeps, count), "flops": count, "utilisation": count / max(COUNTS)}
            for count in COUNTS
        ]

    rows = chosen(rewritten(change))["rows"]
    cells = texts(window, "#layers tbody td")
    shown = dict(zip(texts(window, "#layers th"), ([*cells[n::9]] for n in range(9)), strict=True))
    for name, field in {"cycles": "cycles", "forward": "forward_cycles", "bytes/PE": "bytes_per_pe"}.items():
        assert shown[name] == [f"{row[field]:,}" for row in rows]
    assert misleading([row["flops"] for row in rows], shown["FLOPs"], 0.005) == []
    assert misleading([100 * row["utilisation"] for row in rows], shown["of peak"], 0.005) == []


@pytest.mark.parametrize("value", [1, 999_500, 120_300_000, 2_000_000_000])
def test_figures_of_a_step_are_those_of_the_json_report(window, rewritten, value):
    fields = ("step_cycles", "fill_cycles", "peak_bytes_per_pe", "edge_bytes_in", "edge_bytes_out", "micro_batches")

    def change(data):
        chosen(data).update(dict.fromkeys(fields, value), samples_per_s=value / 7, joules_per_sample=value / 1e6)

    machine = rewritten(change)["steps"][0]["machine"]
    shown = dict(zip(texts(window, "#figures dt"), texts(window, "#figures dd"), strict=True))
    assert misleading([value / 7], [shown["samples per second"]], 0.0005) == []
    for name in ("time of a step", "time to the first result"):
        cycles, seconds = shown[name].split(" cycles = ")
        assert cycles == f"{value:,}" and misleading([value / machine["clock_hz"]], [seconds], 0.0005) == []
    held, share = re.fullmatch(r"(.*) bytes \((.*)\)", shown["fullest PE"]).groups()
    assert held == f"{value:,}" and misleading([100 * value / machine["sram_bytes"]], [share], 0.005) == []
    assert misleading([value, value], shown["wafer edge, in and out"].split(" and "), 0.005) == []
    assert shown["micro-batches"].startswith(f"{value:,}")
    assert misleading([value / 1e6], [shown["energy per sample"]], 0.0005) == []


def test_tip_and_detail_of_a_layer_show_the_figures_of_the_json_report(window, rewritten):
    def change(data):
        row = chosen(data)["rows"][0]
        row.update(flops=120_300_000, bytes=100_000_000, forward_cycles=340_000, cycles=340_000, utilisation=0.0005)

    rewritten(change)
    window.value("choose(0)")
    said = window.text("#detail")
    for line in ("FLOPs\n120M", "bytes touched\n100M", "cycles\n340,000", "of peak\n0.05 %"):
        assert line in said
    assert "340,000 cycles (forward 340k, backward" in window.value("rowWords(mode().rows[0])")


def test_verdict_shows_the_rate_of_the_json_report(window, plain):
    window.open(plain)
    rate = chosen(data_of(plain.read_text()))["samples_per_s"]
    (shown,) = re.findall(rf"({NUMBER}) samples/s", window.text("#verdict"))
    assert misleading([rate], [shown], 0.005) == []


def bars_of(window, section):
    """Of each bar its track's left edge and width and its own width, in pixels; and the axis as (position, value)."""
    bars = window.value(
        f"[...document.querySelectorAll('#{section} .track')].map((t) => {{ const b = t.getBoundingClientRect();"
        " return [b.x, b.width, t.querySelector('i').getBoundingClientRect().width]; })"
    )
    ticks = window.value(
        f"[...document.querySelectorAll('#{section} .ticks span')].map((t) => {{ const b = t.getBoundingClientRect();"
        " return [b.x + b.width / 2, t.innerText]; })"
    )
    return bars, [(x - bars[0][0], value_of(text)) for x, text in ticks]


def assert_bars_tell(values, bars, ticks, is_logarithmic):
    """Bars begin at one edge on tracks of one width, are as long as the axis says, and the larger is the longer."""
    assert len({(round(x, 1), round(width, 1)) for x, width, _ in bars}) == 1
    lengths = [length for _, _, length in bars]
    for (a, first), (b, second) in itertools.combinations(zip(values, lengths, strict=True), 2):
        assert (a < b) == (first < second) or math.isclose(a, b, rel_tol=1e-3)
    if not any(values):
        assert lengths == [0] * len(values) and ticks == []
        return
    assert max(lengths) == pytest.approx(bars[0][1], abs=1)
    scale = math.log10 if is_logarithmic else float
    (x0, v0), (x1, v1) = ticks[0], ticks[-1]
    assert x0 < x1 and len(ticks) <= 6
    for value, length in zip(values, lengths, strict=True):
        place = x0 + (x1 - x0) * (scale(value) - scale(v0)) / (scale(v1) - scale(v0))
        assert length == pytest.approx(place, abs=2)
    assert is_logarithmic or (x0, v0) == (pytest.approx(0, abs=1), 0)


@pytest.mark.parametrize("name, width", [*((name, 1200) for name in RATES), ("a large range", 390), ("far apart", 390)])
def test_bars_of_limits_share_one_axis(window, rewritten, name, width):
    rates = sorted(RATES[name])

    def change(data):
        bound = {**chosen(data)["bounds"][0], "what": ""}
        names = itertools.cycle(("the input workers", "a name " * 6, "the wafer's edge"))
        chosen(data)["bounds"] = [{**bound, "name": next(names), "samples_per_s": rate} for rate in rates]

    rewritten(change, width=width)
    bars, ticks = bars_of(window, "limits")
    assert_bars_tell(rates, bars, ticks, "logarithmic" in window.text("#limits"))
    # The least bar and one of twice its value differ by what is seen at a glance.
    for (a, first), (b, second) in itertools.combinations(zip(rates, bars, strict=True), 2):
        assert b < 2 * a or not a or second[2] - first[2] > 0.03 * first[1]
    shown = [text.removesuffix(" samples/s") for text in texts(window, "#limits .value")]
    assert misleading(rates, shown, 0.0005) == []


@pytest.mark.parametrize("name", RATES)
def test_bars_of_combinations_share_one_axis(window, rewritten, name):
    rates = [*RATES[name], 0.0]

    def change(data):
        row = {**data["rows"][0], "fits": True}
        data["rows"] = [{**row, "samples_per_s": rate, "fits": rate > 0} for rate in rates]

    rewritten(change)
    bars, ticks = bars_of(window, "compared")
    positive = len([rate for rate in rates if rate])
    assert [bar[2] for bar in bars[positive:]] == [0] * (len(rates) - positive)
    assert_bars_tell(rates[:positive] or [0.0], bars[: positive or 1], ticks, "logarithmic" in window.text("#compared"))


def test_bars_of_stages_share_one_axis_from_zero(window, rewritten):
    held = [500.0 - 7 * n for n in range(60)]

    def change(data):
        data["steps"][0]["modes"]["pipelined"]["stages"] = [
            {"layer": 0, "state": size / 2, "waiting": size / 4, "working": size / 4} for size in held
        ]

    rewritten(change)
    press(window, "#choices", "pipelined")
    edges = window.value(
        "[...document.querySelectorAll('#memory rect.forward')].map((r) => { const b = r.getBoundingClientRect();"
        " const end = r.nextSibling.nextSibling.getBoundingClientRect(); return [b.x, end.right - b.x]; })"
    )
    assert len({round(x, 1) for x, _ in edges}) == 1
    scales = [width / size for (_, width), size in zip(edges, held, strict=False)]
    assert scales == [pytest.approx(scales[0], rel=0.01)] * len(edges)
    assert f"The fullest {len(edges)} of 60 stages." in window.text("#memory")


@pytest.mark.parametrize("width", [1200, 320])
@pytest.mark.parametrize("mode", ["pipelined", "streaming"])
def test_no_text_of_a_drawing_is_cut_off(window, rewritten, width, mode):
    def change(data):
        shown = data["steps"][0]["modes"][mode]
        for n, row in enumerate(shown["rows"]):
            row.update(label=f"model.a_long_name.of_layer_{n}", flops=10 ** (3 * n), bytes=10 ** max(0, n - 1) + 1)
        shown["timeline"]["lanes"] = [f"{lane} of MMMMMMMMMMMMM" for lane in shown["timeline"]["lanes"][:-1]] + ["mesh"]

    rewritten(change, width=width)
    press(window, "#choices", mode)
    assert window.value("document.querySelectorAll('svg text').length") > 10
    cut = window.value(
        "[...document.querySelectorAll('svg text')].filter((t) => { const a = t.getBoundingClientRect(),"
        " b = t.closest('svg').getBoundingClientRect(); return a.left < b.left - 1 || a.right > b.right + 1; })"
        ".map((t) => t.textContent)"
    )
    assert cut == []
