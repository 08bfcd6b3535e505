"""Optimizers as tensor programs: their state exists before the first step, so that it can be loop-carried."""

from lazytensor.optim.adam import Adam, AdamW
from lazytensor.optim.adaptive import Adadelta, Adagrad, Lion, RMSprop, Rprop
from lazytensor.optim.matrices import Adafactor, Muon
from lazytensor.optim.moments import ASGD, Adamax, Lamb, NAdam, RAdam
from lazytensor.optim.optimizer import Optimizer
from lazytensor.optim.sgd import SGD

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
]
