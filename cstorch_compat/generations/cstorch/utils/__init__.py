"""What `cerebras.pytorch.utils` offers."""

import sys

from cstorch_compat.data.step_ranges import Schedule
from cstorch_compat.generations.cstorch.utils import benchmark, call_once, data, nest, tracker
from cstorch_compat.names import manifest

manifest.explain("cerebras.pytorch.utils", sys.modules[__name__])
