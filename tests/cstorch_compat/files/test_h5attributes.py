"""Attributes by the lower interface of h5py: the bytes are those of h5py's own."""

import h5py
import numpy as np

from cstorch_compat.files.h5attributes import put_attribute, put_text

VALUES = {
    "tensor": True,
    "plain": False,
    "shapes": [[32, 1024]],
    "scalar": [[]],
    "three": [[1, 2, 3]],
    "dtypes": ["torch.float32"],
    "code": [3],
    "one": [1],
    "kind": "TorchTensorSerializer",
    "snow": "Schnee \N{SNOWMAN}",
}


def write(path, put) -> bytes:
    with h5py.File(path, "w", libver=("v108", "latest")) as file:
        for k in range(12):
            dataset = file.create_dataset(f"x{k}", data=np.arange(5, dtype="f4"))
            for name, value in VALUES.items():
                put(dataset, name, value)
    return path.read_bytes()


def test_the_bytes_are_those_that_h5py_writes(tmp_path):
    by_h5py = write(tmp_path / "one.h5", lambda owner, name, value: owner.attrs.__setitem__(name, value))
    assert write(tmp_path / "two.h5", put_attribute) == by_h5py


def test_a_text_is_read_back(tmp_path):
    text = "{}" * 40_000  # longer than an attribute of the oldest files
    with h5py.File(tmp_path / "one.h5", "w", libver=("v108", "latest")) as file:
        put_text(file, "x.__metadata__", text)
    with h5py.File(tmp_path / "one.h5") as file:
        assert file.attrs["x.__metadata__"] == text
