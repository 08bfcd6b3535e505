"""What `cerebras.pytorch.utils.tracker` offers."""

import sys

from cstorch_compat import manifest
from cstorch_compat.common.rates import RateTracker

__all__ = ["RateTracker"]
manifest.explain("cerebras.pytorch.utils.tracker", sys.modules[__name__])
