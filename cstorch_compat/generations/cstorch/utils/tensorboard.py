"""What `cerebras.pytorch.utils.tensorboard` offers: summaries that TensorBoard reads, without TensorBoard itself."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.watch.eventfile import ScalarEvent
from cstorch_compat.watch.summary import SummaryReader, SummaryWriter, TensorDescriptor

__all__ = ["ScalarEvent", "SummaryReader", "SummaryWriter", "TensorDescriptor"]
manifest.explain("cerebras.pytorch.utils.tensorboard", sys.modules[__name__])
