"""Changes of a file: blind ones of its bytes, and ones that know a format and keep its checksums right."""

import io
import json
import pickle
import random
import re
import struct
import warnings
import zipfile
from collections.abc import Callable

from cstorch_compat.summaries import event_file

Mutator = Callable[[random.Random, bytes, str], bytes]
NUMBERS = (0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 40, (1 << 62) - 1, (1 << 63) - 1)
"""What lengths, counts and offsets are replaced by."""


def flip(draw: random.Random, data: bytes, canary: str) -> bytes:
    """Some bits turned."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 8))):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def number(draw: random.Random, data: bytes, canary: str) -> bytes:
    """A number in any place, of any width and order."""
    width, order = draw.choice((1, 2, 4, 8)), draw.choice(("little", "big"))
    value = draw.choice(NUMBERS) & ((1 << 8 * width) - 1)
    at = draw.randrange(max(1, len(data) - width))
    return data[:at] + value.to_bytes(width, order) + data[at + width :]


def cut(draw: random.Random, data: bytes, canary: str) -> bytes:
    """The end or a piece is missing."""
    at = draw.randrange(len(data))
    return data[:at] if draw.random() < 0.5 else data[:at] + data[at + draw.randrange(1, 200) :]


def repeated(draw: random.Random, data: bytes, canary: str) -> bytes:
    """A piece comes twice, or in the place of another."""
    at, size, target = draw.randrange(len(data)), draw.randrange(1, 300), draw.randrange(len(data))
    piece = data[at : at + size]
    return data[:target] + piece + data[target + (len(piece) if draw.random() < 0.5 else 0) :]


def digits(draw: random.Random, data: bytes, canary: str) -> bytes:
    """A number written as text is another one: shapes and offsets in JSON, shapes in npy headers."""
    places = list(re.finditer(rb"\d+", data))
    if not places:
        return flip(draw, data, canary)
    place = draw.choice(places)
    text = draw.choice(("-1", "0", "1e999", "NaN", "true", "9" * 30, str(draw.choice(NUMBERS)), "[" * 2000)).encode()
    # Of the same length where lengths count, which then are right.
    if draw.random() < 0.5:
        text = text[: len(place[0])].rjust(len(place[0]), b"0")
    return data[: place.start()] + text + data[place.end() :]


def member(draw: random.Random, data: bytes, canary: str) -> bytes:
    """A zip archive of which one member is changed, called otherwise, there twice or huge: its checksums are right."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except (zipfile.BadZipFile, OSError, ValueError):
        return flip(draw, data, canary)
    at = draw.randrange(len(members))
    name, inner = members[at]
    kind = draw.choice(("bytes", "bytes", "bytes", "name", "twice", "huge", "pickle"))
    if kind == "bytes" and inner:
        members[at] = name, draw.choice((flip, number, cut, repeated, digits))(draw, inner, canary)
    elif kind == "name":
        members[at] = draw.choice(("../" + name, "/tmp/" + name, name + "/", "x" * 5000, "\x1b[2J", "")), inner
    elif kind == "twice":
        members.append(members[at])
    elif kind == "huge":
        members[at] = name, inner + bytes(1 << 20)
    else:
        members = [(n, planted(draw, canary) if n.endswith("data.pkl") else i) for n, i in members]
    packing = draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    out = io.BytesIO()
    # Two members of one name make zipfile warn, which is no news here.
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(out, "w", packing) as archive:
        for n, i in members:
            archive.writestr(zipfile.ZipInfo(n or "_"), i, packing)
    return out.getvalue()


class _Call:
    def __init__(self, function: Callable[..., object], *args: object):
        self._call = function, args

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self._call


def planted(draw: random.Random, canary: str) -> bytes:
    """A pickle that would run code, or never end."""
    kind = draw.randrange(4)
    if kind == 0:
        value: object = 1
        for _ in range(draw.choice((20, 30, 60))):
            value = (value, value)
        return pickle.dumps({"a": value}, 2)
    if kind == 1:
        level = b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + b"\x86" for i in range(60))
        return b"\x80\x02}K\x01" + level + b"K\x01s."
    text = f"open({canary!r}, 'w')"
    call = _Call(eval, text) if kind == 2 else _Call(open, canary, "w")
    return pickle.dumps({"weight": call}, draw.choice((0, 1, 2, 4)))


def header(draw: random.Random, data: bytes, canary: str) -> bytes:
    """A safetensors header that says something else, of the right length."""
    (length,) = struct.unpack_from("<Q", data)
    try:
        said = json.loads(data[8 : 8 + length])
        entry = said[draw.choice([key for key in said if key != "__metadata__"])]
    except (ValueError, KeyError, IndexError):
        return flip(draw, data, canary)
    field = draw.choice(("dtype", "shape", "data_offsets"))
    entry[field] = draw.choice(("F32", "I32", [], [1 << 62], [-1, 24], [0, 0], {}, None, [draw.choice(NUMBERS)] * 2))
    text = json.dumps(said).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def message(draw: random.Random, data: bytes, canary: str) -> bytes:
    """An event file with one message changed inside a record whose checksum is right."""
    messages = list(event_file.decode_records(data))
    at = draw.randrange(len(messages))
    changed = draw.choice((flip, number, cut, repeated))(draw, messages[at], canary)
    return b"".join(map(event_file.encode_record, [*messages[:at], changed, *messages[at + 1 :]]))


BLIND: tuple[Mutator, ...] = (flip, number, cut, repeated, digits)
KNOWING: dict[str, tuple[Mutator, ...]] = {
    "torch": (member, member, lambda draw, data, canary: planted(draw, canary)),
    "npz": (member, member),
    "safetensors": (header, header),
    "events": (message, message),
}


def changed(draw: random.Random, name: str, data: bytes, canary: str) -> bytes:
    """One case of a format."""
    return draw.choice((*BLIND, *KNOWING.get(name, ())))(draw, data, canary)
