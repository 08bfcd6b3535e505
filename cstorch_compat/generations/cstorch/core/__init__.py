"""What `cerebras.pytorch.core` offers."""

import sys

from cstorch_compat.generations.cstorch.core import modes
from cstorch_compat.names import manifest

manifest.explain("cerebras.pytorch.core", sys.modules[__name__])
