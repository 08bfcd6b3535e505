"""What `cerebras_torch.core` offers."""

import sys

from cstorch_compat.generations.cbtorch.core import cb_model, modes
from cstorch_compat.generations.cstorch import name_scope
from cstorch_compat.names import manifest

manifest.explain("cerebras_torch.core", sys.modules[__name__])
