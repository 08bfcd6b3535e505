"""What `cerebras.pytorch.backends` offers: the settings of the CSX backend; most are checked and no more."""

import sys

from cstorch_compat import manifest, run

csx = run.flags
manifest.explain("cerebras.pytorch.backends", sys.modules[__name__])
