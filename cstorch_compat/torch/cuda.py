"""What `import torch.cuda` finds: there is no GPU."""

import sys

from cstorch_compat.names import manifest


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


manifest.explain("torch.cuda", sys.modules[__name__])
