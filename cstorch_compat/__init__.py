"""The cstorch API on top of lazytensor and wse_sim.

`install()` makes `import torch` and `import cerebras.pytorch` resolve to this package, so that unmodified scripts run.
`check()` lists what the Cerebras system would refuse in a script.
"""

from cstorch_compat.check.in_process import CheckReport, check
from cstorch_compat.names.installation import VERSION as __version__
from cstorch_compat.names.shim import install, uninstall

__all__ = ["CheckReport", "check", "install", "uninstall"]


def __dir__() -> list[str]:
    """Return the public names and the module's dunder names. Submodules are importable but not listed."""
    return [*__all__, *(n for n in globals() if n.startswith("__"))]
