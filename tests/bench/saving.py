"""Seconds to save and to load 1 GB of state in 2,000 tensors, beside h5py with the raw arrays and an fsync.

    python -m tests.bench.saving [--rounds R] [--tensors N] [--folder DISK]

Both are measured in turns; the figure is the median of the ratios of their times. Loading reads every value.
"""

import argparse
import gc
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable

import h5py
import numpy as np

import lazytensor as lt
from cstorch_compat.files import checkpoint

SHAPE = (256, 512)


def save_raw(path: str, arrays: dict[str, np.ndarray]) -> None:
    with h5py.File(path, "w") as file:
        for key, array in arrays.items():
            file[key] = array
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def load_raw(path: str) -> list[np.ndarray]:
    with h5py.File(path, "r") as file:
        return [file[key][()] for key in file]


def load(path: str) -> list[np.ndarray]:
    # Without the copy of `numpy()`.
    return [tensor.array("reading it") for tensor in checkpoint.load(path).values()]


def seconds(call: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tensors", type=int, default=2000)
    parser.add_argument("--folder", default=None, help="where the files go; a disk, not memory")
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    arrays = {f"model.layers.{i}.weight": generator.random(SHAPE, np.float32) for i in range(options.tensors)}
    state = {key: lt.tensor(array) for key, array in arrays.items()}
    ratios: dict[str, list[float]] = {"saving": [], "loading": []}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        raw, own = (str(pathlib.Path(folder, name)) for name in ("raw.h5", "own.mdl"))
        calls: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "saving": (lambda: save_raw(raw, arrays), lambda: checkpoint.save(state, own)),
            "loading": (lambda: load_raw(raw), lambda: load(own)),
        }
        for k in range(options.rounds):
            for path in (raw, own):
                pathlib.Path(path).unlink(missing_ok=True)
            for name, pair in calls.items():
                times = [0.0, 0.0]
                # In turns: the first of two is given memory that nobody had before.
                for i in (0, 1) if k % 2 else (1, 0):
                    os.sync()
                    times[i] = seconds(pair[i])
                ratios[name].append(times[1] / times[0])
                print(f"{name}: h5py {times[0]:.2f} s, checkpoint {times[1]:.2f} s", flush=True)
    for name, values in ratios.items():
        print(f"{name}: {statistics.median(values):.2f} of h5py's time")


if __name__ == "__main__":
    main()
