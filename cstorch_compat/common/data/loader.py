"""DataLoader over an input function."""

from collections.abc import Callable, Iterator
from typing import Any


class DataLoader:
    """Wraps a function that makes a data loader, so that each worker can call it for itself."""

    def __init__(self, input_fn: Callable, *args: Any, **kwargs: Any):
        if not callable(input_fn):
            raise TypeError(
                "Expected a callable that constructs and returns a `torch.utils.data.DataLoader` or an iterable that "
                "returns a structure containing torch tensors."
            )
        self.input_fn = input_fn
        self._args, self._kwargs = args, kwargs
        self._loader: Any = None

    @property
    def dataloader(self) -> Any:
        """What the input function gave; it is called once."""
        if self._loader is None:
            self._loader = self.input_fn(*self._args, **self._kwargs)
        return self._loader

    @property
    def is_restartable(self) -> bool:
        """Whether the inner loader can save and restore its place."""
        return all(hasattr(self.dataloader, name) for name in ("state_dict", "load_state_dict"))

    def _restartable(self) -> Any:
        if not self.is_restartable:
            raise RuntimeError(
                "DataLoader is not configured for getting state. Please implement RestartableDataLoader interface to "
                "enable `state_dict()` and `load_state_dict()` methods."
            )
        return self.dataloader

    def state_dict(self) -> dict:
        """The place of a restartable loader. Raises RuntimeError for others."""
        return self._restartable().state_dict()

    def load_state_dict(self, state_dict: dict, strict: bool = True) -> None:
        """Restore the place of a restartable loader. Raises RuntimeError for others."""
        self._restartable().load_state_dict(state_dict)

    def __len__(self) -> int:
        return len(self.dataloader)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.dataloader)
