"""What `import torch.utils._pytree` finds."""

import sys

from cstorch_compat.names import manifest
from lazytensor import pytree as _pytree

_NAMES = """LeafSpec NodeDef SUPPORTED_NODES TreeSpec register_pytree_node _register_pytree_node _dict_flatten
    _dict_unflatten tree_all tree_any tree_flatten tree_leaves tree_map tree_map_only tree_structure tree_unflatten"""
globals().update({name: getattr(_pytree, name) for name in _NAMES.split()})
manifest.explain("torch.utils._pytree", sys.modules[__name__])
