"""Summaries of a run: scalars in TensorBoard's event files, tensors beside them in checkpoint files.

An event file is a sequence of records: length, checksum of the length, an Event message, checksum of the message.
Formats: TFRecord (TensorFlow's documentation of TFRecord) and event.proto, of which six fields are used.
"""

import pathlib
import re
import socket
import struct
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cstorch_compat.common import checkpoint
from lazytensor.tensor import Tensor

POLYNOMIAL = 0x82F63B78
"""CRC-32C, reflected."""
MASK = 0xA282EAD8
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True)
class ScalarEvent:
    """A number that was logged. `wall_time` is in seconds."""

    wall_time: float
    step: int
    value: float


@dataclass(frozen=True)
class TensorDescriptor:
    """A tensor that was logged."""

    step: int
    ns_since_epoch: int
    tensor: Tensor


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc_table()


def checksum(data: bytes) -> int:
    """The masked CRC-32C of TFRecord files."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + MASK) & 0xFFFFFFFF


def record(data: bytes) -> bytes:
    """A message as it stands in the file."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", checksum(length)) + data + struct.pack("<I", checksum(data))


def records(data: bytes) -> Iterator[bytes]:
    """The messages of a file; a record that is cut short or damaged ends it."""
    start = 0
    while start + 12 <= len(data):
        size, check = struct.unpack_from("<QI", data, start)
        end = start + 12 + size
        if check != checksum(data[start : start + 8]) or end + 4 > len(data):
            return
        message = data[start + 12 : end]
        if struct.unpack_from("<I", data, end)[0] != checksum(message):
            return
        yield message
        start = end + 4


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _packed(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _event(seconds: float, step: int, body: bytes) -> bytes:
    return b"\x09" + struct.pack("<d", seconds) + (b"\x10" + _varint(step) if step else b"") + body


def _scalar(tag: str, value: float) -> bytes:
    return _packed(5, _packed(1, _packed(1, tag.encode()) + b"\x15" + struct.pack("<f", value)))


def _number(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message: number, and an int or bytes."""
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _number(data, at)
            yield key >> 3, value
            continue
        size = {_FIXED64: 8, _FIXED32: 4}.get(kind)
        if size is None:
            size, at = _number(data, at)
        yield key >> 3, data[at : at + size]
        at += size


def _scalars(message: bytes) -> Iterator[tuple[str, ScalarEvent]]:
    fields = list(_fields(message))
    event = dict(fields)
    seconds = struct.unpack("<d", event[1])[0] if 1 in event else 0.0
    for number, summary in fields:
        if number != 5:
            continue
        for _, value in _fields(summary):
            parts = dict(_fields(value))
            if 1 in parts and 2 in parts:
                number_logged = struct.unpack("<f", parts[2])[0]
                yield parts[1].decode(), ScalarEvent(seconds, event.get(2, 0), number_logged)


class SummaryWriter:
    """Writes scalars and tensors of a run into `log_dir`."""

    _made = 0

    def __init__(self, log_dir: Any = None, *, base_step: int = 1, filename_suffix: str = "", **_: Any):
        self.log_dir = str(log_dir or pathlib.Path("runs") / time.strftime("%b%d_%H-%M-%S"))
        self.base_step = base_step
        folder = pathlib.Path(self.log_dir)
        folder.mkdir(parents=True, exist_ok=True)
        tail = f"{int(time.time())}.{socket.gethostname()}.{SummaryWriter._made}{filename_suffix}"
        SummaryWriter._made += 1
        self._tensors = folder / f"events.out.csevents.{tail}"
        self._tensors.mkdir()
        self._file = (folder / f"events.out.tfevents.{tail}").open("wb")
        self._file.write(record(_event(time.time(), 0, _packed(3, b"brain.Event:2"))))

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: Any = None) -> None:
        """Log a number."""
        seconds = time.time() if walltime is None else walltime
        self._file.write(record(_event(seconds, int(global_step or 0), _scalar(tag, float(scalar_value)))))

    def add_scalars(self, main_tag: str, values: dict[str, Any], global_step: int | None = None) -> None:
        """Log numbers of one group."""
        for name, value in values.items():
            self.add_scalar(f"{main_tag}/{name}", value, global_step)

    def add_tensor(self, name: str, tensor: Tensor, step: int) -> None:
        """Log a tensor. Raises TypeError for anything else."""
        if not isinstance(tensor, Tensor):
            raise TypeError(f"Expected a torch.Tensor, got {type(tensor)}")
        folder = self._tensors / "tensors" / re.sub(r"[^\w.-]", lambda m: f"%{ord(m[0]):02x}", name)
        folder.mkdir(parents=True, exist_ok=True)
        checkpoint.save({"tensor": tensor.detach()}, folder / f"{step}.{time.time_ns()}.h5")  # type: ignore[attr-defined]

    def flush(self) -> None:
        """Put everything on the disk."""
        self._file.flush()

    def close(self) -> None:
        """No more summaries."""
        self._file.close()

    def __enter__(self) -> "SummaryWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SummaryReader:
    """Reads what a SummaryWriter wrote into a folder, or into folders inside of it."""

    def __init__(self, log_dirs: Any, filter: str | None = None, **_: Any):
        self._folder = pathlib.Path(log_dirs)
        self._pattern = filter or "*"
        self.reload()

    def reload(self) -> None:
        """Read the files again."""
        self._logged: dict[str, list[ScalarEvent]] = defaultdict(list)
        self._stored: dict[str, list[pathlib.Path]] = defaultdict(list)
        for path in sorted(self._folder.rglob("events.out.tfevents.*")):
            for message in records(path.read_bytes()):
                for tag, event in _scalars(message):
                    self._logged[tag].append(event)
        for path in sorted(self._folder.rglob("events.out.csevents.*/tensors/*/*.h5")):
            self._stored[re.sub("%(..)", lambda m: chr(int(m[1], 16)), path.parent.name)].append(path)

    def scalar_names(self) -> set[str]:
        """The names of scalars."""
        return set(self._logged)

    def scalar_groups(self) -> set[str]:
        """The names of scalars up to their first slash."""
        return {name.partition("/")[0] for name in self._logged}

    def tensor_names(self) -> set[str]:
        """The names of tensors."""
        return set(self._stored)

    def read_scalar(self, name: str, step: int | None = None) -> Any:
        """The events of a scalar, or the one of a step. Raises KeyError for a step that has none."""
        found = list(self._logged.get(name, ()))
        if step is None:
            return found
        for event in reversed(found):
            if event.step == step:
                return event
        raise KeyError(f"Could not find scalar {name} at step {step}")

    def read_tensor(self, name: str, step: int | None = None, latest_only: bool = True) -> Any:
        """The tensors of a name by step, or those of one step; of several at one step the latest, or all."""
        found: dict[int, list[TensorDescriptor]] = defaultdict(list)
        for path in self._stored.get(name, ()):
            at, nanoseconds = map(int, path.stem.split("."))
            if step in (None, at):
                found[at].append(TensorDescriptor(at, nanoseconds, checkpoint.load(path)["tensor"]))
        ordered = {at: sorted(all_, key=lambda d: d.ns_since_epoch) for at, all_ in sorted(found.items())}
        chosen: dict[int, Any] = {at: all_[-1] for at, all_ in ordered.items()} if latest_only else dict(ordered)
        if step is not None:
            return chosen.get(step)
        return chosen or None

    def Scalars(self, name: str) -> list[ScalarEvent]:
        """The events of a scalar."""
        return self.read_scalar(name)

    def Tags(self) -> dict[str, list[str]]:
        """The names of scalars."""
        return {"scalars": list(self._logged)}
