"""Optimizers as tensor programs: their state exists before the first step, so that it can be loop-carried."""

from lazytensor.optim.traced.adam import Adam, AdamW
from lazytensor.optim.traced.adam_relatives import ASGD, Adamax, Lamb, NAdam, RAdam
from lazytensor.optim.traced.gradient_history import Adadelta, Adagrad, Lion, RMSprop, Rprop
from lazytensor.optim.traced.matrices import Adafactor, Muon
from lazytensor.optim.traced.optimizer import Optimizer
from lazytensor.optim.traced.sgd import SGD

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
