"""The cstorch API on top of lazytensor and wse_sim, and the shim that serves it to unmodified scripts."""

from cstorch_compat.check.in_process import CheckReport, check
from cstorch_compat.names.installation import VERSION as __version__
from cstorch_compat.names.shim import install, uninstall

__all__ = ["CheckReport", "check", "install", "uninstall"]


def __dir__() -> list[str]:
    """The public names; modules that are not public can be imported, and are not shown."""
    return [*__all__, *(n for n in globals() if n.startswith("__"))]
