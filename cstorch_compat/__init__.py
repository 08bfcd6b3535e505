"""The cstorch API on top of lazytensor and wse_sim, and the shim that serves it to unmodified scripts."""

from cstorch_compat.names.shim import install, uninstall

__version__ = "0.1.0"
__all__ = ["install", "uninstall"]
