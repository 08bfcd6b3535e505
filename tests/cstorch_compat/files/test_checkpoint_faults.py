"""Checkpoints under fire: killed writers, full disks and damaged files lose nothing that was saved before."""

import gzip
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest

import lazytensor as lt
from cstorch_compat.__main__ import main
from cstorch_compat.ckpt.convert import convert
from cstorch_compat.files import checksums, h5_file_object, h5write
from cstorch_compat.files.h5_file_object import BackgroundWriter, H5Sink
from cstorch_compat.files.rawfile import RawFile
from cstorch_compat.files.safetensors import read as read_safetensors
from cstorch_compat.names.mirror_modules import get_mirror
from lazytensor.errors import CheckpointError
from lazytensor.system import atomic_files
from tests.conftest import python
from tests.cstorch_compat.files.recordings import GOLDEN

cstorch = get_mirror("cerebras.pytorch")


# Children save under new names and replace one file of a fixed name, until they are killed at a random moment.
KILLED = """
import os, random, signal, time
import numpy as np
from cstorch_compat.files import h5read, h5write, safetensors
from lazytensor.core import dtype
from lazytensor.core.file_array import LazyArray
random.seed(7)
KEYS = [f"k{i}" for i in range(3)]

def array(key, value):
    return LazyArray(key, (20000,), dtype.float32, np.dtype("<f4"), True, "", lambda: np.full(20000, value, "<f4"))

def tree(value):
    return {key: array(key, value) for key in KEYS}

def save_for_ever(start):
    for step in range(start, start + 10000):
        h5write.write(f"step_{step}.mdl", tree(step), lambda leaf: leaf)
        h5write.write("latest.mdl", tree(step), lambda leaf: leaf, replace=True)
        safetensors.write("latest.safetensors", tree(step), replace=True)

def whole(arrays):
    assert list(arrays) == KEYS
    (value,) = {float(v) for a in arrays.values() for v in np.unique(a.read())}
    return value

h5write.write("latest.mdl", tree(-1), lambda leaf: leaf)
safetensors.write("latest.safetensors", tree(-1))
caught = steps = 0
for trial in range(20):
    child = os.fork()
    if not child:
        save_for_ever(trial * 10000)
    time.sleep(random.uniform(0.01, 0.15))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    caught += any(name.endswith(".tmp") for name in os.listdir())
    for name in os.listdir():
        if name.startswith("step_") and name.endswith(".mdl"):
            assert whole(h5read.read(name, lambda lazy: lazy)) == int(name[5:-4])
            steps += 1
            os.unlink(name)
        elif name.endswith(".tmp"):
            os.unlink(name)
    whole(h5read.read("latest.mdl", lambda lazy: lazy))
    whole(safetensors.read("latest.safetensors"))
print(caught, steps)
"""


@pytest.mark.process
def test_killed_writers_leave_whole_files_under_every_name(tmp_path):
    done = python("-c", KILLED, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    caught, steps = map(int, done.stdout.split())
    assert caught and steps  # or the moments were not random: in the middle of a file, and between files


# The largest size of a file stands for the room on the disk; a write beyond it fails as on a full one.
FULL = """
import os, pathlib, resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
import cstorch_compat; cstorch_compat.install()
import torch
import cerebras.pytorch as cstorch
from cstorch_compat.__main__ import main
from cstorch_compat.ckpt.convert import convert

tree = {"model": {"first": torch.ones(100, 10), "second": torch.full((50, 50), 2.0)}, "step": 1}
cstorch.save(tree, "before.mdl")
SAVES = {"new.mdl": lambda: cstorch.save(tree, "new.mdl")}
for suffix in ("mdl", "pt", "npz", "safetensors"):
    convert("before.mdl", f"out.{suffix}", to=None, key="model", flatten=False, force=False)
    SAVES[f"out.{suffix}"] = lambda name=f"out.{suffix}": convert(
        "before.mdl", name, to=None, key="model", flatten=False, force=True
    )
cstorch.save(tree, "new.mdl")
sizes = {name: os.path.getsize(name) for name in SAVES}
os.unlink("new.mdl")

def files():
    return {path.name: path.read_bytes() for path in pathlib.Path().iterdir()}

before = files()
for name, save in SAVES.items():
    for room in (0, 1, 700, 5000, sizes[name] // 2, sizes[name] - 1):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        try:
            save()
        except RuntimeError as e:
            text = str(e)
            assert "File too large" in text and "Free disk space" in text, text
        else:
            raise AssertionError(f"{name} fits into {room} bytes")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert files() == before, (name, room)
    save()
    before = files()
loaded = cstorch.load("before.mdl")
assert loaded["model"]["second"].sum().item() == 5000 and loaded["step"] == 1

# Arrays that are large enough to be written many at a time: the first that does not fit is named.
large = {f"k{i}": torch.full((1 << 16,), float(i)) for i in range(4)}
for first in range(4):
    resource.setrlimit(resource.RLIMIT_FSIZE, ((1 << 18) * first + (1 << 17), resource.RLIM_INFINITY))
    try:
        cstorch.save(large, "large.mdl")
    except RuntimeError as e:
        assert f"'k{first}' cannot be written" in str(e) and "File too large" in str(e), str(e)
    else:
        raise AssertionError("it fits")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert files() == before
"""


@pytest.mark.process
def test_full_disk_is_an_error_that_leaves_all_other_files_and_no_part_of_the_new_one(tmp_path):
    done = python("-c", FULL, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_folder_that_takes_no_files_is_an_error_of_ours(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(CheckpointError, match=r"t\.mdl' cannot be written: Permission denied\n"):
        h5write.write(tmp_path / "t.mdl", {"a": 1}, lambda leaf: None)
    assert list(tmp_path.iterdir()) == []


def damaged(directory):
    """A recorded file whose only compressed chunk lost its last block header."""
    path = Path(directory) / "t.mdl"
    path.write_bytes((GOLDEN / "dtype_float32.mdl").read_bytes())
    with h5py.File(path, "r+") as file:
        file["x"].id.write_direct_chunk((0, 0), b"\xff" * 40, 0)
    return path


@pytest.mark.process
def test_corrupted_chunk_is_an_error_with_the_tensor_and_the_file_and_what_to_do(tmp_path):
    path = damaged(tmp_path)
    loaded = cstorch.load(path)["x"]
    with pytest.raises(CheckpointError, match=r"t\.mdl: 'x' cannot be read: damaged: .*\n  Restore the file") as caught:
        loaded.sum().item()
    assert isinstance(caught.value, RuntimeError)
    with pytest.raises(CheckpointError, match=r"t\.mdl: 'x' cannot be read"):
        convert(str(path), str(tmp_path / "o.pt"), to=None, key=None, flatten=False, force=False)
    assert [p.name for p in tmp_path.iterdir()] == ["t.mdl"]


@pytest.mark.process
@pytest.mark.parametrize("suffix", ["pt", "safetensors", "npz", "mdl"])
def test_truncated_file_is_an_error_at_once(suffix, tmp_path):
    cstorch.save({"a": lt.ones(100), "b": lt.zeros(7)}, tmp_path / "s.h5")
    path = tmp_path / f"t.{suffix}"
    convert(str(tmp_path / "s.h5"), str(path), to=None, key=None, flatten=False, force=False)
    whole = path.stat().st_size
    for size in {0, 3, 8, 9, whole // 3, whole - 100, whole - 1}:
        path.write_bytes(path.read_bytes()[:whole])
        os.truncate(path, size)
        for read in (cstorch.load, lambda p: convert(str(p), str(tmp_path / "o.h5"), **OPTIONS)):
            with pytest.raises(RuntimeError, match=r"t\."):
                read(path)
        os.truncate(path, 0)
        path.write_bytes(b"")
        convert(str(tmp_path / "s.h5"), str(path), to=None, key=None, flatten=False, force=True)
    assert not (tmp_path / "o.h5").exists()


OPTIONS = {"to": None, "key": None, "flatten": False, "force": False}


def test_wrong_shapes_on_load_name_the_key_and_both_shapes(tmp_path):
    small, large = lt.nn.Linear(3, 2), lt.nn.Linear(4, 2)
    cstorch.save({"model": large.state_dict()}, tmp_path / "t.mdl")
    before = small.weight.tolist()
    with pytest.raises(RuntimeError) as caught:
        small.load_state_dict(cstorch.load(tmp_path / "t.mdl")["model"])
    text = str(caught.value)
    assert "weight" in text and "[2, 4]" in text and "[2, 3]" in text and "Build the model" in text
    assert "test_checkpoint_faults.py" in text
    # As in PyTorch, the bias, which fits, is loaded.
    assert small.weight.tolist() == before and small.bias.tolist() == large.bias.tolist()


@pytest.mark.process
def test_pickled_values_stay_closed_and_the_others_can_be_used():
    with pytest.warns(UserWarning, match="never loaded.*: f, i, b$"):
        loaded = cstorch.load(GOLDEN / "numpy.mdl")
    assert loaded["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert repr(loaded["f"]) == "DeferredObject('f', pickled and not opened)"
    for use in (float, bool, str, lambda x: x + 1, lambda x: x == 1.5, lambda x: x.item(), np.asarray, list):
        with pytest.raises(CheckpointError, match=r"'f' is a pickled Python object.*\n  Save the checkpoint again"):
            use(loaded["f"])
    with pytest.raises(TypeError, match="'f'"):
        cstorch.save({"f": loaded["f"]}, "never.mdl")


def test_bytes_of_a_mapped_file_may_go_away_without_killing_the_process(tmp_path):
    """What a memory map would answer with SIGBUS."""
    cstorch.save({"a": lt.ones(1 << 14)}, tmp_path / "s.h5")
    convert(str(tmp_path / "s.h5"), str(tmp_path / "t.safetensors"), **OPTIONS)
    lazy = read_safetensors(str(tmp_path / "t.safetensors"))["a"]
    os.truncate(tmp_path / "t.safetensors", 5000)
    with pytest.raises(CheckpointError, match="'a' cannot be read"):
        lazy.read()


TREE = {"a": np.arange(40, dtype="f4").reshape(5, 8), "b": np.arange(9), "s": "text", "n": 3}


def saved(path: Path) -> Path:
    cstorch.save(TREE, path)
    return path


def test_every_flipped_byte_of_a_checkpoint_is_an_error_or_changes_nothing(tmp_path):
    whole = saved(tmp_path / "t.mdl").read_bytes()
    path = tmp_path / "flipped.mdl"
    silent = []
    for at in [*range(0, len(whole), 41), *range(len(whole) - 20, len(whole) - 8)]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            tree = cstorch.load(path)
            same = all(np.array_equal(tree[k], v) for k, v in TREE.items())
        except (RuntimeError, KeyError):
            continue
        if not same:
            silent.append(at)
    assert not silent


@pytest.mark.parametrize("begin, end", [(0, 80), (8, 160), (40, 80), (0, 200), (-8, 8)])
def test_a_checksum_of_other_bytes_than_those_of_the_array_is_an_error(begin, end, tmp_path):
    path = saved(tmp_path / "t.mdl")
    with h5py.File(path) as file:
        at = file["a"].id.get_offset()
    # Replace the entry of the array by one for another range, in a trailer whose other checksums are right.
    file = RawFile(str(path))
    trailer = checksums.read_trailer(file)
    data = path.read_bytes()[: trailer.size]
    arrays = dict(trailer.arrays)
    del arrays[at, 160]
    arrays[at + begin, end - begin] = zlib.crc32(data[at + begin : at + end])
    rest = checksums.compute_rest_checksum(file.descriptor, arrays, trailer.size)
    path.write_bytes(data + checksums.encode_trailer(checksums.Trailer(trailer.size, arrays, rest)))
    with pytest.raises(RuntimeError, match="'a' cannot be read: damaged: its checksum is for another number of bytes"):
        cstorch.load(path)["a"].numpy()


def test_an_array_without_a_checksum_is_verified_with_the_tables(tmp_path):
    path = saved(tmp_path / "t.mdl")
    trailer = checksums.read_trailer(RawFile(str(path)))
    data = path.read_bytes()[: trailer.size]
    tail = checksums.encode_trailer(checksums.Trailer(trailer.size, {}, zlib.crc32(data)))
    path.write_bytes(data + tail)
    assert np.array_equal(cstorch.load(path)["a"], TREE["a"])
    with h5py.File(path) as file:
        at = file["a"].id.get_offset()
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] + tail)
    with pytest.raises(RuntimeError, match="the checksum of its tables does not match"):
        cstorch.load(path)


@pytest.mark.process
def test_a_checkpoint_that_hdf5_changes_is_read_without_checksums(tmp_path):
    path = saved(tmp_path / "t.mdl")
    with h5py.File(path, "r+") as file:
        file["b"][...] = 7
        file.attrs["note"] = "edited"
    assert cstorch.load(path)["b"].tolist() == [7] * 9


def test_verify_says_which_array_is_damaged_and_what_there_is_to_check(tmp_path, capsys):
    path = saved(tmp_path / "t.mdl")
    assert main(["ckpt", "verify", str(path)]) == 0
    assert "2 of 2 arrays are intact" in capsys.readouterr().out
    with h5py.File(path) as file:
        at = file["a"].id.get_offset()
    whole = path.read_bytes()
    path.write_bytes(whole[: at + 5] + bytes([whole[at + 5] ^ 1]) + whole[at + 6 :])
    assert main(["ckpt", "verify", str(path)]) == 1
    assert "a: " in (out := capsys.readouterr().out) and "1 of 2" in out
    path.write_bytes(whole[:300] + b"\xff\xfe" + whole[302:])
    assert main(["ckpt", "verify", str(path)]) == 2
    assert "the checksum of its tables does not match" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["pt", "npz", "safetensors"])
def test_verify_finds_a_flipped_byte_in_other_formats(suffix, tmp_path, capsys):
    path = tmp_path / f"t.{suffix}"
    source = tmp_path / "s.h5"
    cstorch.save({k: lt.tensor(v) for k, v in TREE.items() if k in "ab"}, source)
    convert(str(source), str(path), to=None, key=None, flatten=False, force=False)
    assert main(["ckpt", "verify", str(path)]) == 0
    assert "2 of 2 arrays" in capsys.readouterr().out
    whole = path.read_bytes()
    at = whole.index(TREE["a"].tobytes()) + 6
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    # 2 where the first look at an array of a zip file reads all of it.
    assert main(["ckpt", "verify", str(path)]) == (2 if suffix == "npz" else 1)
    assert "a" in (said := "".join(capsys.readouterr())) and ("CRC" in said or "checksum" in said)


@pytest.mark.process
def test_verify_says_where_a_file_has_no_checksums(tmp_path, capsys):
    path = saved(tmp_path / "t.mdl")
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b'{"size":')])
    assert main(["ckpt", "verify", str(path)]) == 0
    assert "0 of 2 arrays have a checksum" in capsys.readouterr().out


@pytest.mark.process
@pytest.mark.parametrize("start", [lambda p: cstorch.load(p), lambda p: cstorch.save(TREE, p.with_name("new.mdl"))])
def test_what_a_killed_save_has_left_is_gone_after_the_next_start(start, tmp_path):
    path = saved(tmp_path / "t.mdl")
    own = atomic_files.temporary_name(str(path))
    dead = own.replace(f".{os.getpid()}.", f".{nobody()}.")
    foreign = own.replace(f".{os.getpid()}.", ".elsewhere.1.")
    for name in (own, dead, foreign, str(path) + ".tmp", str(tmp_path / "mine.1.tmp")):
        Path(name).write_bytes(b"half")
    start(path)
    assert not os.path.exists(dead)
    assert os.path.exists(own) and os.path.exists(foreign) and len(list(tmp_path.glob("*.tmp"))) == 4


def nobody() -> int:
    """The number of a process that is over."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_an_interrupt_while_a_file_is_opened_leaves_nothing_to_hdf5(tmp_path, monkeypatch):
    opened = []

    class Interrupted(h5py.File):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            # As a signal does it: the caller never gets what was opened.
            if not opened:
                opened.append(self.id)
                raise KeyboardInterrupt

    monkeypatch.setattr("cstorch_compat.files.h5write.h5py.File", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        cstorch.save({"x": 1}, tmp_path / "x.mdl")
    assert not opened[0].valid and not list(tmp_path.iterdir())


class Placed:
    """A dataset whose place is the begin of the file."""

    def write(self, memory, file, array):
        pass

    def get_offset(self):
        return 0


def test_an_interrupt_of_an_error_leaves_nobody_who_writes(tmp_path, monkeypatch):
    """Who went on would write into whatever file is given the descriptor next."""
    begun, sent, over, put = threading.Event(), threading.Event(), [], H5Sink.put_pieces

    def slow(sink, pieces):
        begun.set()
        # However busy the machine is, the interrupt comes while something is written.
        sent.wait()
        time.sleep(0.1)
        try:
            put(sink, pieces)
        finally:
            over.append(pieces)

    def interrupt():
        time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        sent.set()

    monkeypatch.setattr(H5Sink, "put_pieces", slow)
    monkeypatch.setattr(h5_file_object, "_MIN_BATCH_BYTES", 1)
    # A shell that runs the tests in the background has them ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with H5Sink(str(tmp_path / "a")) as sink:
            with pytest.raises(KeyboardInterrupt), BackgroundWriter(sink) as beside:
                beside.put("x", np.zeros(1 << 17, np.uint8), Placed())
                begun.wait()
                threading.Thread(target=interrupt).start()
                raise ValueError("an error of the caller")
            assert len(over) == 1
    finally:
        signal.signal(signal.SIGINT, before)


def test_verify_says_what_an_idx_file_lets_one_know(tmp_path, capsys):
    whole = struct.pack(">4B3I", 0, 0, 8, 3, 2, 3, 3) + bytes(18)
    plain, packed = tmp_path / "train-images-idx3-ubyte", tmp_path / "train-images-idx3-ubyte.gz"
    plain.write_bytes(whole)
    packed.write_bytes(gzip.compress(whole))
    assert [main(["ckpt", "verify", str(path)]) for path in (plain, packed)] == [0, 0]
    told = capsys.readouterr().out
    assert "no checksum" in told.splitlines()[0] and "the checksum of the" in told.splitlines()[1]
    plain.write_bytes(whole + b"\0")
    changed = bytearray(packed.read_bytes())
    changed[-5] ^= 1  # in gzip's checksum
    packed.write_bytes(changed)
    assert [main(["ckpt", "verify", str(path)]) for path in (plain, packed)] == [2, 2]
    assert "19 bytes of values, but its header requires 18" in capsys.readouterr().err
