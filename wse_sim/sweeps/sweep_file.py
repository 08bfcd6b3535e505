"""The file of a sweep: JSON lines, a header and then a record for each point, each on the disk before the next begins.

What a stop leaves is a file whose last line may be torn: it is cut off, and its point planned again.
"""

import fcntl
import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from lazytensor.errors import LazyError
from wse_sim.sweeps.sweep_record import SweepPoint, SweepRecord

SCHEMA = "lazywafer-sweep"
SCHEMA_VERSION = 1
"""Of the lines: a field that goes or changes its meaning raises it."""


class SweepFile:
    """The records that a file has of some points; more are appended. One process at a time has it open.

    `facts` are what all points have in common, and stand in the header.
    Raises LazyError, and leaves the file as it is, if it is no such file or has other points or facts.
    """

    def __init__(self, path: pathlib.Path, facts: Mapping[str, Any], points: Sequence[SweepPoint]):
        self.path, self._points = path, {point.key: point for point in points}
        self.records: dict[Any, SweepRecord] = {}
        self._header = {"schema": SCHEMA, "version": SCHEMA_VERSION, **facts}
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            self._lock()
            self._read()
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> "SweepFile":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._file)

    def append(self, record: SweepRecord) -> None:
        """Add a record; it is safe when this returns."""
        self._write(record.as_dict())
        self.records[record.point.key] = record

    def _write(self, data: Mapping[str, Any]) -> None:
        # One write for a line: a process that ends in between has written all of it or tears the last line.
        rest = (json.dumps(data) + "\n").encode()
        while rest:
            rest = rest[os.write(self._file, rest) :]
        os.fsync(self._file)

    def _lock(self) -> None:
        # Two sweeps that both find a point missing would both append it. The lock goes with the process.
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LazyError(
                f"another process sweeps into {self.path}", hint="Wait for it, or take another file."
            ) from None

    def _read(self) -> None:
        text = self.path.read_bytes()
        # A header that is torn is the beginning of ours, and nothing of worth is behind it.
        head, end, _ = text.partition(b"\n")
        ours = json.dumps(self._header).encode()
        if not end and ours.startswith(head):
            os.ftruncate(self._file, 0)
            self._write(self._header)
            return
        self._require_header(head)
        # The last line counts if it is ended: what comes before its end may be valid JSON by chance.
        whole = text[: text.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines()[1:], start=2):
            self._take(line, number)
        # Only when all is known to be ours: a file of somebody else stays as it is.
        os.ftruncate(self._file, len(whole))

    def _require_header(self, head: bytes) -> None:
        try:
            header = json.loads(head)
        except ValueError:
            header = None
        if not isinstance(header, dict) or header.get("schema") != SCHEMA:
            raise LazyError(f"{self.path} is no file of a sweep", hint="Give a path at which there is no file yet.")
        different = list(_differing_keys(header, self._header))
        if different:
            raise self._other(f"{', '.join(different)} of its header differ")

    def _take(self, line: bytes, number: int) -> None:
        try:
            record = SweepRecord.from_dict(json.loads(line))
        except (ValueError, TypeError, KeyError) as e:
            raise LazyError(f"{self.path}:{number}: the line is no record of a sweep ({e})") from e
        # What nobody asks for would never be seen by the one who reads the records.
        point = self._points.get(record.point.key)
        if point is None or record.point.key in self.records:
            what = f"{record.program} in batches of {record.batch_size} on {record.systems} {record.machine}"
            raise self._other(f"line {number} has {what}, {'again' if point else 'which is not asked for'}")
        self.records[point.key] = record

    def _other(self, what: str) -> LazyError:
        hint = "Give this sweep a file of its own; a sweep that has all points of the file, and more, goes on with it."
        return LazyError(f"{self.path} is the file of another sweep: {what}", hint=hint)


def _differing_keys(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    """Keys under which two headers say different things. One machine more makes no other sweep."""
    for key in sorted({*a, *b}):
        x, y = a.get(key), b.get(key)
        if isinstance(x, dict) and isinstance(y, dict):
            yield from (f"{key}.{name}" for name in sorted(x.keys() & y.keys()) if x[name] != y[name])
        elif x != y:
            yield key
