"""What `cerebras.pytorch.optim` offers."""

import sys

from cstorch_compat.generations.cstorch.optim import lr_scheduler, scheduler, weight_decay_scheduler
from cstorch_compat.names import manifest
from cstorch_compat.optim.optimizers import (
    ASGD,
    SGD,
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Lamb,
    Lion,
    Muon,
    NAdam,
    Optimizer,
    RAdam,
    RMSprop,
    Rprop,
)

__all__ = [
    "ASGD",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lamb",
    "Lion",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "scheduler",
    "weight_decay_scheduler",
]
manifest.explain("cerebras.pytorch.optim", sys.modules[__name__])
