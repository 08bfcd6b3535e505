"""Tensor with all its members: importing this gives Tensor and Module what only scripts ask of them."""

# Imported for what they attach.
from cstorch_compat.torch import tensor_members
from cstorch_compat.torch.nn.modules import module
from lazytensor.core.tensor import Tensor
from lazytensor.nn.module import Module

__all__ = ["Module", "Tensor", "module", "tensor_members"]
