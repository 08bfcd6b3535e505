"""Settings of the compiler that scripts make up as they go."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any


class DebugArgs(SimpleNamespace):
    """A tree of settings. Reading any name makes a branch, and any value can be set. No setting has an effect."""

    def __getattr__(self, name: str) -> "DebugArgs":
        # Copying and pickling look for special methods, which have to be missing.
        if name.startswith("__"):
            raise AttributeError(name)
        branch = DebugArgs()
        setattr(self, name, branch)
        return branch

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "DebugArgs":
        """Return the tree of a nested dict."""
        return cls(**{k: cls.from_dict(v) if isinstance(v, Mapping) else v for k, v in settings.items()})

    def MergeFrom(self, other: "DebugArgs") -> None:
        """Take over the settings of another tree."""
        vars(self).update(vars(other))

    def CopyFrom(self, other: "DebugArgs") -> None:
        """Have the settings of another tree and no others."""
        vars(self).clear()
        self.MergeFrom(other)


def is_empty(tree: DebugArgs) -> bool:
    """Return whether nothing was set in a tree. Branches that were only read do not count."""
    return all(isinstance(value, DebugArgs) and is_empty(value) for value in vars(tree).values())
