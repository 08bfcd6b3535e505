"""Watch the data loaders that a script iterates over.

Report those whose last batch is smaller, and iterators that have too few batches for a loop.
"""

import functools
import time
import types
from collections.abc import Iterator
from typing import Any

from cstorch_compat.cerebras.pytorch.utils.data.repeated_loader import RepeatedLoader
from cstorch_compat.check.findings import Findings, find_current_columns
from lazytensor.core import source
from lazytensor.data.dataset import IterableDataset
from lazytensor.data.loader import DataLoader
from lazytensor.errors import DataError
from lazytensor.ir.types import Where

MAX_DRAIN_SECONDS = 2.0
"""Maximum time to read further batches of an iterator after the last traced step."""


class LoaderWatcher:
    """A context manager that patches `DataLoader` and `RepeatedLoader` to check each loader when it is iterated.

    used: the lines where iterated loaders were made, once each
    once: the loader of the last loop if it is an iterator, which cannot be restarted, else None
    """

    def __init__(self, findings: Findings):
        self.findings = findings
        self.used: list[Where] = []
        self.once: RepeatedLoader | None = None
        self._originals = {name: vars(DataLoader)[name] for name in ("__init__", "__iter__")}
        self._repeat = RepeatedLoader.__init__

    def __enter__(self) -> "LoaderWatcher":
        repeat = self._repeat

        @functools.wraps(repeat)
        def watched(loader: RepeatedLoader, batches: Any, *args: Any, **kwargs: Any) -> None:
            self.once = loader if isinstance(batches, Iterator) else None
            repeat(loader, batches, *args, **kwargs)

        RepeatedLoader.__init__ = watched  # type: ignore[assignment, method-assign]
        DataLoader.__init__ = self._wrapped("__init__", self._made)  # type: ignore[method-assign]
        DataLoader.__iter__ = self._wrapped("__iter__", self._check_batch_sizes)  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        for name, original in self._originals.items():
            setattr(DataLoader, name, original)
        RepeatedLoader.__init__ = self._repeat  # type: ignore[method-assign]

    def drain(self, count: int, place: Where) -> None:
        """Read `count` more batches if the loader is an iterator, for at most MAX_DRAIN_SECONDS.

        Adds a finding for the loop at `place` if it has fewer, because it cannot be restarted. Other errors of the
        iterator are ignored.
        """
        end, loader = time.monotonic() + MAX_DRAIN_SECONDS, self.once
        if loader is None:
            return
        for _ in range(count):
            try:
                next(loader)
            except DataError as e:
                self.findings.add("api", place, type(e).__name__, e.what, e.hint)
                return
            except Exception:
                return
            if time.monotonic() > end:
                return

    def _wrapped(self, name: str, note: Any) -> Any:
        """Return a wrapper of DataLoader's method `name` that calls `note(loader)` after the method."""
        original: types.FunctionType = self._originals[name]

        @functools.wraps(original)
        def watched(loader: DataLoader[Any], *args: Any, **kwargs: Any) -> Any:
            result = original(loader, *args, **kwargs)
            note(loader)
            return result

        return watched

    def _made(self, loader: DataLoader[Any]) -> None:
        """Store the line that made `loader`, where the user would add `drop_last`."""
        # `drop_last` is set where the loader is made; it is iterated elsewhere.
        place = source.where()
        loader.__dict__["_made_at"] = place, find_current_columns(place)

    def _check_batch_sizes(self, loader: DataLoader[Any]) -> None:
        """Add a finding if the number of samples is no multiple of the batch size.

        Loaders with `drop_last`, a batch sampler or an iterable dataset are not checked. A line is checked once.
        """
        place, columns = loader.__dict__["_made_at"]
        # A loader is iterated once per epoch.
        if place in self.used:
            return
        self.used.append(place)
        # The size of the last batch is unknown without a length or with a batch sampler.
        if loader.drop_last or loader.batch_size is None or isinstance(loader.dataset, IterableDataset):
            return
        rows = len(loader.dataset)  # type: ignore[arg-type]
        if rest := rows % loader.batch_size:
            detail = f"{rows} samples in batches of {loader.batch_size} leave {rest} for the last batch"
            self.findings.add("uneven batches", place, "DataLoader", detail, columns=columns)
