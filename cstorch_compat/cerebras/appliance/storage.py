"""Readers, writers and deleters of checkpoints, chosen by path. Local files are supported; S3 addresses are refused."""

import os
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import h5py

from lazytensor.core import source
from lazytensor.errors import OptionMissing

S3_SCHEME = "s3://"
"""The prefix of an address in an S3 bucket."""


class CheckpointStorage:
    """The location of a checkpoint.

    `StorageReader`, `StorageWriter` and `StorageDeleter` each have one subclass for files and one for S3. The class
    methods of these three select the subclass that matches a path. `get` returns an instance of it.
    """

    _kinds: ClassVar[tuple[type["CheckpointStorage"], ...]] = ()
    """The subclasses that `get_type` tries, in this order."""

    def __init__(self, path: Any):
        self._path: str = os.fspath(path)

    @property
    def path(self) -> str:
        """Return the path given to the constructor, as text."""
        return self._path

    @classmethod
    def get_subclasses(cls) -> Iterator[type["CheckpointStorage"]]:
        """Yield the subclasses that the class methods can select."""
        yield from cls._kinds

    @classmethod
    def get_type(cls, path: Any) -> type["CheckpointStorage"]:
        """Return the first registered subclass that accepts `path`: that for S3 addresses or that for local files.

        Raises ValueError if `path` is neither text nor path-like.
        """
        for kind in cls._kinds:
            if kind.is_valid_path(path):
                return kind
        raise ValueError(
            f"Could not find {cls.__name__} for invalid path: {path}"
            "\n  Pass a local path, or a path that starts with a known scheme."
        )

    @classmethod
    def get(cls, path: Any, *args: Any, **kwargs: Any) -> Any:
        """Return an instance for `path`, of the subclass that matches it.

        Further arguments go to that class's constructor.
        """
        return cls.get_type(path).construct(path, *args, **kwargs)

    @classmethod
    def construct(cls, path: Any, *args: Any, **kwargs: Any) -> Any:
        """Return an instance of this class for `path`."""
        return cls(path, *args, **kwargs)

    @classmethod
    def is_valid_path(cls, path: Any) -> bool:
        """Return whether one of the subclasses accepts `path`. The path need not exist."""
        return any(kind.is_valid_path(path) for kind in cls._kinds)

    @classmethod
    def path_exists(cls, path: Any) -> bool:
        """Return whether `path` exists. Raises OptionMissing for an S3 address and ValueError for an invalid path."""
        return cls.get_type(path).path_exists(path)


class H5Interface(CheckpointStorage):
    """A checkpoint in a local file."""

    @classmethod
    def is_valid_path(cls, path: Any) -> bool:
        """Return whether `path` is text or path-like and does not start with "s3://"."""
        return isinstance(path, str | os.PathLike) and not os.fspath(path).startswith(S3_SCHEME)

    @classmethod
    def path_exists(cls, path: Any) -> bool:
        """Return whether the file exists."""
        return pathlib.Path(path).exists()


class S3Interface(CheckpointStorage):
    """A checkpoint in an S3 bucket. The constructor always raises OptionMissing, because there is no S3 client."""

    def __init__(self, path: Any):
        super().__init__(path)
        raise _make_bucket_error(path)

    @classmethod
    def is_valid_path(cls, path: Any) -> bool:
        """Return whether `path` is text or path-like and starts with "s3://"."""
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(S3_SCHEME)

    @classmethod
    def path_exists(cls, path: Any) -> bool:
        """Raise OptionMissing if `path` is an S3 address, else return False."""
        if cls.is_valid_path(path):
            raise _make_bucket_error(path)
        return False


def _make_bucket_error(path: Any) -> OptionMissing:
    return OptionMissing(
        f"{path} is in an S3 bucket, which is not supported",
        where=source.where(),
        hint="Copy the checkpoint to a local file, and pass its path.",
    )


class StorageReader(CheckpointStorage):
    """A location from which checkpoints are read."""

    @dataclass
    class Stats:
        """The path and modification time of a file, in seconds since the epoch.

        A reader detects a replaced file by comparing them.
        """

        path: pathlib.Path
        st_mtime: float

    def exists(self) -> bool:
        """Return whether the path exists."""
        return self.path_exists(self.path)


class StorageWriter(CheckpointStorage):
    """A location to which checkpoints are written."""


class StorageDeleter(CheckpointStorage):
    """A location from which checkpoints are deleted."""


class H5Reader(H5Interface, StorageReader):
    """A local checkpoint file to read. `cstorch.load` reads its contents.

    The constructor raises FileNotFoundError if the file does not exist.
    """

    def __init__(self, path: Any):
        super().__init__(path)
        if not self.path_exists(path):
            raise FileNotFoundError(f"{path} does not exist")

    @property
    def fstat(self) -> os.stat_result:
        """Return the current `os.stat` result of the file: size, times and mode."""
        return os.stat(self.path)

    @property
    def stats(self) -> StorageReader.Stats:
        """Return the path and the current modification time of the file."""
        return self.Stats(pathlib.Path(self.path), self.fstat.st_mtime)

    @property
    def global_metadata(self) -> dict[str, Any]:
        """Return the attributes of the HDF5 file's root group."""
        with h5py.File(self.path, "r") as file:
            return dict(file.attrs)


class H5Writer(H5Interface, StorageWriter):
    """A local checkpoint file to write. `cstorch.save` writes its contents."""


class H5Deleter(H5Interface, StorageDeleter):
    """A local checkpoint file to delete."""

    def delete(self, key: str | None = None) -> bool:
        """Delete the file, or only its HDF5 entry `key` if that is given.

        Returns True in every case: a missing file or entry counts as deleted. Deleting an entry opens the file for
        writing.
        """
        if key is None:
            pathlib.Path(self.path).unlink(missing_ok=True)
        elif self.path_exists(self.path):
            with h5py.File(self.path, "r+") as file:
                file.pop(key, None)
        return True


class S3Reader(S3Interface, StorageReader):
    """An S3 address to read. The constructor raises OptionMissing."""


class S3Writer(S3Interface, StorageWriter):
    """An S3 address to write. The constructor raises OptionMissing."""


class S3Deleter(S3Interface, StorageDeleter):
    """An S3 address to delete from. The constructor raises OptionMissing."""


StorageReader._kinds = S3Reader, H5Reader
StorageWriter._kinds = S3Writer, H5Writer
StorageDeleter._kinds = S3Deleter, H5Deleter
# A concrete class selects no subclass. Without this assignment it would inherit the list of its base class.
for _kind in (*StorageReader._kinds, *StorageWriter._kinds, *StorageDeleter._kinds):
    _kind._kinds = ()
