"""PyTorch's own optimizers, for eager loops: the numbers and the state dicts are PyTorch's."""

from lazytensor.optim.eager.adaptive import Adadelta, Adagrad, RMSprop
from lazytensor.optim.eager.eager_optimizer import Optimizer
from lazytensor.optim.eager.gradient import ASGD, SGD, Rprop
from lazytensor.optim.eager.moments import Adam, Adamax, AdamW, NAdam, RAdam

__all__ = [
    "ASGD",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
]
