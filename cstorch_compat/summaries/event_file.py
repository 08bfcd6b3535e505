"""TensorBoard's event files: records, the messages in them, and what is logged in a message.

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
"""CRC-32C, reflected."""
CRC_MASK_DELTA = 0xA282EAD8
VARINT, _FIXED64, LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
"""How the value of a field is written."""
DT_STRING = 7
"""DT_STRING of TensorFlow's types."""


@dataclass(frozen=True)
class ScalarEvent:
    """A number that was logged. `wall_time` is in seconds."""

    wall_time: float
    step: int
    value: float


@dataclass(frozen=True)
class TextEvent:
    """A text that was logged. `wall_time` is in seconds."""

    wall_time: float
    step: int
    text: str


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            # Bit by bit from the lowest: the polynomial is reflected, as in hardware that sends the low bit first.
            value = value >> 1 ^ (CRC_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


_CRC_TABLE = _crc_table()
_UINT64_MASK = (1 << 64) - 1


def masked_crc32c(data: bytes) -> int:
    """The masked CRC-32C of TFRecord files."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    # Rotated and shifted by a constant: a checksum of data that holds checksums is weak otherwise (TFRecord).
    return ((crc >> 15 | crc << 17) + CRC_MASK_DELTA) & 0xFFFFFFFF


def encode_record(data: bytes) -> bytes:
    """A message as it stands in the file."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))


def decode_records(data: bytes, damaged: Callable[[str], None] = lambda what: None) -> Iterator[bytes]:
    """The messages of a file; a record that is cut short ends it, as in a file that is being written.

    `damaged` is told of a message that is left out, and of what ends the file too early.
    """
    start = 0
    while start + 12 <= len(data):
        size, check = struct.unpack_from("<QI", data, start)
        end = start + 12 + size
        # The length has a checksum of its own, since a damaged one would lead anywhere in the file.
        if check != masked_crc32c(data[start : start + 8]):
            damaged(f"the length of the record at byte {start} is damaged: the {len(data) - start} bytes from there on")
            return
        if end + 4 > len(data):
            return
        message = data[start + 12 : end]
        if struct.unpack_from("<I", data, end)[0] == masked_crc32c(message):
            yield message
        else:
            # The length is right, so the next record is where it says.
            damaged(f"the record at byte {start} is damaged: its {size} bytes")
        start = end + 4


def encode_varint(value: int) -> bytes:
    """A whole number of 64 bits, seven bits a byte; a negative one as its two's complement."""
    out = bytearray()
    value &= _UINT64_MASK
    while value > 0x7F:
        # Seven bits in a byte, the lowest first; the high bit says that more follow.
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def encode_bytes_field(number: int, data: bytes) -> bytes:
    """A field of bytes: a text, a message, or packed numbers."""
    # A field's key is its number and, in the low three bits, how its value is written.
    return encode_varint(number << 3 | LENGTH_DELIMITED) + encode_varint(len(data)) + data


def _decode_varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at


def _decode_fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: number, and an int or bytes."""
    at = 0
    while at < len(data):
        key, at = _decode_varint(data, at)
        kind = key & 7
        if kind == VARINT:
            value, at = _decode_varint(data, at)
            yield key >> 3, value
            continue
        # Two kinds have fixed sizes, and the third says its own first.
        size = {_FIXED64: 8, _FIXED32: 4}.get(kind)
        if size is None:
            size, at = _decode_varint(data, at)
        yield key >> 3, data[at : at + size]
        at += size


def encode_event(seconds: float, step: int, body: bytes) -> bytes:
    """An Event message with what is logged at a step. Raises OptionInvalid for a step of more than 64 bits."""
    if not -(1 << 63) <= step < 1 << 63:
        raise OptionInvalid(
            f"Value out of range: {step}", where=source.where(), hint="Give a step of at most 64 bits, with its sign."
        )
    # Keys by hand: 0x09 is field 1 as eight bytes, the time; 0x10 is field 2 as a varint, the step, left out at 0.
    return b"\x09" + struct.pack("<d", seconds) + (b"\x10" + encode_varint(step) if step else b"") + body


FILE_VERSION_MESSAGE = encode_bytes_field(3, b"brain.Event:2")
"""What the first message of a file says."""


def encode_summary_value(tag: str, value: bytes) -> bytes:
    """What is logged under a tag, as the body of an event."""
    return encode_bytes_field(5, encode_bytes_field(1, encode_bytes_field(1, tag.encode()) + value))


def encode_scalar_summary(tag: str, value: float) -> bytes:
    """A number."""
    return encode_summary_value(tag, b"\x15" + struct.pack("<f", value))


def encode_text_summary(tag: str, value: str) -> bytes:
    """A text, as a tensor of one string for the plug-in that shows texts."""
    # TensorBoard finds the plug-in that shows a value by its name in the metadata.
    plugin = encode_bytes_field(9, encode_bytes_field(1, encode_bytes_field(1, b"text")))
    shape = encode_bytes_field(2, encode_bytes_field(2, b"\x08\x01"))
    return encode_summary_value(
        f"{tag}/text_summary",
        plugin
        + encode_bytes_field(8, b"\x08" + encode_varint(DT_STRING) + shape + encode_bytes_field(8, value.encode())),
    )


def encode_histogram_summary(tag: str, values: np.ndarray, limits: np.ndarray) -> bytes:
    """How many of the values lie below each limit and not below the one before; empty ends are left out."""
    flat = np.asarray(values, np.float64).reshape(-1)
    counts, edges = np.histogram(flat, bins=limits)
    # One empty bin is left before the first full one: its limit is where that one begins.
    kept = np.flatnonzero(counts)
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
    """Limits that grow by a tenth, to both sides of 0: the bins that PyTorch calls "tensorflow"."""
    # 773 steps of a tenth reach from 1e-12 to 1e20, the range of TensorFlow's bins.
    ahead = 1e-12 * 1.1 ** np.arange(773)
    return np.concatenate([-ahead[::-1], [0.0], ahead])


def decode_message(message: bytes) -> list[tuple[str, ScalarEvent | TextEvent]]:
    """The numbers and texts of a message by their tags. Raises DataError for what is no message."""
    try:
        return list(_decode_message(message))
    except (struct.error, IndexError, TypeError, ValueError, AttributeError) as e:
        raise DataError(f"it is no message of TensorBoard's: {e}") from e


def _decode_message(message: bytes) -> Iterator[tuple[str, ScalarEvent | TextEvent]]:
    fields = list(_decode_fields(message))
    parts = dict(fields)
    seconds = struct.unpack("<d", parts[1])[0] if 1 in parts else 0.0
    step = parts.get(2, 0)
    step -= (step >> 63) << 64  # of two's complement
    # Field 5 of an event is a summary, a list of values: 1 is the tag, 2 a number, 8 a tensor.
    for value in (v for number, summary in fields if number == 5 for _, v in _decode_fields(summary)):
        entry = dict(_decode_fields(value))
        # What else there is, such as a histogram, is for TensorBoard alone.
        if 1 in entry and 2 in entry:
            yield entry[1].decode(), ScalarEvent(seconds, step, struct.unpack("<f", entry[2])[0])
        elif 1 in entry and 8 in entry:
            tensor = dict(_decode_fields(entry[8]))
            yield entry[1].decode(), TextEvent(seconds, step, tensor.get(8, b"").decode())
