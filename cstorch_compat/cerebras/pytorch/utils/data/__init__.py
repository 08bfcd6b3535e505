"""The public API of `cerebras.pytorch.utils.data`: the data loader of a run, and the executor of its steps."""

from cstorch_compat.cerebras.pytorch.utils.data.data_executor import DataExecutor
from cstorch_compat.cerebras.pytorch.utils.data.dataloader import DataLoader

__all__ = ["DataExecutor", "DataLoader"]
