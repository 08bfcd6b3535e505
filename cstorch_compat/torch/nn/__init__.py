"""What `import torch.nn` finds."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.torch.nn import functional, init, utils
from lazytensor import nn as _nn

globals().update({name: getattr(_nn, name) for name in _nn.__all__ if name not in ("functional", "init", "utils")})
manifest.explain("torch.nn", sys.modules[__name__])
