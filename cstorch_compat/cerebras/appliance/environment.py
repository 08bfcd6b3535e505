"""The environment of the cluster's workers; here they run in the client's."""

import os
from collections.abc import Iterator, MutableMapping


class _ApplianceEnviron(MutableMapping[str, str]):
    """Variables that workers get besides the client's; the client gets them too, for its processes are the workers."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        # What was not set for the workers they have from the client.
        return self._values[name] if name in self._values else os.environ[name]

    def __setitem__(self, name: str, value: str) -> None:
        # Through os.environ first, which refuses what no environment can hold.
        os.environ[name] = value
        self._values[name] = value

    def __delitem__(self, name: str) -> None:
        del self._values[name]
        os.environ.pop(name, None)

    # What is passed on to workers is listed, and not all of the client's own variables.
    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"ApplianceEnviron({self._values})"


appliance_environ = _ApplianceEnviron()
