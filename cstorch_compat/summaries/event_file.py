"""Encode and decode TensorBoard's event files: records, Event messages, and the summaries in them.

An event file is a sequence of records: length, checksum of the length, an Event message, checksum of the message.
Formats: TFRecord (TensorFlow's documentation of TFRecord), event.proto, summary.proto and tensor.proto, of which a few
fields are used.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazytensor.core import source
from lazytensor.errors import DataError, OptionInvalid

CRC_POLYNOMIAL = 0x82F63B78
"""The reflected polynomial of CRC-32C."""
CRC_MASK_DELTA = 0xA282EAD8
"""The constant that TFRecord adds to a rotated checksum."""
VARINT, _FIXED64, LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
"""The wire types of protobuf."""
DT_STRING = 7
"""The number of DT_STRING in TensorFlow's DataType."""


@dataclass(frozen=True)
class ScalarEvent:
    """A logged number. `wall_time` is in seconds since the epoch."""

    wall_time: float
    step: int
    value: float


@dataclass(frozen=True)
class TextEvent:
    """A logged text. `wall_time` is in seconds since the epoch."""

    wall_time: float
    step: int
    text: str


def _crc_table() -> list[int]:
    """Return the table of CRC-32C for each byte."""
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            # From the lowest bit, because the polynomial is reflected.
            value = value >> 1 ^ (CRC_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


_CRC_TABLE = _crc_table()
_UINT64_MASK = (1 << 64) - 1


def masked_crc32c(data: bytes) -> int:
    """Return the masked CRC-32C of TFRecord files."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    # TFRecord masks checksums by rotation and a constant, because a CRC of data that contains CRCs is weak.
    return ((crc >> 15 | crc << 17) + CRC_MASK_DELTA) & 0xFFFFFFFF


def encode_record(data: bytes) -> bytes:
    """Return a message as a record."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))


def decode_records(data: bytes, damaged: Callable[[str], None] = lambda what: None) -> Iterator[bytes]:
    """Yield the messages in the bytes of a file.

    An incomplete record at the end is ignored, as in a file being written. `damaged` is called with a description of
    each damaged record. A damaged message is skipped; a damaged length ends the file.
    """
    start = 0
    while start + 12 <= len(data):
        size, check = struct.unpack_from("<QI", data, start)
        end = start + 12 + size
        # The length has a separate checksum: a damaged one would lead to a wrong position.
        if check != masked_crc32c(data[start : start + 8]):
            damaged(f"the length of the record at byte {start} is damaged: the {len(data) - start} bytes from there on")
            return
        if end + 4 > len(data):
            return
        message = data[start + 12 : end]
        if struct.unpack_from("<I", data, end)[0] == masked_crc32c(message):
            yield message
        else:
            # The length is intact, so continue with the next record.
            damaged(f"the record at byte {start} is damaged: its {size} bytes")
        start = end + 4


def encode_varint(value: int) -> bytes:
    """Return an integer of 64 bits as a protobuf varint. Negative integers are encoded in two's complement."""
    out = bytearray()
    value &= _UINT64_MASK
    while value > 0x7F:
        # Seven bits per byte, lowest first. The high bit means that more bytes follow.
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def encode_bytes_field(number: int, data: bytes) -> bytes:
    """Return a protobuf field of bytes: a text, a message, or packed numbers."""
    # The key of a field is its number and, in the low three bits, its wire type.
    return encode_varint(number << 3 | LENGTH_DELIMITED) + encode_varint(len(data)) + data


def _decode_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at index `at`, and the index after it. Raises IndexError if `data` ends before."""
    value, shift = 0, 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at


def _decode_fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field of a message.

    A varint is an int. Fixed-size values and length-delimited values are bytes.
    """
    at = 0
    while at < len(data):
        key, at = _decode_varint(data, at)
        kind = key & 7
        if kind == VARINT:
            value, at = _decode_varint(data, at)
            yield key >> 3, value
            continue
        # Two wire types have a fixed size; the third begins with its length.
        size = {_FIXED64: 8, _FIXED32: 4}.get(kind)
        if size is None:
            size, at = _decode_varint(data, at)
        yield key >> 3, data[at : at + size]
        at += size


def encode_event(seconds: float, step: int, body: bytes) -> bytes:
    """Return an Event message with time, step and the encoded fields `body`.

    Raises OptionInvalid if `step` does not fit in 64 signed bits.
    """
    if not -(1 << 63) <= step < 1 << 63:
        raise OptionInvalid(
            f"Value out of range: {step}",
            where=source.where(),
            hint="Use a step that fits in a signed integer of 64 bits.",
        )
    # Literal keys: 0x09 is field 1 as a double (the time), 0x10 is field 2 as a varint (the step), omitted if 0.
    return b"\x09" + struct.pack("<d", seconds) + (b"\x10" + encode_varint(step) if step else b"") + body


FILE_VERSION_MESSAGE = encode_bytes_field(3, b"brain.Event:2")
"""The body of the first message of a file."""


def encode_summary_value(tag: str, value: bytes) -> bytes:
    """Return the body of an event with the encoded `value` under `tag`."""
    return encode_bytes_field(5, encode_bytes_field(1, encode_bytes_field(1, tag.encode()) + value))


def encode_scalar_summary(tag: str, value: float) -> bytes:
    """Return the body of an event with a number, in float32."""
    return encode_summary_value(tag, b"\x15" + struct.pack("<f", value))


def encode_text_summary(tag: str, value: str) -> bytes:
    """Return the body of an event with a text, as a tensor of one string for TensorBoard's text plugin."""
    # The metadata names the plugin that shows the value.
    plugin = encode_bytes_field(9, encode_bytes_field(1, encode_bytes_field(1, b"text")))
    shape = encode_bytes_field(2, encode_bytes_field(2, b"\x08\x01"))
    return encode_summary_value(
        f"{tag}/text_summary",
        plugin
        + encode_bytes_field(8, b"\x08" + encode_varint(DT_STRING) + shape + encode_bytes_field(8, value.encode())),
    )


def encode_histogram_summary(tag: str, values: np.ndarray, limits: np.ndarray) -> bytes:
    """Return the body of an event with a histogram of `values` over the bins between `limits`.

    Empty bins at both ends are left out, except for one before the first full bin. Raises OptionInvalid, a ValueError,
    if no value is in a bin: all are NaN, or outside of the limits.
    """
    flat = np.asarray(values, np.float64).reshape(-1)
    counts, edges = np.histogram(flat, bins=limits)
    # Keep one empty bin before the first full one: its limit is the lower edge of that one.
    kept = np.flatnonzero(counts)
    if not kept.size:
        raise OptionInvalid(
            f"the histogram {tag!r} is empty: none of {flat.size} values is between {edges[0]:g} and {edges[-1]:g}",
            where=source.where(),
            hint="Log a histogram only if torch.isfinite(values).any().",
        )
    first, last = max(0, kept[0] - 1), kept[-1] + 1
    numbers = flat.min(), flat.max(), len(flat), flat.sum(), (flat * flat).sum()
    body = b"".join(bytes([i << 3 | _FIXED64]) + struct.pack("<d", n) for i, n in enumerate(numbers, 1))
    upper = edges[first + 1 : last + 1].astype("<f8").tobytes()
    return encode_summary_value(
        tag,
        encode_bytes_field(
            5, body + encode_bytes_field(6, upper) + encode_bytes_field(7, counts[first:last].astype("<f8").tobytes())
        ),
    )


def exponential_bin_edges() -> np.ndarray:
    """Return bin edges that grow by a factor of 1.1 on both sides of 0: the bins that PyTorch calls "tensorflow"."""
    # 773 edges with ratio 1.1 range from 1e-12 to 1e20, as TensorFlow's bins.
    ahead = 1e-12 * 1.1 ** np.arange(773)
    return np.concatenate([-ahead[::-1], [0.0], ahead])


def decode_message(message: bytes) -> list[tuple[str, ScalarEvent | TextEvent]]:
    """Return the numbers and texts in an Event message with their tags. Raises DataError for an invalid message."""
    try:
        return list(_decode_message(message))
    except (struct.error, IndexError, TypeError, ValueError, AttributeError) as e:
        raise DataError(
            f"invalid TensorBoard message: {e}",
            where=source.where(),
            hint="Write the events again, or remove the damaged file.",
        ) from e


def _decode_message(message: bytes) -> Iterator[tuple[str, ScalarEvent | TextEvent]]:
    """Yield tag and event of each number and text in an Event message. Other values are skipped."""
    fields = list(_decode_fields(message))
    parts = dict(fields)
    seconds = struct.unpack("<d", parts[1])[0] if 1 in parts else 0.0
    step = parts.get(2, 0)
    step -= (step >> 63) << 64  # two's complement
    # Field 5 of an event is a summary, a list of values. In a value, field 1 is the tag, 2 a number, 8 a tensor.
    for value in (v for number, summary in fields if number == 5 for _, v in _decode_fields(summary)):
        entry = dict(_decode_fields(value))
        # Other values, such as histograms, are ignored.
        if 1 in entry and 2 in entry:
            yield entry[1].decode(), ScalarEvent(seconds, step, struct.unpack("<f", entry[2])[0])
        elif 1 in entry and 8 in entry:
            tensor = dict(_decode_fields(entry[8]))
            yield entry[1].decode(), TextEvent(seconds, step, tensor.get(8, b"").decode())
