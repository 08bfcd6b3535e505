"""Settings of reading and writing that hold for a block."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class ValueContext:
    """A setting: called with a value it gives a block in which it has that value."""

    def __init__(self, default: Any):
        self.value = default

    def __call__(self, value: Any) -> Any:
        """The block."""
        return self._block(value)

    @contextmanager
    def _block(self, value: Any) -> Iterator[None]:
        # Blocks nest: the setting of the outer one comes back.
        before, self.value = self.value, value
        try:
            yield
        finally:
            self.value = before

    def __bool__(self) -> bool:
        return bool(self.value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(value={self.value})"


class BooleanContext(ValueContext):
    """A setting that is on or off."""


# Tensors of files are read once and kept, whatever is said; links between files are never written, but copies.
cache_deferred_tensors = BooleanContext(True)
use_external_link = BooleanContext(False)
