"""Faults at the n-th place: a full disk, a kill or the death of a worker; and what has to be true afterwards."""

import errno
import os
import pathlib
import signal
from collections.abc import Callable

import numpy as np

from cstorch_compat.files import checkpoint, h5write
from lazytensor.core import dtype
from lazytensor.core.file_array import LazyArray
from lazytensor.data.loader import DataLoader
from lazytensor.data.worker_errors import WorkerError
from lazytensor.errors import CheckpointError
from lazytensor.system import atomic_files

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


def full_disk_at(place: int, folder: pathlib.Path) -> list[str]:
    """What is wrong behind a disk that is full at the n-th place: no error of ours, a file in parts, something left."""
    path = folder / "last.mdl"
    save(1, path)
    wrong = []
    try:
        save_with(full, place, path)
        wrong.append("the full disk was not told")
    except CheckpointError as e:
        if not ("Make room" in str(e) or "written" in str(e)):
            wrong.append(f"the error says {e}")
    # The new one stands there where only the folder's list of names was not taken to the disk.
    if checkpoint.load(path)["step"] not in (1, 2):
        wrong.append("the file is neither the one of before nor the new one")
    return [*wrong, *(f"{p.name} is left" for p in folder.glob("*.tmp*"))]


def kill_at(place: int, folder: pathlib.Path) -> list[str]:
    """What is wrong behind a kill at the n-th place: a file in parts, or more than it after the next save clears up."""
    path = folder / "last.mdl"
    save(1, path)
    child = os.fork()
    if not child:
        try:
            save_with(killed, place, path)
        finally:
            os._exit(0)
    wrong = [] if os.WIFSIGNALED(os.waitpid(child, 0)[1]) else ["nothing was killed"]
    loaded = checkpoint.load(path)
    if loaded["weight"].tolist() != [[loaded["step"]] * 5] * 40:
        wrong.append("the file is neither the one of before nor the new one")
    atomic_files.remove_leftovers(folder)
    return [*wrong, *(f"{p.name} is left" for p in folder.iterdir() if p != path)]


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


def worker_death_at(place: int, folder: pathlib.Path) -> list[str]:
    """What is wrong behind the death of a worker at the n-th batch: no error, or not just batches from before it."""
    seen: list[list[int]] = []
    wrong = []
    try:
        # One by one: those before the death count.
        seen.extend(batch.tolist() for batch in DataLoader(Mortal(2 * place), batch_size=2, num_workers=2))
        wrong.append("the death of the worker was not told")
    except WorkerError as e:
        if "worker" not in str(e):
            wrong.append(f"the error says {e}")
    if seen != [[2 * k, 2 * k + 1] for k in range(min(len(seen), place))]:
        wrong.append(f"the batches are {seen}")
    return wrong


FAULTS = (full_disk_at, kill_at)
