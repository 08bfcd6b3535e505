"""What `cerebras.pytorch.optim.lr_scheduler` offers: nothing yet, and every name says so."""

import sys

from cstorch_compat import manifest

manifest.explain("cerebras.pytorch.optim.lr_scheduler", sys.modules[__name__])
