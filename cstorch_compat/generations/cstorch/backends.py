"""What `cerebras.pytorch.backends` offers: settings of the CSX backend, checked and without effect here."""

import sys

from cstorch_compat import manifest, run
from cstorch_compat.common.flags import CSX, Group

csx = Group("csx", CSX, lambda: run._executor is not None)
manifest.explain("cerebras.pytorch.backends", sys.modules[__name__])
