"""What `cerebras.pytorch.optim` offers."""

import sys

from cstorch_compat import manifest
from cstorch_compat.common.optim import SGD, Adam, AdamW, Optimizer
from cstorch_compat.generations.cstorch.optim import lr_scheduler, weight_decay_scheduler

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler", "weight_decay_scheduler"]
manifest.explain("cerebras.pytorch.optim", sys.modules[__name__])
