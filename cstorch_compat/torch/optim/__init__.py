"""What `import torch.optim` finds: PyTorch's own optimizers. Those of the Cerebras API are in cstorch.optim."""

import sys

from cstorch_compat.names import manifest
from cstorch_compat.torch.optim import lr_scheduler
from lazytensor.optim.eager import (
    ASGD,
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    NAdam,
    Optimizer,
    RAdam,
    RMSprop,
    Rprop,
)

manifest.explain("torch.optim", sys.modules[__name__])
