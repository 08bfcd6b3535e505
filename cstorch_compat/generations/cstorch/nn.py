"""What `cerebras.pytorch.nn` offers: PyTorch's parameters and buffers."""

import sys

from cstorch_compat import manifest
from lazytensor.nn.module import Buffer, Parameter

__all__ = ["Buffer", "Parameter"]
manifest.explain("cerebras.pytorch.nn", sys.modules[__name__])
