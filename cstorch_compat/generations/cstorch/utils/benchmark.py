"""What `cerebras.pytorch.utils.benchmark` offers."""

import sys

from cstorch_compat import manifest
from cstorch_compat.common.benchmark import benchmark_dataloader

__all__ = ["benchmark_dataloader"]
manifest.explain("cerebras.pytorch.utils.benchmark", sys.modules[__name__])
