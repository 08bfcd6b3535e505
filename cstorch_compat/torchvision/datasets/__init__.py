"""The package `torchvision.datasets`, with deprecated paths of functions that moved."""

from typing import TYPE_CHECKING, Any

from lazytensor.system.moved_modules import deprecate_paths, moved_attribute

_MODULE = "cstorch_compat.torchvision.datasets"
deprecate_paths({f"{_MODULE}.small_digits": f"{_MODULE}.mnist.small_digits"})

if not TYPE_CHECKING:  # a type checker would accept any attribute

    def __getattr__(name: str) -> Any:
        """Return a function that had the name `name` in this module before it moved."""
        return moved_attribute(_MODULE, name)
