"""The data loader of a Session."""

from collections.abc import Iterator
from typing import Any

from cstorch_compat.run.plain_loop import current_plain_loop


class DataLoader:
    """A wrapper of a PyTorch data loader. Other attributes are those of the wrapped loader.

    Inside a Session its batches are on the device, and each request for a batch ends the previous step.
    """

    def __init__(self, dataloader: Any):
        self.dataloader = dataloader

    def __iter__(self) -> Iterator[Any]:
        loop = current_plain_loop()
        return iter(self.dataloader) if loop is None else loop.batches(self.dataloader)

    def __len__(self) -> int:
        return len(self.dataloader)

    def __getattr__(self, name: str) -> Any:
        # Copying looks up special attributes before `dataloader` is set, which would recurse without end.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dataloader, name)
