"""What `cerebras.pytorch.utils.tensorboard` offers: summaries that TensorBoard reads, without TensorBoard itself."""

import sys

from cstorch_compat import manifest
from cstorch_compat.common.eventfile import ScalarEvent
from cstorch_compat.common.summary import SummaryReader, SummaryWriter, TensorDescriptor

__all__ = ["ScalarEvent", "SummaryReader", "SummaryWriter", "TensorDescriptor"]
manifest.explain("cerebras.pytorch.utils.tensorboard", sys.modules[__name__])
