"""Trees of compiler settings whose names are not fixed."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any


class DebugArgs(SimpleNamespace):
    """A tree of compiler settings.

    Reading an unset name creates a subtree, and any name can be set. No setting has an effect.

    >>> args = DebugArgs()
    >>> args.debug_wse.level = 2
    >>> args.debug_wse.level
    2
    """

    def __getattr__(self, name: str) -> "DebugArgs":
        # Copying and pickling look up special methods, which must not exist.
        if name.startswith("__"):
            raise AttributeError(name)
        branch = DebugArgs()
        setattr(self, name, branch)
        return branch

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "DebugArgs":
        """Return the tree for a nested dict."""
        return cls(**{k: cls.from_dict(v) if isinstance(v, Mapping) else v for k, v in settings.items()})

    def MergeFrom(self, other: "DebugArgs") -> None:
        """Copy the top-level settings of `other` into this tree, replacing those of the same name."""
        vars(self).update(vars(other))

    def CopyFrom(self, other: "DebugArgs") -> None:
        """Replace all settings by those of `other`."""
        vars(self).clear()
        self.MergeFrom(other)


def is_empty(tree: DebugArgs) -> bool:
    """Return whether nothing was set in `tree`. Subtrees that were only read do not count."""
    return all(isinstance(value, DebugArgs) and is_empty(value) for value in vars(tree).values())
