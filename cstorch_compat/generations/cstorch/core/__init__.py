"""What `cerebras.pytorch.core` offers."""

import sys

from cstorch_compat import manifest
from cstorch_compat.generations.cstorch.core import modes

manifest.explain("cerebras.pytorch.core", sys.modules[__name__])
