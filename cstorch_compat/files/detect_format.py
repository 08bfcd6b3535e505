"""Detection of the format of a file of tensors by its contents. File names are not reliable."""

import zipfile
from typing import Literal

from cstorch_compat.files.rawfile import HDF5_MAGIC
from cstorch_compat.files.safetensors import is_safetensors
from lazytensor.core.file_array import FILE_READER_ERRORS
from lazytensor.system.plain_files import open_plain_file

FileFormat = Literal["h5", "torch", "legacy torch", "safetensors", "npz", "unknown"]
_ZIP_MAGICS = b"PK\x03\x04", b"PK\x05\x06"  # the second one is of an empty archive

_PICKLE_MAGIC = b"\x80"  # protocol 2 and later
_TAR_MAGIC, _TAR_MAGIC_OFFSET = b"ustar", 257


def detect_format(path: str) -> FileFormat:
    """Return the format of the file at `path`, or "unknown". Raises OSError if it cannot be opened.

    A zip archive is "npz" if all its members are .npy files, else "torch". "legacy torch" is the format of torch.save
    before PyTorch 1.6. A file without magic bytes is "safetensors" if it begins with a plausible header.
    """
    # Test the formats with magic bytes first. Safetensors has none and is recognized by a plausible header length and a
    # brace. The original tries HDF5, safetensors and torch.load in turn.
    with open_plain_file(path) as stream:
        head = stream.read(9)
        if head.startswith(HDF5_MAGIC):
            return "h5"
        # torch.save and NumPy both write zip files, which differ by their members.
        if head.startswith(_ZIP_MAGICS):
            return "npz" if _is_npz(path) else "torch"
        if is_safetensors(head):
            return "safetensors"
        stream.seek(_TAR_MAGIC_OFFSET)
        is_tar = stream.read(len(_TAR_MAGIC)) == _TAR_MAGIC
    # Before PyTorch 1.6 files were pickles, and before 0.1.9 tar archives.
    return "legacy torch" if is_tar or head.startswith(_PICKLE_MAGIC) else "unknown"


def _is_npz(path: str) -> bool:
    """Return whether a zip archive contains only npy files. An empty archive counts."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except FILE_READER_ERRORS:
        return False  # the reader will raise the error
    # True for an empty archive, which numpy.savez() without arrays writes. torch.save always writes data.pkl.
    return all(name.endswith(".npy") for name in names)
