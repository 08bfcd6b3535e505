"""What `cerebras.pytorch.backends` offers: the settings of the CSX backend; most are checked and no more."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.run import process

csx = process.RUN.flags
manifest.explain("cerebras.pytorch.backends", sys.modules[__name__])
