"""What `cerebras.pytorch.optim.weight_decay_scheduler` offers: nothing yet, and every name says so."""

import sys

from cstorch_compat import manifest

manifest.explain("cerebras.pytorch.optim.weight_decay_scheduler", sys.modules[__name__])
