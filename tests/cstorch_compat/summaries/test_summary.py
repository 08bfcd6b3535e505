"""Event files: what is written is read, and the bytes are TensorBoard's."""

import re
import struct
import tempfile

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cstorch_compat.summaries import event_file
from cstorch_compat.summaries.event_file import (
    ScalarEvent,
    TextEvent,
    decode_message,
    decode_records,
    encode_event,
    encode_record,
    encode_scalar_summary,
)
from cstorch_compat.summaries.summary import SummaryReader, SummaryWriter
from lazytensor.errors import DataError
from lazytensor.functional.creation import tensor

SCALAR = bytes.fromhex(
    "1a000000000000" + "00129bd82d" + "0921" + "0e7f2844c0da41" + "1001" + "2a0d0a0b0a046c6f7373150000c03f"
)
"""A record of TensorBoard's writer without its last checksum: loss = 1.5 at step 1."""


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_records_come_back(messages):
    assert list(decode_records(b"".join(map(encode_record, messages)))) == messages


@given(st.binary(min_size=1, max_size=50), st.integers(0, 10**6))
def test_a_cut_file_gives_a_prefix(message, cut):
    data = encode_record(message) * 2
    assert list(decode_records(data[: cut % len(data)])) in ([], [message])


def test_a_scalar_has_the_bytes_of_tensorboard():
    seconds = struct.unpack("<d", SCALAR[13:21])[0]
    assert (
        encode_record(event_file.encode_event(seconds, 1, event_file.encode_scalar_summary("loss", 1.5)))[:-4] == SCALAR
    )


@given(st.integers(-(2**63), 2**63 - 1))
@example(-5)
def test_any_step_of_64_bits_comes_back(step):
    with tempfile.TemporaryDirectory() as folder:
        with SummaryWriter(folder) as writer:
            writer.add_scalar("loss", 1.5, step)
            writer.add_tensor("x", tensor([1.0]), step)
        reader = SummaryReader(folder)
        assert [e.step for e in reader.read_scalar("loss")] == [step]
        assert reader.read_tensor("x", step).tensor.tolist() == [1.0]


def test_a_negative_step_has_the_bytes_of_protocol_buffers():
    assert encode_event(0.0, -1, b"")[9:] == b"\x10" + b"\xff" * 9 + b"\x01"


@pytest.mark.parametrize("step", [2**63, -(2**63) - 1, 10**400])
def test_a_step_of_more_than_64_bits_is_refused_with_the_line(step, tmp_path):
    with SummaryWriter(tmp_path) as writer, pytest.raises(ValueError, match="Value out of range: ") as caught:
        writer.add_scalar("loss", 1.5, step)
    assert "test_summary.py:" in str(caught.value)


def test_scalars_and_tensors_come_back(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("a/loss", 1.5, 1, walltime=2.0)
        writer.add_scalar("a/loss", 2.5, 300, walltime=3.0)
        writer.add_tensor("t/x", tensor([0.0, 1.0]), 1)
    reader = SummaryReader(tmp_path)
    assert reader.read_scalar("a/loss") == [ScalarEvent(2.0, 1, 1.5), ScalarEvent(3.0, 300, 2.5)]
    assert (reader.scalar_names(), reader.scalar_groups(), reader.tensor_names()) == ({"a/loss"}, {"a"}, {"t/x"})
    assert reader.read_tensor("t/x", 1).tensor.tolist() == [0.0, 1.0]
    assert reader.read_scalar("nothing") == []
    with pytest.raises(KeyError, match="step 5"):
        reader.read_scalar("a/loss", 5)
    with pytest.raises(NotImplementedError, match="filter='a'"):
        SummaryReader(tmp_path, filter="a")


@given(st.sets(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20), max_size=3))
@settings(max_examples=20, deadline=None)
@example({"loss → 0", "50% done", "..", "a/b"})
def test_a_tensor_is_read_under_the_name_it_was_written_under(names):
    with tempfile.TemporaryDirectory() as folder:
        with SummaryWriter(folder) as writer:
            for i, name in enumerate(sorted(names)):
                writer.add_tensor(name, tensor([float(i)]), 1)
        reader = SummaryReader(folder)
        assert reader.tensor_names() == names
        for i, name in enumerate(sorted(names)):
            assert reader.read_tensor(name, 1).tensor.tolist() == [i]


def test_a_damaged_record_is_told_and_costs_no_other(tmp_path):
    writer = SummaryWriter(log_dir=str(tmp_path))
    for step in range(3):
        writer.add_scalar("loss", float(step), step)
    writer.close()
    (path,) = tmp_path.glob("events.out.tfevents.*")
    data = path.read_bytes()
    at = [m.end() for m in re.finditer(b"loss", data)][1]
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.warns(UserWarning, match=r"the record at byte \d+ is damaged: its \d+ bytes are not read"):
        reader = SummaryReader(str(tmp_path))
    assert [e.value for e in reader.read_scalar("loss")] == [0.0, 2.0]


def test_a_damaged_length_ends_a_file_with_a_warning(tmp_path):
    messages = [encode_event(1.0, step, encode_scalar_summary("loss", step)) for step in range(3)]
    data = b"".join(map(encode_record, messages))
    at = len(encode_record(messages[0]))
    told = []
    assert list(decode_records(data[:at] + b"\xff" + data[at + 1 :], told.append)) == messages[:1]
    assert len(told) == 1 and f"byte {at} is damaged" in told[0]


# A tag that is a number, found by a campaign.
@example(b"\x2a\x09\x0a\x07\x08\x07\x15\x00\x00\x80\x3f")
@given(st.binary(max_size=60))
def test_a_whole_record_of_anything_is_a_message_or_our_error(message):
    try:
        entries = decode_message(message)
    except DataError as error:
        assert "invalid TensorBoard message" in str(error)
    else:
        assert all(isinstance(tag, str) and isinstance(e, ScalarEvent | TextEvent) for tag, e in entries)
