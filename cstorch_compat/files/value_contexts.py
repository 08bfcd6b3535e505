"""Settings of reading and writing that can be changed for a block."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class ValueContext:
    """A setting. `with setting(value):` sets it for a block; blocks can be nested. It is true if its value is."""

    def __init__(self, default: Any):
        self.value = default

    def __call__(self, value: Any) -> Any:
        """Return a context manager in which the setting has the given value."""
        return self._block(value)

    @contextmanager
    def _block(self, value: Any) -> Iterator[None]:
        """Set the value while the context is active, and restore the previous one."""
        # Restore the value of the outer block.
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


cache_deferred_tensors = BooleanContext(True)
"""A setting without an effect: tensors of files are always read once and kept."""
use_external_link = BooleanContext(False)
"""A setting without an effect: links between files are never written, but copies."""
