"""How a run is fed: the loader over an input function, and the executor that pulls steps from it."""

from cstorch_compat.data.executor import DataExecutor
from cstorch_compat.data.loader import DataLoader

__all__ = ["DataExecutor", "DataLoader"]
