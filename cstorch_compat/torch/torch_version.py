"""The emulated PyTorch version, as text with the ordering of versions."""

import re
from typing import Any

from cstorch_compat.names.package_metadata import EMULATED_VERSIONS


class TorchVersion(str):
    """A version such as "2.13.0+cpu", compared by number with other versions, text, and tuples of numbers."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __lt__(self, other: Any) -> bool:
        return _version_key(self) < _version_key(other)

    def __le__(self, other: Any) -> bool:
        return _version_key(self) <= _version_key(other)

    def __gt__(self, other: Any) -> bool:
        return _version_key(self) > _version_key(other)

    def __ge__(self, other: Any) -> bool:
        return _version_key(self) >= _version_key(other)

    def __eq__(self, other: object) -> bool:
        return _version_key(self) == _version_key(other)

    def __ne__(self, other: object) -> bool:
        return _version_key(self) != _version_key(other)


def _version_key(version: Any) -> tuple[tuple[int, ...], bool, str]:
    """Return the sort key of a version.

    It consists of the release numbers without trailing zeros, whether the release is final, and the local part.
    """
    # Scripts often compare with a tuple of numbers.
    text = ".".join(map(str, version)) if isinstance(version, tuple | list) else str(version)
    public, _, local = text.partition("+")
    release = re.match(r"v?(\d+(?:\.\d+)*)", public)
    if release is None:
        return (), False, text
    numbers = [int(part) for part in release[1].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    # A release candidate such as 2.13.0rc1 or 2.13.0.dev precedes the release.
    return tuple(numbers), public == release[0], local


__version__ = TorchVersion(EMULATED_VERSIONS["torch"])
