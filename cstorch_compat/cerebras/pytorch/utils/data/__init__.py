"""How a run is fed: the loader over an input function, and the executor that pulls steps from it."""

from cstorch_compat.cerebras.pytorch.utils.data.data_executor import DataExecutor
from cstorch_compat.cerebras.pytorch.utils.data.dataloader import DataLoader

__all__ = ["DataExecutor", "DataLoader"]
