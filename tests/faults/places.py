"""Faults at the n-th place: a full disk, a kill or the death of a worker; and what has to be true afterwards."""

import errno
import os
import pathlib
import signal
from collections.abc import Callable

import numpy as np

from cstorch_compat.files import checkpoint, h5write
from lazytensor import dtype, leftovers
from lazytensor.data.loader import DataLoader
from lazytensor.data.worker_errors import WorkerError
from lazytensor.errors import CheckpointError
from lazytensor.lazyarray import LazyArray

TOUCHES = ("pwrite", "ftruncate", "fsync", "replace")
"""What a save asks of the system; each call is a place."""
BATCHES = 6


def tree(value: float) -> dict[str, object]:
    """What is saved."""
    kind = np.dtype("<f4")
    weight = LazyArray("weight", (40, 5), dtype.float32, kind, True, "", lambda: np.full((40, 5), value, kind))
    return {"weight": weight, "step": int(value), "name": "net"}


def save(value: float, path: pathlib.Path) -> None:
    """Put a file in the place of the one before."""
    h5write.write(str(path), tree(value), lambda leaf: leaf if isinstance(leaf, LazyArray) else None, replace=True)


def save_with(fault: Callable[[], None], place: int, path: pathlib.Path) -> int:
    """Save over `path` and have a fault at the n-th call of the system; returns how many calls there were."""
    calls = 0
    before = {name: getattr(os, name) for name in TOUCHES}

    def counted(name: str) -> Callable[..., object]:
        def touch(*args: object, **kwargs: object) -> object:
            nonlocal calls
            calls += 1
            if calls == place:
                fault()
            return before[name](*args, **kwargs)

        return touch

    try:
        for name in TOUCHES:
            setattr(os, name, counted(name))
        save(2, path)
    finally:
        for name, function in before.items():
            setattr(os, name, function)
    return calls


def full() -> None:
    """As a disk without room."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def killed() -> None:
    """As the system kills a process that takes too much memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def places(folder: pathlib.Path) -> int:
    """How many places a save has."""
    return save_with(full, 0, folder / "count.mdl")


def full_disk_at(place: int, folder: pathlib.Path) -> None:
    """A disk that is full at the n-th place: an error of ours, the file of before whole, and nothing left."""
    path = folder / "last.mdl"
    save(1, path)
    try:
        save_with(full, place, path)
    except CheckpointError as e:
        assert "Make room" in str(e) or "written" in str(e), e
        assert checkpoint.load(path)["step"] == 1 or place_is_behind_the_rename(path)
    else:
        raise AssertionError(f"place {place}: a full disk was not told")
    assert not list(folder.glob("*.tmp*")), place


def place_is_behind_the_rename(path: pathlib.Path) -> bool:
    """Whether the new file has its name already: only the folder's list of names was not taken to the disk."""
    return bool(checkpoint.load(path)["step"] == 2)


def kill_at(place: int, folder: pathlib.Path) -> None:
    """A process that is killed at the n-th place: the file of before or the new one, whole; the rest goes with the next
    save."""
    path = folder / "last.mdl"
    save(1, path)
    child = os.fork()
    if not child:
        try:
            save_with(killed, place, path)
        finally:
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status), place
    loaded = checkpoint.load(path)
    assert loaded["weight"].tolist() == [[loaded["step"]] * 5] * 40
    leftovers.clear(folder)
    assert [p.name for p in folder.iterdir()] == ["last.mdl"], place


class Mortal:
    """A data set whose worker dies when it is asked for one sample."""

    def __init__(self, last: int):
        self.last = last

    def __len__(self) -> int:
        return 2 * BATCHES

    def __getitem__(self, i: int) -> int:
        if i == self.last:
            os._exit(3)
        return i


def worker_death_at(place: int, folder: pathlib.Path) -> None:
    """A worker that dies at the n-th batch: the batches before it, and then an error that says so."""
    seen: list[list[int]] = []
    try:
        # One by one: those before the death count.
        seen.extend(batch.tolist() for batch in DataLoader(Mortal(2 * place), batch_size=2, num_workers=2))
    except WorkerError as e:
        assert "worker" in str(e), e
    else:
        raise AssertionError(f"batch {place}: the death of a worker was not told")
    assert seen == [[2 * k, 2 * k + 1] for k in range(len(seen))] and len(seen) <= place


FAULTS = (full_disk_at, kill_at)
