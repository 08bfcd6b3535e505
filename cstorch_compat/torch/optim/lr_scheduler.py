"""What `import torch.optim.lr_scheduler` finds."""

import sys

from cstorch_compat.names import manifest
from lazytensor.optim import lr_cycle as _cycle
from lazytensor.optim import lr_scheduler as _plain

_NAMES = """LRScheduler LambdaLR MultiplicativeLR StepLR MultiStepLR ConstantLR LinearLR ExponentialLR PolynomialLR
    CosineAnnealingLR CosineAnnealingWarmRestarts SequentialLR ChainedScheduler"""
_CYCLES = "OneCycleLR CyclicLR ReduceLROnPlateau"
globals().update({name: getattr(_plain, name) for name in _NAMES.split()})
globals().update({name: getattr(_cycle, name) for name in _CYCLES.split()})
_LRScheduler = _plain.LRScheduler
manifest.explain("torch.optim.lr_scheduler", sys.modules[__name__])
