"""What `import torch.nn.functional` finds."""

import sys

from cstorch_compat import manifest
from lazytensor.nn import functional as _functional

_NAMES = """relu gelu silu leaky_relu elu softplus logsigmoid hardtanh relu6 hardswish mish glu sigmoid tanh softmax
    log_softmax dropout linear cross_entropy mse_loss l1_loss binary_cross_entropy_with_logits normalize"""
globals().update({name: getattr(_functional, name) for name in _NAMES.split()})
manifest.explain("torch.nn.functional", sys.modules[__name__])
