"""What `cerebras.pytorch.experimental` offers: nothing yet, and every name says so."""

import sys

from cstorch_compat.names import manifest

manifest.explain("cerebras.pytorch.experimental", sys.modules[__name__])
