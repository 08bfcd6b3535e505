"""What `import torch.autograd` finds."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.torch.autograd import function
from lazytensor import gradients as _gradients
from lazytensor import modes as _modes
from lazytensor.tensor import Tensor as _Tensor

Function, backward, grad = _gradients.Function, _gradients.backward, _gradients.grad
no_grad, enable_grad, set_grad_enabled = _modes.no_grad, _modes.enable_grad, _modes.set_grad_enabled
inference_mode = _modes.inference_mode
Variable = _Tensor
manifest.explain("torch.autograd", sys.modules[__name__])
