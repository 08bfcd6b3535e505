"""Modules, their functions and their initial values."""

from lazytensor.nn import functional, init
from lazytensor.nn.activation import GELU, ReLU, Sigmoid, SiLU, Softmax, Tanh
from lazytensor.nn.container import ModuleDict, ModuleList, Sequential
from lazytensor.nn.dropout import Dropout
from lazytensor.nn.linear import Flatten, Identity, Linear
from lazytensor.nn.loss import CrossEntropyLoss, MSELoss
from lazytensor.nn.module import Buffer, Module, Parameter

__all__ = [
    "Buffer",
    "CrossEntropyLoss",
    "Dropout",
    "Flatten",
    "GELU",
    "Identity",
    "Linear",
    "MSELoss",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Tanh",
    "functional",
    "init",
]
