"""The cstorch API on top of lazytensor and wse_sim, and the shim that serves it to unmodified scripts."""

from cstorch_compat.check.in_process import CheckReport, check
from cstorch_compat.names.installation import VERSION as __version__
from cstorch_compat.names.shim import install, uninstall

__all__ = ["CheckReport", "check", "install", "uninstall"]
