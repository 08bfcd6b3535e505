"""What `cerebras.pytorch.backends` offers. Settings of the CSX backend: nothing yet, and every name says so."""

import sys

from cstorch_compat import manifest

manifest.explain("cerebras.pytorch.backends", sys.modules[__name__])
