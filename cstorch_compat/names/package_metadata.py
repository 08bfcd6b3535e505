"""The `importlib.metadata` of the emulated packages. Some libraries check the version before they import a package.

Only lookups by name succeed. Listings of all distributions do not contain the emulated packages.
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
"""The emulated release of each package, by normalized name."""
EMULATED_SUMMARIES = {"torch": "Tensors, as emulated by lazywafer", "torchvision": "Datasets and transforms, emulated"}
"""The summary of a package in its metadata, by name."""


class EmulatedDistribution(metadata.Distribution):
    """The metadata of an emulated package. It has no files."""

    def __init__(self, name: str):
        self._name = name

    def read_text(self, filename: str) -> str | None:
        """Return the text of METADATA, and None for other files."""
        if filename != "METADATA":
            return None
        summary = EMULATED_SUMMARIES.get(self._name, "Emulated by lazywafer")
        return (
            f"Metadata-Version: 2.1\nName: {self._name}\nVersion: {EMULATED_VERSIONS[self._name]}\nSummary: {summary}\n"
        )

    def locate_file(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Return the path at which a file of the package would be."""
        return pathlib.Path(__file__).parent / path


def find_emulated_distributions(context: metadata.DistributionFinder.Context) -> Iterator[metadata.Distribution]:
    """Yield the distribution with the name in `context`, if it is emulated."""
    # Normalize the name by PEP 503. A request without a name is a listing and gets nothing.
    name = (context.name or "").lower().replace("_", "-").replace(".", "-")
    if name in EMULATED_VERSIONS:
        yield EmulatedDistribution(name)
