"""What `import torch.nn.init` finds."""

import sys

from cstorch_compat.names import manifest
from lazytensor.nn import init as _init

_NAMES = """calculate_gain uniform_ normal_ constant_ zeros_ ones_ xavier_uniform_ xavier_normal_ kaiming_uniform_
    kaiming_normal_ eye_ dirac_ trunc_normal_ orthogonal_ sparse_ _calculate_fan_in_and_fan_out"""
globals().update({name: getattr(_init, name) for name in _NAMES.split()})
manifest.explain("torch.nn.init", sys.modules[__name__])
