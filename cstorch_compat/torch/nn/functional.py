"""What `import torch.nn.functional` finds."""

import sys

from cstorch_compat.names import manifest
from lazytensor.nn import functional as _functional

globals().update({name: getattr(_functional, name) for name in _functional.NAMES})
manifest.explain("torch.nn.functional", sys.modules[__name__])
