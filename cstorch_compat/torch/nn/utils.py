"""What `import torch.nn.utils` finds."""

import sys

from cstorch_compat.names import manifest
from lazytensor.nn import utils as _utils

_NAMES = """clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ get_total_norm parameters_to_vector
    vector_to_parameters weight_norm remove_weight_norm"""
globals().update({name: getattr(_utils, name) for name in _NAMES.split()})
manifest.explain("torch.nn.utils", sys.modules[__name__])
