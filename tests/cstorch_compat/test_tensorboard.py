"""TensorBoard's own reader finds what our writers wrote."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from cstorch_compat.names.mirror import mirror
from cstorch_compat.watch.summary import EventWriter, SummaryReader
from lazytensor.functions.creation import tensor

public = mirror("torch.utils.tensorboard")


reader = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator", reason="the extra `test` has TensorBoard"
)
FLOATS = st.floats(allow_nan=False, width=32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    def make():
        return tmp_path_factory.mktemp("run")

    return make


def read(path):
    return reader.EventAccumulator(str(path), size_guidance={"histograms": 0, "scalars": 0, "tensors": 0}).Reload()


@settings(max_examples=15, deadline=None)
@given(logged=st.lists(st.tuples(st.sampled_from(["loss", "a/b", "é"]), FLOATS, st.integers(0, 2**40)), max_size=8))
def test_scalars_come_back_from_both_readers(folder, logged):
    path = folder()
    with EventWriter(path) as writer:
        for i, (tag, value, step) in enumerate(logged):
            writer.add_scalar(tag, value, step, walltime=1000.5 + i)
    theirs, ours = read(path), SummaryReader(path)
    assert set(theirs.Tags()["scalars"]) == ours.scalar_names() == {tag for tag, *_ in logged}
    for tag in ours.scalar_names():
        expected = [(1000.5 + i, step, value) for i, (name, value, step) in enumerate(logged) if name == tag]
        assert [(e.wall_time, e.step, e.value) for e in ours.read_scalar(tag)] == expected
        assert [(e.wall_time, e.step, e.value) for e in theirs.Scalars(tag)] == expected


@settings(max_examples=15, deadline=None)
@given(arrays.arrays(np.float32, st.integers(1, 40), elements=st.floats(-1e6, 1e6, width=32)))
def test_a_histogram_counts_every_value_in_its_bin(folder, values):
    path = folder()
    with EventWriter(path) as writer:
        writer.add_histogram("weights", tensor(values), 7)
    (event,) = read(path).Histograms("weights")
    found, exact = event.histogram_value, values.astype(np.float64)
    assert event.step == 7
    assert (found.min, found.max, found.num) == (exact.min(), exact.max(), exact.size)
    assert found.sum == pytest.approx(exact.sum())
    assert found.sum_squares == pytest.approx((exact * exact).sum())
    limits, counts = np.array(found.bucket_limit), np.array(found.bucket)
    assert counts.sum() == exact.size
    # TensorBoard's own reader takes the space up to the first limit as the first bin.
    below = [np.count_nonzero(exact < limit) for limit in limits]
    assert np.all(np.abs(np.cumsum(counts) - below) <= np.count_nonzero(np.isin(exact, limits)))


def test_bins_of_one_s_own(folder):
    path = folder()
    with EventWriter(path) as writer:
        writer.add_histogram("w", [0.0, 1.0, 1.0, 2.0], 1, bins=2)
        with pytest.raises(ValueError, match="no element"):
            writer.add_histogram("w", [], 1)
        with pytest.raises(NotImplementedError, match="max_bins"):
            writer.add_histogram("w", [1.0], 1, max_bins=3)
    (event,) = read(path).Histograms("w")
    assert (list(event.histogram_value.bucket_limit)[-2:], sum(event.histogram_value.bucket)) == ([1.0, 2.0], 4)


def test_texts_and_groups_of_scalars(folder):
    path = folder()
    with public.SummaryWriter(str(path), comment="x") as writer:
        writer.add_text("note", "hello", 3)
        writer.add_scalars("losses", {"train": 1.0, "eval": 2.0}, 4)
    (event,) = read(path).Tensors("note/text_summary")
    assert (event.step, list(event.tensor_proto.string_val)) == (3, [b"hello"])
    assert [e.value for e in read(path / "losses_eval").Scalars("losses")] == [2.0]
    ours = SummaryReader(path)
    assert ours.text_summary_names() == ["note"]
    assert [(e.step, e.text) for e in ours.read_text_summary("note")] == [(3, "hello")]
    assert sorted(e.value for e in ours.read_scalar("losses")) == [1.0, 2.0]


def test_scalars_are_float32(folder):
    path = folder()
    with EventWriter(path) as writer:
        writer.add_scalar("x", 0.1, 1)
    assert read(path).Scalars("x")[0].value == struct.unpack("f", struct.pack("f", 0.1))[0]
