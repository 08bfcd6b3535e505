"""Environment variables of the cluster's workers. The workers run as processes of the client here."""

import os
from collections.abc import Iterator, MutableMapping


class _ApplianceEnviron(MutableMapping[str, str]):
    """A mapping of environment variables for the workers.

    Setting or deleting a variable also changes `os.environ`, because worker processes inherit it. Reading a variable
    that was not set here returns that of `os.environ`, or raises KeyError. Iteration and `len` cover only the variables
    that were set here.
    """

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        return self._values[name] if name in self._values else os.environ[name]

    def __setitem__(self, name: str, value: str) -> None:
        # os.environ is written first, because it raises for names and values that an environment cannot hold.
        os.environ[name] = value
        self._values[name] = value

    def __delitem__(self, name: str) -> None:
        del self._values[name]
        os.environ.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"ApplianceEnviron({self._values})"


appliance_environ = _ApplianceEnviron()
"""The mapping that scripts import."""
