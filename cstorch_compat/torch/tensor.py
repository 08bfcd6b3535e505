"""The classes Tensor and Module. Importing this module attaches the members that only PyTorch scripts need."""

# Imported for their side effect.
from cstorch_compat.torch import tensor_members
from cstorch_compat.torch.nn.modules import module
from lazytensor.core.tensor import Tensor
from lazytensor.nn.module import Module

__all__ = ["Module", "Tensor", "module", "tensor_members"]
