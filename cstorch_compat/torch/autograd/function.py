"""What `import torch.autograd.function` finds."""

import sys

from cstorch_compat.names import manifest
from lazytensor import gradients as _gradients

Function, once_differentiable = _gradients.Function, _gradients.once_differentiable
FunctionCtx = _gradients.Context
manifest.explain("torch.autograd.function", sys.modules[__name__])
