"""The loader of a Session."""

from collections.abc import Iterator
from typing import Any

from cstorch_compat.run.plain_loop import current_plain_loop


class DataLoader:
    """A loader of PyTorch; in a Session its batches are on the device, and asking for one ends the step before it."""

    def __init__(self, dataloader: Any):
        self.dataloader = dataloader

    def __iter__(self) -> Iterator[Any]:
        loop = current_plain_loop()
        return iter(self.dataloader) if loop is None else loop.batches(self.dataloader)

    def __len__(self) -> int:
        return len(self.dataloader)

    def __getattr__(self, name: str) -> Any:
        # Else copying, which asks before `dataloader` is set, would ask forever.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dataloader, name)
