"""The file of a sweep: JSON lines with a header and then one record for each point.

Each record is on disk before the next one is written. If a process is killed, the last line may be incomplete. It is
then cut off, and its point is planned again.
"""

import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from lazytensor.errors import LazyError
from lazytensor.system.positioned_files import BINARY, try_lock
from wse_sim.sweeps.sweep_record import SweepPoint, SweepRecord

SCHEMA = "lazywafer-sweep"
SCHEMA_VERSION = 1
"""Version of the lines. It increases if a field is removed or changes its meaning."""


class SweepFile:
    """An open sweep file. `records` contains its records by point key; more can be appended.

    `facts` are written to the header and have to be equal for all runs of the sweep; `points` are the points of the
    sweep. Only one process at a time can open the file. Raise LazyError, without changing the file, if another process
    has it open, if it is no sweep file, or if it has other points or facts.
    """

    def __init__(self, path: pathlib.Path, facts: Mapping[str, Any], points: Sequence[SweepPoint]):
        self.path, self._points = path, {point.key: point for point in points}
        self.records: dict[Any, SweepRecord] = {}
        self._header = {"schema": SCHEMA, "version": SCHEMA_VERSION, **facts}
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | BINARY, 0o644)
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
        """Write a record to the file, flush it to disk, and add it to `records`."""
        self._write(record.as_dict())
        self.records[record.point.key] = record

    def _write(self, data: Mapping[str, Any]) -> None:
        """Append one line of JSON to the file and flush it to disk."""
        # Write a line at once, so that a killed process leaves at most the last line incomplete.
        rest = (json.dumps(data) + "\n").encode()
        while rest:
            rest = rest[os.write(self._file, rest) :]
        os.fsync(self._file)

    def _lock(self) -> None:
        """Lock the file. Raise LazyError if another process has locked it."""
        # Two processes would both append missing points. The lock is released when the process ends.
        if not try_lock(self._file):
            raise LazyError(f"another process writes to {self.path}", hint="Wait for its end, or use another file.")

    def _read(self) -> None:
        """Read the records of the file, or write the header to a file that is empty or has only a part of it.

        An incomplete last line is cut off. Raise LazyError, without changing the file, if a line is not of this sweep.
        """
        text = self.path.read_bytes()
        # An incomplete header is a prefix of ours, and nothing follows it.
        head, end, _ = text.partition(b"\n")
        ours = json.dumps(self._header).encode()
        if not end and ours.startswith(head):
            os.ftruncate(self._file, 0)
            self._write(self._header)
            return
        self._require_header(head)
        # Use the last line only if it ends with a newline: an incomplete line may be valid JSON by chance.
        whole = text[: text.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines()[1:], start=2):
            self._take(line, number)
        # Truncate only after all lines were valid, so that files of other programs are not changed.
        os.ftruncate(self._file, len(whole))

    def _require_header(self, head: bytes) -> None:
        """Raise LazyError if the line `head` is not the header of this sweep.

        Entries that only one of two nested dicts has, such as machines, may differ.
        """
        try:
            header = json.loads(head)
        except ValueError:
            header = None
        if not isinstance(header, dict) or header.get("schema") != SCHEMA:
            raise LazyError(f"{self.path} is not a file of a sweep", hint="Pass the path of a new file.")
        different = list(_differing_keys(header, self._header))
        if different:
            raise self._other(f"its header differs in {', '.join(different)}")

    def _take(self, line: bytes, number: int) -> None:
        """Add the record of a line to `records`.

        Raise LazyError if it is invalid, repeated, or not a point of this sweep. `number` is the line number, for the
        message.
        """
        try:
            record = SweepRecord.from_dict(json.loads(line))
        except (ValueError, TypeError, KeyError) as e:
            what = f"{self.path}:{number}: the line is not a record of a sweep ({e})"
            raise LazyError(what, hint="Remove the line: its point is then planned again.") from e
        # Reject records of other points, which would never be returned.
        point = self._points.get(record.point.key)
        if point is None or record.point.key in self.records:
            where = f"{record.systems} {record.machine} with {record.workers} input workers"
            what = f"{record.program} in batches of {record.batch_size} on {where}"
            raise self._other(f"line {number} has {what}, {'again' if point else 'which this sweep does not include'}")
        self.records[point.key] = record

    def _other(self, what: str) -> LazyError:
        """Return the error for a file of another sweep. `what` tells what differs."""
        hint = "Use another file. A sweep can continue a file if it includes all points of the file."
        return LazyError(f"{self.path} is the file of another sweep: {what}", hint=hint)


def _differing_keys(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys whose values differ between two headers. Keys of nested dicts count only if both have them.

    A sweep with more machines therefore continues the same file.
    """
    for key in sorted({*a, *b}):
        x, y = a.get(key), b.get(key)
        if isinstance(x, dict) and isinstance(y, dict):
            yield from (f"{key}.{name}" for name in sorted(x.keys() & y.keys()) if x[name] != y[name])
        elif x != y:
            yield key
