"""How a run is fed: the loader over an input function, and the executor that pulls steps from it."""

from cstorch_compat.common.data.executor import DataExecutor
from cstorch_compat.common.data.loader import DataLoader

__all__ = ["DataExecutor", "DataLoader"]
