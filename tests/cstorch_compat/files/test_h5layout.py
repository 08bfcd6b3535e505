"""What we write holds every piece of what the original wrote, read with plain h5py: names, attributes, types, bits.

Each recording in `layouts` is a tree with its values, and the attributes and datasets of the file that the original
made of it. Compression and chunks are not part of it: any reader of HDF5 accepts either.
"""

import json
import warnings

import h5py
import numpy as np
import pytest

from cstorch_compat.files import h5read, h5write
from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.run import process
from lazytensor import nn
from lazytensor.core.element_bytes import FILE_DTYPES, encode_elements
from tests.cstorch_compat.files.recordings import GOLDEN, Tensor, describe, recorded

cstorch = get_mirror("cerebras.pytorch")


LAYOUTS = {path.stem: json.loads(path.read_text()) for path in sorted((GOLDEN / "layouts").glob("*.json"))}
METADATA = ".__metadata__"


def parts(tree, path=""):
    """Every value with its key, as (container, label, key); containers that cannot change are walked too."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for label, child in items:
        key = f"{path}.{label}" if path else str(label)
        if isinstance(child, dict | list | tuple):
            yield from parts(child, key)
        else:
            yield tree, label, key


def descriptor(layout, key):
    """What the recorded file says of a value: the name under which it stands, and its description."""
    said = layout["root_attrs"][key + METADATA]
    (name,) = said["__objects__"]
    return name, said[name + METADATA]


def written(name, tmp_path):
    """The path of the file that we make of a recorded tree, with the same objects tied, and the tree."""
    layout = LAYOUTS[name]
    tree = recorded(layout["tree"])
    found = {key: (holder, label) for holder, label, key in parts(tree)}
    for key, (holder, label) in found.items():
        _, said = descriptor(layout, key)
        if said.get("__TYPE__") == "LinkedObject":
            other, there = found[said["key"]]
            holder[label] = other[there]
    path = tmp_path / "t.mdl"
    h5write.write(path, tree, describe)
    return path, {key: holder[label] for key, (holder, label) in found.items()}


def exact(value):
    """An attribute as the recordings tell it: its value and its type."""
    kind = value.dtype if hasattr(value, "dtype") else "str"
    return {"value": value.tolist() if hasattr(value, "tolist") else value, "dtype": str(kind)}


def is_ours(said):
    """Whether a value has a dataset or a plain description, and is neither pickled nor a tensor still to be filled."""
    return said.get("__TYPE__") not in ("ObjectSerializer", "DeferredFullTensor") and not said.get("__BYTES__")


@pytest.mark.parametrize("name", LAYOUTS)
def test_written_file_has_the_recorded_attributes(name, tmp_path):
    path, leaves = written(name, tmp_path)
    wanted = LAYOUTS[name]["root_attrs"]
    mine = {key for key in leaves if is_ours(descriptor(LAYOUTS[name], key)[1])}
    with h5py.File(path) as file:
        assert set(file.attrs) == set(wanted)
        assert file.attrs["__version__"].dtype == np.float64 and file.attrs["__version__"] == wanted["__version__"]
        assert file.attrs["__SUCCESS__"].dtype == np.bool_ and file.attrs["__SUCCESS__"]
        assert file.attrs["__cstorch_version__"] == wanted["__cstorch_version__"]
        assert json.loads(file.attrs["__spec__"]) == wanted["__spec__"]
        for key in mine:
            assert repr(json.loads(file.attrs[key + METADATA])) == repr(
                wanted[key + METADATA]
            )  # NaN, and 1 is not True


@pytest.mark.parametrize("name", LAYOUTS)
def test_written_file_has_the_recorded_datasets(name, tmp_path):
    path, leaves = written(name, tmp_path)
    with h5py.File(path) as file:
        for key, wanted in LAYOUTS[name]["datasets"].items():
            if not is_ours(descriptor(LAYOUTS[name], key)[1]):
                continue
            dataset, leaf = file[key], leaves[key]
            assert list(dataset.shape) == wanted["shape"] and str(dataset.dtype) == wanted["dtype"]
            assert {k: exact(v) for k, v in dataset.attrs.items()} == wanted["attrs"]
            bits = encode_elements(leaf.values, leaf.dtype) if isinstance(leaf, Tensor) else leaf
            assert dataset[()].tobytes() == bits.tobytes()
            assert not isinstance(leaf, Tensor) or dataset.dtype.itemsize == FILE_DTYPES[leaf.dtype].itemsize


@pytest.mark.parametrize("name", LAYOUTS)
def test_written_file_reads_back_bit_for_bit(name, tmp_path):
    path, leaves = written(name, tmp_path)
    read = {}
    tree = h5read.read(path, lambda lazy: read.setdefault(lazy.key, lazy))
    assert set(read) == {k for k, v in leaves.items() if isinstance(v, Tensor | np.ndarray)} - {
        k for k in leaves if descriptor(LAYOUTS[name], k)[1].get("__TYPE__") == "LinkedObject"
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for key, lazy in read.items():
            leaf = leaves[key]
            assert lazy.read().tobytes() == (leaf.values if isinstance(leaf, Tensor) else leaf).tobytes()
    assert type(tree) is type(recorded(LAYOUTS[name]["tree"]))


def test_a_tensor_of_one_value_on_the_wafer_is_written_as_its_value(monkeypatch, tmp_path):
    monkeypatch.setattr(process.RUN, "backend", None)
    cstorch.backend("CSX", artifact_dir=tmp_path)
    huge = cstorch.full((1 << 12, 1 << 12), 2.5)
    model = nn.Linear(3, 2)
    optimizer = cstorch.optim.SGD(cstorch.compile(model).parameters(), lr=0.1, momentum=0.9)
    cstorch.save({"huge": huge, "optimizer": optimizer.state_dict(), "model": model.state_dict()}, tmp_path / "a.mdl")
    with h5py.File(tmp_path / "a.mdl") as file:
        names: list[str] = []
        file.visit(names.append)
        metadata = json.loads(file.attrs["huge.__metadata__"])
    assert sorted(n for n in names if "." in n) == ["model.bias", "model.weight"]
    assert metadata["__objects__"] == ["huge.0"]
    assert metadata["huge.0.__metadata__"]["fill_value"] == 2.5
    found = cstorch.load(tmp_path / "a.mdl")
    assert found["huge"].shape == huge.shape
    assert found["optimizer"]["state"][0]["momentum_buffer"].tolist() == [[0.0] * 3] * 2
