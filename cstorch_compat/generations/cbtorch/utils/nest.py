"""What `cerebras_torch.utils.nest` offers: the later functions under the name of the older device."""

from cstorch_compat.generations.cstorch.utils.nest import map_torch_tensors as map_xla_tensors
from cstorch_compat.generations.cstorch.utils.nest import visit_torch_tensors as visit_xla_tensors

__all__ = ["map_xla_tensors", "visit_xla_tensors"]
