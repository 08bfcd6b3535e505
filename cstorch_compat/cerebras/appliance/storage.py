"""Where checkpoints lie, behind one interface: files are there, buckets of S3 are told apart and refused."""

import os
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import h5py

from lazytensor.core import source
from lazytensor.errors import OptionMissing

S3_SCHEME = "s3://"


class CheckpointStorage:
    """One place of a checkpoint. The class answers for all kinds of places, `get` gives the one that a path names."""

    _kinds: ClassVar[tuple[type["CheckpointStorage"], ...]] = ()

    def __init__(self, path: Any):
        self._path: str = os.fspath(path)

    @property
    def path(self) -> str:
        """The path, as it was given."""
        return self._path

    @classmethod
    def get_subclasses(cls) -> Iterator[type["CheckpointStorage"]]:
        """The kinds of places."""
        yield from cls._kinds

    @classmethod
    def get_type(cls, path: Any) -> type["CheckpointStorage"]:
        """The kind of place that a path names. Raises ValueError for a path that names none."""
        for kind in cls._kinds:
            if kind.is_valid_path(path):
                return kind
        raise ValueError(f"Could not find {cls.__name__} for invalid path: {path}")

    @classmethod
    def get(cls, path: Any, *args: Any, **kwargs: Any) -> Any:
        """The place that a path names."""
        return cls.get_type(path).construct(path, *args, **kwargs)

    @classmethod
    def construct(cls, path: Any, *args: Any, **kwargs: Any) -> Any:
        """This kind of place at a path."""
        return cls(path, *args, **kwargs)

    @classmethod
    def is_valid_path(cls, path: Any) -> bool:
        """Whether a path names such a place, be there something or not."""
        return any(kind.is_valid_path(path) for kind in cls._kinds)

    @classmethod
    def path_exists(cls, path: Any) -> bool:
        """Whether there is something at a path."""
        return cls.get_type(path).path_exists(path)


class H5Interface(CheckpointStorage):
    """A file."""

    @classmethod
    def is_valid_path(cls, path: Any) -> bool:
        """Whether it is a path of this machine."""
        return isinstance(path, str | os.PathLike) and not os.fspath(path).startswith(S3_SCHEME)

    @classmethod
    def path_exists(cls, path: Any) -> bool:
        """Whether there is such a file."""
        return pathlib.Path(path).exists()


class S3Interface(CheckpointStorage):
    """A place in a bucket, which cannot be reached from here."""

    def __init__(self, path: Any):
        super().__init__(path)
        raise _make_bucket_error(path)

    @classmethod
    def is_valid_path(cls, path: Any) -> bool:
        """Whether it is an address in a bucket."""
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(S3_SCHEME)

    @classmethod
    def path_exists(cls, path: Any) -> bool:
        """Raises OptionMissing for an address in a bucket; nothing else is in one."""
        if cls.is_valid_path(path):
            raise _make_bucket_error(path)
        return False


def _make_bucket_error(path: Any) -> OptionMissing:
    return OptionMissing(
        f"{path} lies in a bucket of S3, and there is no client for it",
        where=source.where(),
        hint="Copy the checkpoint to a file and name that.",
    )


class StorageReader(CheckpointStorage):
    """Where checkpoints are read from."""

    @dataclass
    class Stats:
        """What tells one state of a place from another: by it a reader sees that the file has been replaced."""

        path: pathlib.Path
        st_mtime: float

    def exists(self) -> bool:
        """Whether something is there."""
        return self.path_exists(self.path)


class StorageWriter(CheckpointStorage):
    """Where checkpoints are written to."""


class StorageDeleter(CheckpointStorage):
    """Where checkpoints are deleted."""


class H5Reader(H5Interface, StorageReader):
    """A file that is read; `cstorch.load` reads what is in it. Raises FileNotFoundError if there is none."""

    def __init__(self, path: Any):
        super().__init__(path)
        if not self.path_exists(path):
            raise FileNotFoundError(f"{path} does not exist")

    @property
    def fstat(self) -> os.stat_result:
        """Size and times of the file."""
        return os.stat(self.path)

    @property
    def stats(self) -> StorageReader.Stats:
        """The path, and when it was written."""
        return self.Stats(pathlib.Path(self.path), self.fstat.st_mtime)

    @property
    def global_metadata(self) -> dict[str, Any]:
        """The attributes of the file as a whole."""
        with h5py.File(self.path, "r") as file:
            return dict(file.attrs)


class H5Writer(H5Interface, StorageWriter):
    """A file that is written; `cstorch.save` writes it."""


class H5Deleter(H5Interface, StorageDeleter):
    """A file that is deleted."""

    def delete(self, key: str | None = None) -> bool:
        """Delete the file, or one entry of it. True: what is gone already is deleted too."""
        # A file that somebody else has deleted is as good as deleted here.
        if key is None:
            pathlib.Path(self.path).unlink(missing_ok=True)
        elif self.path_exists(self.path):
            with h5py.File(self.path, "r+") as file:
                file.pop(key, None)
        return True


class S3Reader(S3Interface, StorageReader):
    """A bucket that is read."""


class S3Writer(S3Interface, StorageWriter):
    """A bucket that is written."""


class S3Deleter(S3Interface, StorageDeleter):
    """A bucket from which something is deleted."""


StorageReader._kinds = S3Reader, H5Reader
StorageWriter._kinds = S3Writer, H5Writer
StorageDeleter._kinds = S3Deleter, H5Deleter
# A kind of place has none below it; without this it would ask those of its base.
for _kind in (*StorageReader._kinds, *StorageWriter._kinds, *StorageDeleter._kinds):
    _kind._kinds = ()
