"""Whole modules, arrays and older files: what PyTorch has written is read, and no class that nobody has allowed."""

import io
import pickle
import zipfile

import numpy as np
import pytest

from cstorch_compat.names.mirror import mirror
from cstorch_compat.torch import saving
from cstorch_compat.torch.pickled_objects import UnsafeGlobal
from cstorch_compat.torchvision import folders
from lazytensor import nn
from lazytensor.errors import CheckpointError
from lazytensor.functions import creation
from tests.golden import record_torch_files as recorded


class Net(nn.Module):
    """A module of a user's."""

    def __init__(self, width=2):
        super().__init__()
        self.fc, self.act = nn.Linear(2, width), nn.functional.relu
        self.register_buffer("shift", creation.ones(width))
        self.table = np.arange(3)

    def forward(self, x):
        return self.act(self.fc(x)) + self.shift


class Trap:
    """A class whose reading would run code."""

    def __reduce__(self):
        return print, ("executed",)


def bytes_of(value):
    buffer = io.BytesIO()
    saving.save(value, buffer)
    buffer.seek(0)
    return buffer


@pytest.fixture(autouse=True)
def nothing_allowed():
    saving.clear_safe_globals()
    yield
    saving.clear_safe_globals()


def test_files_of_pytorch_from_before_the_zip_format_are_read():
    recorded.check(mirror("torch"), saving.load(recorded.HERE / "torch_older.pt"))


def test_modules_and_arrays_of_pytorch_are_read():
    found = saving.load(recorded.HERE / "torch_module.pt", weights_only=False)
    assert [type(m).__name__ for m in found["model"]] == ["Linear", "LSTM", "Identity"]
    out, _ = found["model"][1](found["model"][0](creation.ones(1, 1, 2)))
    assert tuple(out.shape) == (1, 1, 2) and out.requires_grad
    assert found["array"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (found["number"], found["set"]) == (np.float32(2.5), {1, 2})


def test_a_module_comes_back_with_its_values_buffers_and_settings():
    model = Net(3)
    with saving.safe_globals([Net]):
        found = saving.load(bytes_of(model))
    x = creation.ones(1, 2)
    assert found(x).tolist() == model(x).tolist() and found.table.tolist() == [0, 1, 2]
    assert list(found.state_dict()) == list(model.state_dict()) and found.fc.weight.requires_grad


def test_a_class_outside_the_list_is_named():
    with pytest.raises(UnsafeGlobal, match=r"Net was not an allowed global") as caught:
        saving.load(bytes_of(Net()))
    assert isinstance(caught.value, pickle.UnpicklingError) and "add_safe_globals([Net])" in caught.value.hint
    assert type(saving.load(bytes_of(Net()), weights_only=False)) is Net


@pytest.mark.parametrize("options", [{}, {"weights_only": False}])
def test_nothing_of_a_file_is_executed(options, capsys):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Trap(), protocol=2))
        archive.writestr("archive/version", "3\n")
    buffer.seek(0)
    with pytest.raises(CheckpointError):
        saving.load(buffer, **options)
    assert capsys.readouterr().out == ""


def test_an_older_file_that_is_cut_is_refused():
    raw = (recorded.HERE / "torch_older.pt").read_bytes()
    for length in (10, len(raw) // 2, len(raw) - 3):
        with pytest.raises(CheckpointError):
            saving.load(io.BytesIO(raw[:length]))


def test_cifar_files_are_read_without_running_a_pickle(tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    pixels = np.arange(2 * 3072, dtype=np.uint8).reshape(2, 3072)
    for name in (*folders.CIFAR10.parts[True], *folders.CIFAR10.parts[False]):
        (folder / name).write_bytes(pickle.dumps({"data": pixels, "labels": [3, 1]}, protocol=2))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcdefghij")}, protocol=2))
    found = folders.CIFAR10(tmp_path, train=True)
    image, label = found[3]
    assert (len(found), image.size, label, found.classes[1]) == (10, (32, 32), 1, "b")
    (folder / "test_batch").write_bytes(pickle.dumps(Trap(), protocol=2))
    with pytest.raises(CheckpointError):
        folders.CIFAR10(tmp_path, train=False)
