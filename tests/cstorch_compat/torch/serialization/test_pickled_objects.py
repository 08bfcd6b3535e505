"""Whole modules, arrays and older files: what PyTorch has written is read, and no class that nobody has allowed."""

import argparse
import contextlib
import copyreg
import datetime
import decimal
import enum
import fractions
import gc
import io
import pathlib
import pickle
import zipfile
from collections import Counter, defaultdict, deque
from typing import NamedTuple

import numpy as np
import pytest

from cstorch_compat.ckpt import formats
from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.torch.serialization import save_and_load
from cstorch_compat.torch.serialization.pickled_objects import UnsafeGlobal, WeightsOnlyError
from cstorch_compat.torchvision.datasets import folder as folders
from lazytensor import nn
from lazytensor.errors import CheckpointError
from lazytensor.functional import creation
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


def bytes_of(value, is_zip=True):
    buffer = io.BytesIO()
    save_and_load.save(value, buffer, _use_new_zipfile_serialization=is_zip)
    buffer.seek(0)
    return buffer


def pickled(value, protocol=2):
    """A zip file as PyTorch's, whose description is Python's own pickle of a value."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(value, protocol=protocol))
        archive.writestr("archive/version", "3\n")
    buffer.seek(0)
    return buffer


@pytest.fixture(autouse=True)
def nothing_allowed():
    save_and_load.clear_safe_globals()
    yield
    save_and_load.clear_safe_globals()


def test_files_of_pytorch_from_before_the_zip_format_are_read():
    recorded.check(get_mirror("torch"), save_and_load.load(recorded.HERE / "torch_older.pt"))


def test_modules_and_arrays_of_pytorch_are_read():
    found = save_and_load.load(recorded.HERE / "torch_module.pt", weights_only=False)
    assert [type(m).__name__ for m in found["model"]] == ["Linear", "LSTM", "Identity"]
    out, _ = found["model"][1](found["model"][0](creation.ones(1, 1, 2)))
    assert tuple(out.shape) == (1, 1, 2) and out.requires_grad
    assert found["array"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (found["number"], found["set"]) == (np.float32(2.5), {1, 2})


@pytest.mark.parametrize("is_zip", [True, False])
def test_a_module_comes_back_with_its_values_buffers_and_settings(is_zip):
    model = Net(3)
    found = save_and_load.load(bytes_of(model, is_zip), weights_only=False)
    x = creation.ones(1, 2)
    assert found(x).tolist() == model(x).tolist() and found.table.tolist() == [0, 1, 2]
    assert list(found.state_dict()) == list(model.state_dict()) and found.fc.weight.requires_grad


def test_a_class_outside_the_list_is_named():
    with pytest.raises(UnsafeGlobal, match=r"Net was not an allowed global") as caught:
        save_and_load.load(bytes_of(Net()))
    assert isinstance(caught.value, pickle.UnpicklingError) and "add_safe_globals([Net])" in caught.value.hint
    assert type(save_and_load.load(bytes_of(Net()), weights_only=False)) is Net


def test_classes_and_functions_that_a_script_allows_are_read_with_weights_only():
    core = np._core.multiarray
    allowed = [Net, nn.Linear, nn.functional.relu, np.ndarray, np.dtype, core._reconstruct]
    with save_and_load.safe_globals(allowed):
        assert save_and_load.load(bytes_of(Net())).table.tolist() == [0, 1, 2]
    for missing in range(len(allowed)):
        with save_and_load.safe_globals(allowed[:missing] + allowed[missing + 1 :]), pytest.raises(UnsafeGlobal):
            save_and_load.load(bytes_of(Net()))


FORMATS = zipfile.ZipFile(recorded.HERE / "torch_formats.zip")


@pytest.mark.parametrize("container", ["zip", "legacy"])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_of_pytorch_is_read(protocol, container):
    expected = recorded.python_values(get_mirror("torch"))
    found = save_and_load.load(io.BytesIO(FORMATS.read(f"values_{protocol}_{container}")), weights_only=False)
    assert list(found) == list(expected)
    for key, value in expected.items():
        # NumPy turns big-endian numbers into native ones, except in protocol 5.
        assert repr(found[key]) == repr(value) or (key == "swapped" and (found[key] == value).all()), key
        assert type(found[key]) is type(value), key
    assert found["lists"].default_factory is list and found["last"].maxlen == 3


@pytest.mark.parametrize("container", ["zip", "legacy"])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_weights_only_reads_what_pytorch_reads_with_it(protocol, container):
    tensors = io.BytesIO(FORMATS.read(f"tensors_{protocol}_{container}"))
    if protocol > 3:
        with pytest.raises(WeightsOnlyError, match=r"Unsupported operand 149"):
            save_and_load.load(tensors)
        tensors.seek(0)
    found = save_and_load.load(tensors, weights_only=protocol < 4)
    assert found["weight"].tolist() == [[0, 1, 2], [3, 4, 5]] and found["counts"] == Counter({2: 2, 4: 1})
    assert found._metadata == {"": {"version": 1}}
    with pytest.raises(WeightsOnlyError):
        save_and_load.load(io.BytesIO(FORMATS.read(f"values_{protocol}_{container}")))


def test_each_load_of_an_open_legacy_file_gives_the_next_object():
    for stream in (io.BytesIO(FORMATS.read("several")), io.BytesIO()):
        if not stream.getvalue():
            for step in range(3):
                value = {"step": step, "w": creation.full((step + 1,), float(step))}
                save_and_load.save(value, stream, _use_new_zipfile_serialization=False)
            stream.seek(0)
        for step in range(3):
            found = save_and_load.load(stream)
            assert found["step"] == step and found["w"].tolist() == [step] * (step + 1)
        with pytest.raises(EOFError):
            save_and_load.load(stream)


def test_several_archives_in_one_open_file_are_refused():
    stream = io.BytesIO()
    save_and_load.save({"step": 1}, stream)
    save_and_load.save({"step": 2}, stream)
    stream.seek(0)
    with pytest.raises(CheckpointError, match=r"another archive(.|\n)*_use_new_zipfile_serialization=False"):
        save_and_load.load(stream)


def test_whole_module_of_the_legacy_format_is_read():
    stream = io.BytesIO(FORMATS.read("module"))
    with pytest.raises(UnsafeGlobal):
        save_and_load.load(stream)
    stream.seek(0)
    found = save_and_load.load(stream, weights_only=False)
    assert type(found) is nn.Linear and tuple(found(creation.ones(1, 2)).shape) == (1, 1)


def test_cstorch_load_reads_every_format_of_torch_save(tmp_path):
    load, path = get_mirror("cerebras.pytorch").load, tmp_path / "a.pt"
    for name in ("tensors_2_legacy", "tensors_4_legacy", "tensors_4_zip"):
        path.write_bytes(FORMATS.read(name))
        assert load(path)["weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    path.write_bytes(recorded.tar_file())
    assert load(path)["row"].tolist() == [3, 4, 5]
    path.write_bytes(FORMATS.read("module"))
    assert type(load(path)) is nn.Linear
    with pytest.raises(CheckpointError, match=r"before PyTorch 1\.6"):
        formats.read(str(path))


def test_tar_file_of_pytorch_0_1_is_read(tmp_path):
    path = tmp_path / "old.pt"
    path.write_bytes(recorded.tar_file())
    with pytest.raises(CheckpointError, match=r"legacy .tar format"):
        save_and_load.load(path)
    found = save_and_load.load(path, weights_only=False)
    assert found["w"].tolist() == [[0, 1, 2], [3, 4, 5]] and found["n"] == 3
    found["w"][1, 0] = 9
    assert found["row"].tolist() == [9, 4, 5]
    for size in (600, 1600, 2500, 3200):
        path.write_bytes(recorded.tar_file()[:size])
        with pytest.raises(CheckpointError):
            save_and_load.load(path, weights_only=False)


def test_whole_file_of_tensors_without_a_type_here_is_refused_by_their_kind():
    with pytest.raises(CheckpointError, match=r"valid, but contains sparse tensors"):
        save_and_load.load(io.BytesIO(FORMATS.read("sparse")))


def test_pickle_that_torch_did_not_write_is_named():
    with pytest.raises(CheckpointError, match=r"Invalid magic number; corrupt file\?(.|\n)*pickle\.load"):
        save_and_load.load(io.BytesIO(pickle.dumps({"a": 1}, protocol=2)))


class Point(NamedTuple):
    """A class of a user's."""

    x: int
    y: float


class Color(enum.Enum):
    """A class of a user's."""

    RED = 1


class Config(dict):
    """A class of a user's."""


@pytest.mark.parametrize(
    "value",
    [
        Counter("aab"),
        defaultdict(int, a=1),
        deque([1, 2], maxlen=2),
        frozenset([1]),
        Point(1, 2.0),
        Color.RED,
        Config(a=1),
        np.float64(1.5),
        np.int64(3),
        2**3000,
        slice(1, 2),
        ...,
        datetime.datetime(2020, 1, 2, 3, 4),
        decimal.Decimal("1.5"),
        fractions.Fraction(1, 3),
        pathlib.PurePosixPath("a/b"),
        argparse.Namespace(lr=0.1),
        np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array(["2020-01-02"], dtype="M8[D]"),
    ],
)
@pytest.mark.parametrize("is_zip", [True, False])
def test_values_keep_their_class(value, is_zip):
    found = save_and_load.load(bytes_of({"value": value}, is_zip), weights_only=False)["value"]
    assert type(found) is type(value) and repr(found) == repr(value)


def test_meta_tensors_come_back_without_values():
    found = save_and_load.load(bytes_of(creation.empty(2, 3, device="meta")))
    assert found.device.type == "meta" and tuple(found.shape) == (2, 3)


class Scripted:
    """A class of a user's whose state is set by code."""

    def __setstate__(self, state):
        self.state = state


def test_class_whose_reading_runs_code_is_refused_with_that_reason():
    with pytest.raises(UnsafeGlobal, match=r"Scripted, which runs code when it is read(.|\n)*add_safe_globals"):
        save_and_load.load(bytes_of(Scripted()), weights_only=False)


class RunningModule(nn.Module):
    def __setstate__(self, state):
        print("executed")


class DroppedModule(nn.Module):
    def __del__(self):
        print("executed")


class RunningList(list):
    def append(self, item):
        print("executed")

    extend = append


class _Missing(enum.Enum):
    @classmethod
    def _missing_(cls, value):
        print("executed")


class RunningEnum(_Missing):
    A = 1


class RunningKey:
    def __hash__(self):
        print("executed")
        return 1


class RunningLookup:
    def __getattr__(self, name):
        print("executed", name)
        raise AttributeError(name)


class Asked:
    """Pickles as a call of a function with arguments, and a state."""

    def __init__(self, function, *arguments, state=None):
        self.call = function, arguments, state

    def __reduce__(self):
        return self.call


def made(kind):
    """What pickles as an object of a class with a state."""
    return Asked(copyreg._reconstructor, kind, object, None, state={"training": True})


@pytest.mark.slow
@pytest.mark.parametrize(
    "thing",
    [made(RunningModule), made(DroppedModule), RunningList([1, 2]), Asked(RunningEnum, 7), made(RunningLookup)],
    ids="module's state, module's end, list, enum, attribute".split(", "),
)
def test_code_of_the_scripts_classes_is_not_executed(thing, capsys):
    raw = pickled(thing)
    capsys.readouterr()
    with contextlib.suppress(CheckpointError):
        save_and_load.load(raw, weights_only=False)
    gc.collect()
    assert capsys.readouterr().out == ""


def test_key_that_is_hashed_by_code_of_the_script_is_refused(capsys):
    raw = pickled({RunningKey(): 1})
    capsys.readouterr()
    with pytest.raises(CheckpointError, match="RunningKey, a class that defines its own hash function"):
        save_and_load.load(raw, weights_only=False)
    assert capsys.readouterr().out == ""


def test_legacy_file_is_not_mapped_into_memory(tmp_path):
    save_and_load.save({}, tmp_path / "a.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match=r"mmap can only be used"):
        save_and_load.load(tmp_path / "a.pt", mmap=True)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("options", [{}, {"weights_only": False}])
def test_nothing_of_a_file_is_executed(options, protocol, capsys):
    with pytest.raises(CheckpointError):
        save_and_load.load(pickled(Trap(), protocol), **options)
    assert capsys.readouterr().out == ""


def test_an_older_file_that_is_cut_is_refused():
    raw = (recorded.HERE / "torch_older.pt").read_bytes()
    for length in (10, len(raw) // 2, len(raw) - 3):
        with pytest.raises(CheckpointError):
            save_and_load.load(io.BytesIO(raw[:length]))


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
