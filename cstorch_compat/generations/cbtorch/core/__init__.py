"""What `cerebras_torch.core` offers."""

import sys

from cstorch_compat import manifest
from cstorch_compat.generations.cbtorch.core import cb_model, modes
from cstorch_compat.generations.cstorch import name_scope

manifest.explain("cerebras_torch.core", sys.modules[__name__])
