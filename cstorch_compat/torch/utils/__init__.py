"""What `import torch.utils` finds."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.torch.utils import _pytree, data, tensorboard

manifest.explain("torch.utils", sys.modules[__name__])
