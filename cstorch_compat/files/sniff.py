"""Which format a file of tensors has, by its first bytes: its name may say anything."""

import zipfile
from typing import Literal

from cstorch_compat.files.rawfile import HDF5_MAGIC
from cstorch_compat.files.safetensors import is_safetensors
from lazytensor.lazyarray import FOREIGN_ERRORS

Kind = Literal["h5", "torch", "safetensors", "npz", "unknown"]
_ZIP_MAGICS = b"PK\x03\x04", b"PK\x05\x06"  # the second of an archive of nothing


def kind_of(path: str) -> Kind:
    """The format of the file at `path`. Raises OSError when it cannot be opened."""
    with open(path, "rb") as stream:
        head = stream.read(9)
        if head.startswith(HDF5_MAGIC):
            return "h5"
        if head.startswith(_ZIP_MAGICS):
            return "npz" if _holds_numpy(path) else "torch"
    return "safetensors" if is_safetensors(head) else "unknown"


def _holds_numpy(path: str) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except FOREIGN_ERRORS:
        return False  # whoever reads it will say what is wrong
    return all(name.endswith(".npy") for name in names)
