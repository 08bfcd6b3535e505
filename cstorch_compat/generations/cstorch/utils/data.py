"""What `cerebras.pytorch.utils.data` offers."""

import sys

from cstorch_compat import manifest
from cstorch_compat.common.data import DataExecutor, DataLoader

__all__ = ["DataExecutor", "DataLoader"]
manifest.explain("cerebras.pytorch.utils.data", sys.modules[__name__])
