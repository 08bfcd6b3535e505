"""What `importlib.metadata` says of the emulated packages: libraries ask it for the version before they import one.

Only who asks by name gets an answer. A list of all that is installed has none of them, since none of them is.
"""

import os
import pathlib
from collections.abc import Iterator
from importlib import metadata

from cstorch_compat.names.torch_surface import TORCH_RELEASE

EMULATED_VERSIONS = {
    "torch": f"{TORCH_RELEASE}+cpu",
    "torchvision": "0.28.0+cpu",
    "cerebras-pytorch": "2.10.0",
    "cerebras-appliance": "2.10.0",
}
"""By normalized name, the releases whose names and numbers are given."""
EMULATED_SUMMARIES = {"torch": "Tensors, as emulated by lazywafer", "torchvision": "Datasets and transforms, emulated"}


class EmulatedDistribution(metadata.Distribution):
    """The metadata of a package that the shim answers for; it has no files."""

    def __init__(self, name: str):
        self._name = name

    def read_text(self, filename: str) -> str | None:
        """The text of METADATA; there is no other file."""
        if filename != "METADATA":
            return None
        summary = EMULATED_SUMMARIES.get(self._name, "Emulated by lazywafer")
        return (
            f"Metadata-Version: 2.1\nName: {self._name}\nVersion: {EMULATED_VERSIONS[self._name]}\nSummary: {summary}\n"
        )

    def locate_file(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Where a file of the package would be."""
        return pathlib.Path(__file__).parent / path


def find_emulated_distributions(context: metadata.DistributionFinder.Context) -> Iterator[metadata.Distribution]:
    """The emulated distribution of the name that is asked for."""
    # Spellings of a name are equal by PEP 503; a list of everything has no name and gets nothing.
    name = (context.name or "").lower().replace("_", "-").replace(".", "-")
    if name in EMULATED_VERSIONS:
        yield EmulatedDistribution(name)
