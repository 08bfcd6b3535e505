"""Optimizers as tensor programs: their state exists before the first step, so that it can be loop-carried."""

from lazytensor.optim.adam import Adam, AdamW
from lazytensor.optim.optimizer import Optimizer
from lazytensor.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]
