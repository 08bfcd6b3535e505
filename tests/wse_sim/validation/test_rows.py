"""Rows as data: files are read or refused with the field, and every row is predicted or has a reason."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cstorch_compat.__main__ import main
from lazytensor.errors import LazyError
from tests.conftest import ROOT
from tests.documents import code_blocks
from wse_sim import WSE2, WSE3
from wse_sim.machine import NUMERIC_FIELDS
from wse_sim.validation import command, load, results
from wse_sim.validation.example_rows import EXAMPLE_TEXT
from wse_sim.validation.machine_settings import set_machines
from wse_sim.validation.models import MODELS
from wse_sim.validation.rows import parse_row

ROWS = load()
CHAIN = {
    "id": "a chain of mine",
    "kernel": "line_reduction",
    "machine": "wse2",
    "params": {"pes": 2, "words": 10},
    "value": 100,
    "unit": "cycles",
}
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)
SIZES = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 12, 64, 420, 700, 1_000, 5_000, 10_000_000])
VALUES = st.one_of(
    SIZES,
    st.lists(SIZES, min_size=2, max_size=2),
    st.sampled_from(["summa", "cannon", "star", "box", "fma", "float16", "conflict", "llama-3-8b", True, 1e-9, 1e15]),
    JSON_VALUES,
)


@st.composite
def row_items(draw):
    """A row of a kernel: with parameters that fit, and now and then something else in a field."""
    kernel = draw(st.sampled_from([*MODELS, "training_run", "no kernel"]))
    model = MODELS.get(kernel)
    example = next((row.params for row in ROWS if row.kernel == kernel), {})
    params = {
        name: draw(st.just(example.get(name)) | VALUES)
        for name in draw(st.sets(st.sampled_from([*(model.params if model else ("batch", "args")), "x"])))
    }
    item = {
        "id": draw(st.text(min_size=1, max_size=5)),
        "kernel": kernel,
        "machine": draw(st.sampled_from(["wse1", "wse2", "CS-3", "tiny", "wse", ""])),
        "params": draw(st.sampled_from([params, {**example, **params}])),
        "value": draw(st.none() | st.floats(1e-3, 1e9) | st.lists(st.floats(1, 9), min_size=2, max_size=2)),
        "unit": draw(st.sampled_from([*(model.units if model else ("samples/s",)), "furlongs"])),
    }
    if draw(st.booleans()):
        item["machine_fields"] = draw(
            st.dictionaries(st.sampled_from(["clock_hz", "colours", "x"]), VALUES, max_size=1)
        )
    optional = draw(
        st.dictionaries(st.sampled_from(["script", "mode", "family", "split", "note"]), st.text(max_size=5))
    )
    return item | optional | draw(st.dictionaries(st.sampled_from([*item, "tolerance"]), JSON_VALUES, max_size=1))


@given(item=row_items())
def test_a_row_is_refused_with_its_field_or_predicted_or_has_a_reason(item):
    try:
        row = parse_row(item, "rows.json, row 1")
    except LazyError as e:
        assert "rows.json, row 1" in e.what and e.hint
        return
    (result,) = results([row], runs={})
    if result.is_covered:
        assert math.isfinite(result.closed)
    else:
        assert result.reason and "\n" not in result.reason


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_packaged_row_has_what_its_model_needs(row):
    """Every row with a kernel of ours is predicted; the others explain themselves."""
    (result,) = results([row])
    is_predicted = row.kernel in (*MODELS, "training_run")
    assert result.is_covered == is_predicted
    assert is_predicted or result.reason
    assert row.source and row.workload


def test_no_prediction_depends_on_id_figure_or_texts():
    rows = [row for row in ROWS if row.kernel in MODELS]
    renamed = [
        replace(row, id=f"row {n}", value=None, family="x", workload="x", platform="x", note="x")
        for n, row in enumerate(rows)
    ]
    assert [r.closed for r in results(renamed)] == [r.closed for r in results(rows)]


def test_new_rows_are_held_out_and_seen_rows_are_not():
    """Rows of the second collection, without those that constants were fitted on or a program adapted to."""
    held = [row for row in ROWS if row.split == "held out"]
    assert len(held) == 73
    assert {row.split for row in ROWS} == {"fitted", "seen", "held out"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kernel": "line_reductoin"}, "use line_reduction"),
        ({"machine": "wse4"}, "machine 'wse4' is unknown"),
        ({"machine_fields": {"hop_cycle": 2}}, "a machine has no field 'hop_cycle'; use hop_cycles"),
        ({"machine_fields": {"colours": 2.5}}, "field 'colours' of a machine is 2.5, not a whole number"),
        ({"machine_fields": {"hop_cycles": -1}}, "hop_cycles = -1"),
        ({"unit": "furlongs"}, "has no figure in 'furlongs'"),
        ({"params": {"pes": 2}}, "parameter 'words' is missing: words of each PE"),
        ({"params": {"pes": 2, "wrods": 10}}, "no parameter 'wrods'; use words"),
        ({"params": {"pes": 2.5, "words": 10}}, "parameter 'pes' is 2.5, not a whole number"),
        ({"params": {"pes": 2000, "words": 10}}, "does not fit wse2"),
        ({"params": {"pes": 2, "words": 10, "group_pes": 3}}, "groups of 3 PEs are longer"),
        ({"kernel": "", "note": "energy is not modelled"}, "energy is not modelled"),
        (
            {
                "kernel": "inference_service",
                "machine": "wse3",
                "unit": "tokens/s/user",
                "params": {"model": "llama-3-70b", "wafers": 1},
            },
            "does not fit on 1 wse3",
        ),
        ({"kernel": "acoustic_star", "unit": "Gcell/s", "params": {"grid": [4, 4], "nz": 9}}, "groups"),
        ({"kernel": "training_run", "unit": "samples/s", "params": {"batch": 8}}, "'script' is empty"),
    ],
)
def test_a_row_that_cannot_be_predicted_says_why(change, reason):
    (result,) = results([parse_row(CHAIN | change)])
    assert not result.is_covered and reason in result.reason


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"value": "fast"}, "field 'value' is 'fast'"),
        ({"value": -1}, "field 'value' is -1"),
        ({"tolerance": 0}, "field 'tolerance' is 0"),
        ({"params": [1]}, "field 'params' is [1], not an object"),
        ({"machine": 3}, "field 'machine' is 3, not a text"),
        ({"split": "test"}, "field 'split' is 'test'"),
        ({"split": "fitted"}, "field 'fitted_constants' is ''"),
        ({"kernel": ""}, "fields 'kernel' and 'note' are empty"),
        ({"untis": "cycles"}, "unknown field 'untis'"),
    ],
)
def test_an_invalid_field_is_named_with_its_file_and_row(tmp_path, change, words):
    file = tmp_path / "rows.json"
    file.write_text(json.dumps({"rows": [CHAIN | {"id": "first"}, CHAIN | change]}))
    with pytest.raises(LazyError) as caught:
        load(file)
    assert caught.value.what.startswith(f"{file}, row 2 (a chain of mine): ")
    assert words in caught.value.what and caught.value.hint


def test_a_missing_field_and_a_repeated_id_are_named(tmp_path):
    file = tmp_path / "rows.json"
    file.write_text(json.dumps({"rows": [{k: v for k, v in CHAIN.items() if k != "unit"}]}))
    with pytest.raises(LazyError, match=r"row 1 \(a chain of mine\): field 'unit' is missing"):
        load(file)
    file.write_text(json.dumps({"rows": [CHAIN, CHAIN]}))
    with pytest.raises(LazyError, match="row 2: id 'a chain of mine' is that of row 1 too"):
        load(file)


@given(content=JSON_VALUES, name=st.sampled_from(["rows.json", "rows.csv"]))
def test_any_file_is_read_or_refused(content, name, tmp_path_factory):
    file = tmp_path_factory.mktemp("rows") / name
    file.write_text(json.dumps({"rows": content}) if name.endswith("json") else str(content), encoding="utf-8")
    try:
        assert all(row.id for row in load(file))
    except LazyError as e:
        assert str(file) in e.what


def test_csv_and_json_give_the_same_rows(tmp_path):
    table, text = tmp_path / "rows.csv", tmp_path / "rows.json"
    table.write_text(
        "id,kernel,machine,value,unit,tolerance,pes,words,tile,radius,overlaps\n"
        "007,line_reduction,wse2,100,cycles,0.05,2,10,,,\n"
        "b,tiled_star,CS-3,,cycles/iteration,,,,4x5,1,true\n"
    )
    star = {"id": "b", "kernel": "tiled_star", "machine": "CS-3", "value": None, "unit": "cycles/iteration"}
    chain = CHAIN | {"id": "007", "tolerance": 0.05}
    text.write_text(json.dumps({"rows": [chain, star | {"params": {"tile": [4, 5], "radius": 1, "overlaps": True}}]}))
    assert load(table) == load(text)
    assert all(r.closed for r in results(load(table)))


def test_the_example_of_the_command_is_a_file_that_it_takes(tmp_path, capsys):
    assert main(["validate", "--example"]) == 0
    file = tmp_path / "rows.json"
    file.write_text(capsys.readouterr().out)
    assert command.main(["--rows", str(file), "--json"]) == 0
    compared, predicted, refused = json.loads(capsys.readouterr().out)["rows"]
    assert abs(compared["closed_error"]) < 0.1 and compared["within_tolerance"] is True
    assert predicted["closed"] and predicted["closed_error"] is None
    assert (refused["closed"], refused["reason"]) == (None, "energy is not modelled")


def test_kernels_are_listed_with_units_and_parameters(capsys):
    assert command.main(["--kernels"]) == 0
    shown = capsys.readouterr().out
    assert all(f"{name}: " in shown for name in (*MODELS, "training_run"))
    assert "  group_pes: PEs of a group" in shown and "  units: cycles\n" in shown


def test_another_machine_is_held_to_the_same_rows(capsys):
    """A chain of P PEs passes P - 1 hops, so a second cycle for each hop adds P - 1 cycles."""
    slow = replace(WSE2, hop_cycles=2)
    chain = [row for row in ROWS if row.id == "reduce_chain_P512_B4096"]
    (before,), (after,) = results(chain), results(chain, machines={"wse2": slow})
    assert after.closed - before.closed == 511
    assert command.main(["--json", "--set", "wse2.hop_cycles=2", chain[0].id]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["closed"] == after.closed
    assert command.main(["--set", "CS-2.hop_cycles=2", chain[0].id]) == 0
    assert "with wse2.hop_cycles = 2 (the record has 1)" in capsys.readouterr().out


def test_settings_apply_in_order_and_keep_types():
    machines = set_machines(["wse3.sram_banks=4", "wse3.sram_banks=16", "wse3.clock_hz=1e9"])
    assert machines == {"wse3": replace(WSE3, sram_banks=16, clock_hz=1e9)}
    assert isinstance(machines["wse3"].sram_banks, int)


@pytest.mark.parametrize("banks", [1, 2, 3])
def test_rows_are_predicted_for_machines_with_few_memory_banks(banks):
    machines = {m.name: replace(m, sram_banks=banks) for m in (WSE2, WSE3)}
    rows = [row for row in ROWS if row.kernel in MODELS and row.machine in machines]
    assert [r.row.id for r in results(rows, machines=machines) if not r.is_covered] == []


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("wse2.hop_cycle=2", "hop_cycles"),
        ("wse4.hop_cycles=2", "wse3"),
        ("wse2.hop_cycles=two", "field 'hop_cycles' of a machine is 'two', not a number"),
        ("wse2.hop_cycles=nan", "field 'hop_cycles' of a machine is nan, not a number"),
        ("wse2.colours=2.5", "field 'colours' of a machine is 2.5, not a whole number"),
        ("wse2.hop_cycles=-1", "hop_cycles = -1"),
        ("wse2.sources=2", "no field 'sources'"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_is_near(setting, words, capsys):
    assert command.main(["--set", setting]) == 2
    assert words in capsys.readouterr().err


def test_a_setting_without_a_number_is_refused_with_the_form_that_it_takes(capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(["--set", "wse2.hop_cycles"])
    assert ended.value.code == 2 and "MACHINE.FIELD=NUMBER" in capsys.readouterr().err


def test_recorded_runs_are_not_plans_of_another_machine():
    run = [row for row in ROWS if row.id == "gpt2s_cs2"]
    assert results(run)[0].run is not None
    (other,) = results(run, machines={"wse2": replace(WSE2, clock_hz=1.1e9)})
    assert other.run is None and "no plan of gpt2.py is recorded" in other.reason


@pytest.mark.slow
@given(field=st.sampled_from(NUMERIC_FIELDS), number=st.sampled_from([0, 1, 2, 3, 1e-9, 0.3, 1e6, 1e18]) | st.floats())
def test_any_number_of_a_machine_gives_predictions_or_reasons(field, number):
    # The first row of each kernel: the service whose model is placed in the least time.
    for row in {(row.kernel, row.unit): row for row in reversed(ROWS) if row.kernel in MODELS}.values():
        (result,) = results([replace(row, machine_fields={field: number})], runs={})
        assert math.isfinite(result.closed) if result.is_covered else result.reason


@pytest.mark.parametrize("options", [["--set", "wse2.hop_cycles=2"], ["--rows", "rows.json"]])
def test_only_published_runs_on_the_presets_are_recorded(options, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.json").write_text(json.dumps({"rows": [CHAIN]}))
    assert command.main(["--record", *options]) == 2
    assert "Leave out --rows and --set" in capsys.readouterr().err


GOLDENS = [
    # Set-up and an element a cycle, or half an element with a conflict.
    ("aligned_fma", "wse2", {"n": 100}, "cycles", 6 + 100),
    ("aligned_fma", "wse2", {"n": 100, "alignment": "conflict"}, "cycles", 6 + 200),
    # Set-up and four elements of 16 bits a cycle.
    ("vector_operation", "wse2", {"op": "fma", "n": 4096, "dtype": "float16"}, "cycles", 6 + 1024),
    ("vector_operation", "CS-2", {"op": "move", "n": 8}, "elem/cycle", 8 / (6 + 4)),
    # Four steps of 14 x 14 operations: set-up, 14 elements, the loop and nine scalar instructions.
    ("indexed_product", "wse2", {"grid": [4, 4], "m": 14, "k": 14, "n": 14}, "cycles", 4 * 196 * (6 + 14 + 10 + 9)),
    # A word goes up two ramps and over a link, then four sums and the jump back.
    ("single_cell_star", "wse2", {"grid": [4, 4]}, "cycles/iteration", 6 + 4 + 10),
    # A chain: the words, and six cycles from PE to PE.
    ("line_reduction", "wse2", {"pes": 2, "words": 10}, "cycles", 10 + 6 + 6),
]


@pytest.mark.parametrize(("kernel", "machine", "params", "unit", "expected"), GOLDENS)
def test_predictions_are_those_computed_by_hand(kernel, machine, params, unit, expected):
    item = {"id": "x", "kernel": kernel, "machine": machine, "params": params, "value": None, "unit": unit}
    (result,) = results([parse_row(item)])
    assert result.closed == pytest.approx(expected, rel=1e-12)


def test_a_row_may_have_another_clock_than_its_machine():
    params = {"n": 16384, "grid": [600, 600]}
    item = {"id": "x", "kernel": "gemv", "machine": "wse2", "value": None, "unit": "ms", "params": params}
    slow, fast = (results([parse_row(item | {"machine_fields": {"clock_hz": hz}})])[0].closed for hz in (0.85e9, 1.7e9))
    assert slow == pytest.approx(2 * fast)


def star_row(machine, tile, radius, **options):
    params = {"tile": tile, "radius": radius, **options}
    item = {"id": "x", "kernel": "tiled_star", "machine": machine, "params": params, "value": None}
    return results([parse_row(item | {"unit": "cycles/iteration"})])[0]


def test_star_that_failed_to_compile_is_refused_for_its_memory():
    """The authors' table has an error for a tile of 64 x 64 with radius 6, and cycles for radius 4."""
    assert star_row("wse3", [64, 64], 4).is_covered
    assert "two arrays of a tile take 46,816 bytes" in star_row("wse3", [64, 64], 6).reason
    assert "reaches beyond the neighbours" in star_row("wse3", [4, 9], 5).reason


def test_star_that_does_not_wait_for_its_borders_is_faster_from_4_x_4_cells_on():
    """Measured on the WSE-3: 197 cycles with 3 x 3 cells, which wait, and 131 with 4 x 4."""
    small, large = (star_row("wse3", [side, side], 1, overlaps=True).closed for side in (3, 4))
    assert small == star_row("wse3", [3, 3], 1).closed
    assert large < star_row("wse3", [4, 4], 1).closed
    assert large < small


@pytest.mark.parametrize("machine", ["wse2", "wse3"])
def test_star_takes_longer_with_more_cells_and_a_larger_radius(machine):
    cycles = [star_row(machine, [side, side], radius).closed for side in (8, 16, 32) for radius in (2, 3, 4)]
    assert cycles == sorted(cycles)


def test_files_on_the_page_are_read_and_begin_with_the_example(tmp_path):
    page = ROOT / "docs" / "how-to" / "validate-your-own-rows.md"
    example, run = code_blocks(page, "json")
    (table,) = code_blocks(page, "csv")
    assert example == EXAMPLE_TEXT + "\n"
    for name, text in (("a.json", example), ("b.json", run), ("c.csv", table)):
        (tmp_path / name).write_text(text)
    assert [len(load(tmp_path / name)) for name in ("a.json", "b.json", "c.csv")] == [3, 1, 2]
    assert all(r.is_covered for r in results(load(tmp_path / "c.csv")))
