"""What `cerebras_torch.utils` offers."""

import sys

from cstorch_compat import manifest
from cstorch_compat.generations.cbtorch.utils import nest

manifest.explain("cerebras_torch.utils", sys.modules[__name__])
