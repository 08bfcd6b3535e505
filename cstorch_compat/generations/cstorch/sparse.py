"""What `cerebras.pytorch.sparse` offers. Sparsity: nothing yet, and every name says so."""

import sys

from cstorch_compat import manifest

manifest.explain("cerebras.pytorch.sparse", sys.modules[__name__])
