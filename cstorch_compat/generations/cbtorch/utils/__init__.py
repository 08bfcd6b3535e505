"""What `cerebras_torch.utils` offers."""

import sys

from cstorch_compat.generations.cbtorch.utils import nest
from cstorch_compat.names import manifest

manifest.explain("cerebras_torch.utils", sys.modules[__name__])
