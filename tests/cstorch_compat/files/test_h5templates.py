"""Datasets that are copied from one of their kind are as h5py makes them one by one."""

import h5py
import numpy as np

from cstorch_compat.files import h5read, h5write
from lazytensor.core import dtype as dtypes
from tests.cstorch_compat.files.recordings import Tensor, describe


def test_datasets_of_one_kind_are_alike_and_as_h5py_makes_them(tmp_path):
    """A second one of a kind is copied, whatever its key, and large ones are written beside."""
    rows = np.arange(60_000, dtype=np.float32).reshape(200, 300)
    arrays = [rows, rows.T, rows[:2], np.float32(3), rows[:0], rows > 5, rows.astype(np.int64)]
    keys = ("x{}", "a/b{}", "Schnee \N{SNOWMAN}{}")
    kinds = {dtype.host: dtype for dtype in (dtypes.bool_, dtypes.int64, dtypes.float32)}
    tree = {k.format(i): Tensor(np.asarray(a), kinds[a.dtype]) for i, a in enumerate(arrays) for k in keys}
    h5write.write(tmp_path / "t.mdl", tree, describe)
    with h5py.File(tmp_path / "t.mdl") as file, h5py.File(tmp_path / "by_hand.h5", "w") as own:
        for key, tensor in tree.items():
            dataset, expected = file[key], own.create_dataset(key, data=tensor.values)
            assert dataset.dtype == expected.dtype and dataset.shape == expected.shape and dataset.chunks is None
            assert np.array_equal(dataset[()], expected[()])
            for name, value in file[key].attrs.items():
                expected.attrs[name] = value
                stored, by_hand = (a.get_id(name).get_type() for a in (dataset.attrs, expected.attrs))
                assert stored.equal(by_hand) and np.array_equal(value, expected.attrs[name])
            assert dataset.attrs["shapes"].tolist() == [list(tensor.values.shape)]
    loaded = h5read.read(tmp_path / "t.mdl", lambda lazy: lazy)
    assert all(np.array_equal(loaded[key].read(), tensor.values) for key, tensor in tree.items())
    assert all(lazy.is_checked for lazy in loaded.values())
