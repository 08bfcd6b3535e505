"""What `cerebras.pytorch.utils.benchmark` offers."""

import sys

from cstorch_compat.data.loader_benchmark import benchmark_dataloader
from cstorch_compat.names import manifest

__all__ = ["benchmark_dataloader"]
manifest.explain("cerebras.pytorch.utils.benchmark", sys.modules[__name__])
