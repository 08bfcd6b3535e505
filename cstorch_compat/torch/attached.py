"""Tensor with all its members: importing this gives Tensor and Module what only scripts ask of them."""

# Imported for what they attach.
from cstorch_compat.torch import module_members, tensor_members
from lazytensor.nn.module import Module
from lazytensor.tensor import Tensor

__all__ = ["Module", "Tensor", "module_members", "tensor_members"]
