"""What `import torch.linalg` finds."""

import sys

from cstorch_compat.names import manifest
from lazytensor.functions import linalg as _linalg

globals().update({name: getattr(_linalg, name) for name in _linalg.LINALG.split()})
cholesky = _linalg.cholesky
manifest.explain("torch.linalg", sys.modules[__name__])
