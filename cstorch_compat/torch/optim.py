"""What `import torch.optim` finds. PyTorch's own optimizers are not here yet; cstorch.optim has its own."""

import sys

from cstorch_compat import manifest

manifest.explain("torch.optim", sys.modules[__name__])
