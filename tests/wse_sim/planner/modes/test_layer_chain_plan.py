"""Chains of layers on small meshes: where cores run them, and the reason where they have no room."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recorded_steps import perceptron
from wse_sim.machine import TINY
from wse_sim.planner.modes import plan

few = settings(deadline=None, max_examples=12, derandomize=True, database=None, print_blob=False)

LITTLE = 1200
"""Bytes of a core that has room for little more than its program."""
extents = st.lists(st.integers(1, 60), min_size=2, max_size=4)
sides = st.integers(2, 16)


def mesh(width, height, usable_bytes=TINY.usable_bytes_per_pe):
    return replace(TINY, width=width, height=height, usable_bytes_per_pe=usable_bytes)


def pipelined(step, machine, batch):
    return plan(step, machine, "pipelined", batch, other=False).report.pipelined


@pytest.mark.slow
def test_chain_for_which_cores_have_no_room_does_not_fit():
    """The forms of its kernels fit: they know nothing of what a program needs beside its weights and activations."""
    step = perceptron([19, 100, 35])
    report = pipelined(step, mesh(11, 9, 1700), 16)
    assert not report.fits
    assert report.reason.startswith("each of 2 layers fits by itself on the 99")
    assert "all layers together do not fit; the largest layer, " in report.reason
    assert "recorded_steps.py:" in report.reason
    assert pipelined(step, mesh(16, 15, 1700), 16).is_as_run


@pytest.mark.parametrize(
    ("sizes", "machine", "reason"),
    [
        (
            [79, 204, 4],
            mesh(20, 6, 2000),
            "matmul does not fit on tiny even if it has all PEs: a core needs 3,288 bytes and has 2,000 usable",
        ),
        ([4, 16, 87], mesh(12, 5, LITTLE), "the core with the loss needs 2,856 bytes and has 1,200 usable"),
        ([4, 301, 8], mesh(12, 5, LITTLE), "a port between layers needs 1,204 bytes and has 1,200 usable"),
    ],
)
def test_core_without_room_is_named_with_its_bytes(sizes, machine, reason):
    report = pipelined(perceptron(sizes), machine, 76)
    assert not report.fits
    assert report.reason.startswith(reason)


def test_largest_batch_of_a_chain_is_one_that_fits():
    step, machine = perceptron([34, 222, 16]), mesh(18, 13, 2000)
    largest = pipelined(step, machine, 67).largest_batch
    assert largest == 1
    assert pipelined(step, machine, largest).is_as_run
    assert not pipelined(step, machine, largest + 1).fits


@pytest.mark.slow
@few
@given(extents, sides, sides, st.sampled_from([LITTLE, 2000]), st.integers(1, 40))
def test_twice_the_batch_of_a_chain_fits_nowhere_where_half_does_not(sizes, width, height, usable_bytes, batch):
    step, machine = perceptron(sizes), mesh(width, height, usable_bytes)
    if not pipelined(step, machine, batch).fits:
        assert not pipelined(step, machine, 2 * batch).fits
