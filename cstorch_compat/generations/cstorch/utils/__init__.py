"""What `cerebras.pytorch.utils` offers."""

import sys

from cstorch_compat import manifest
from cstorch_compat.common.data.schedule import Schedule
from cstorch_compat.generations.cstorch.utils import benchmark, call_once, data, nest, tracker

manifest.explain("cerebras.pytorch.utils", sys.modules[__name__])
