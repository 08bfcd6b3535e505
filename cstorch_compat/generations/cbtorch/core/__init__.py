"""What `cerebras_torch.core` offers."""

from cstorch_compat.generations.cbtorch.core import cb_model, modes
from cstorch_compat.generations.cstorch import name_scope
