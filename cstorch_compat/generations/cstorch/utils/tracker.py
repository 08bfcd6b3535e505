"""What `cerebras.pytorch.utils.tracker` offers."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.watch.rates import RateTracker

__all__ = ["RateTracker"]
manifest.explain("cerebras.pytorch.utils.tracker", sys.modules[__name__])
