"""What `import torch.utils.tensorboard` finds: the writer, which needs no TensorBoard."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.watch.summary import EventWriter as SummaryWriter

__all__ = ["SummaryWriter"]
manifest.explain("torch.utils.tensorboard", sys.modules[__name__])
manifest.explain_class("torch.utils.tensorboard.SummaryWriter", SummaryWriter)
