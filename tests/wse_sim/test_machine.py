"""Machines: sourced numbers, rates, and refusals."""

from dataclasses import replace

import pytest

from lazytensor.errors import LazyError
from wse_sim.machine import MACHINES, NUMERIC_FIELDS, TINY, WSE2, WSE3, Machine


@pytest.mark.parametrize("machine", MACHINES.values(), ids=str)
def test_every_number_has_a_source(machine):
    assert set(machine.sources) == set(NUMERIC_FIELDS)
    assert all(len(text) > 10 for text in machine.sources.values())


def test_every_field_but_name_and_sources_is_a_number():
    for name in NUMERIC_FIELDS:
        assert isinstance(getattr(WSE2, name), int | float), name
    assert len(NUMERIC_FIELDS) == len(Machine.__dataclass_fields__) - 2


def test_presets_have_the_published_meshes():
    assert WSE2.width * WSE2.height == 753_972
    assert WSE2.usable_pes == 745_500
    assert WSE3.width * WSE3.height == 893_064
    assert WSE2.sram_bytes_per_pe == 48 * 1024


def test_rates_follow_the_element_size():
    assert [WSE2.per_cycle("fma", n) for n in (1, 2, 4, 8)] == [4, 4, 1, 0.5]
    assert WSE2.per_cycle("special", 4) == 1 / 50


def test_edge_of_the_wafer_in_bits_per_cycle():
    assert WSE2.edge_bits_per_cycle == pytest.approx(1.2e12 / 0.85e9)
    assert TINY.edge_bits_per_cycle == pytest.approx(8 * 32)


def test_by_name_finds_presets_and_lists_them_otherwise():
    assert Machine.by_name("wse2") is WSE2
    with pytest.raises(LazyError, match=r"'wse9'[\s\S]*tiny, wse1, wse2, wse3"):
        Machine.by_name("wse9")


@pytest.mark.parametrize("name", NUMERIC_FIELDS)
def test_negative_numbers_are_refused(name):
    with pytest.raises(LazyError, match=name):
        replace(TINY, **{name: -1})


def test_a_mesh_without_usable_pes_is_refused():
    with pytest.raises(LazyError, match="reserves all rows or all columns of its mesh"):
        replace(TINY, reserved_rows=8)
