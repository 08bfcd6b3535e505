"""Settings of the compiler that scripts make up as they go."""

from types import SimpleNamespace


class DebugArgs(SimpleNamespace):
    """A tree of settings: whatever is asked for is there, and takes whatever it is set to. None of it has an effect."""

    def __getattr__(self, name: str) -> "DebugArgs":
        # Copying and pickling ask for names of their own, and have to hear that they are not there.
        if name.startswith("__"):
            raise AttributeError(name)
        branch = DebugArgs()
        setattr(self, name, branch)
        return branch

    def MergeFrom(self, other: "DebugArgs") -> None:
        """Take over the settings of another tree."""
        vars(self).update(vars(other))

    def CopyFrom(self, other: "DebugArgs") -> None:
        """Have the settings of another tree and no others."""
        vars(self).clear()
        self.MergeFrom(other)
