"""Files without our checksums are read in a process first: it may hang or die, and this one goes on."""

import os
import select
import signal
import time

import pytest

import lazytensor as lt
from cstorch_compat.files import checkpoint, h5read, trial_process
from lazytensor.errors import CheckpointError

pytestmark = pytest.mark.process


@pytest.fixture
def bare(tmp_path):
    """A good file as another program writes it: without the trailer of checksums."""
    path = tmp_path / "bare.mdl"
    checkpoint.save({"weight": lt.arange(6.0), "step": 3}, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(b'{"size":')])
    return path


def harmful(monkeypatch, harm):
    """Let reading do harm in every process but this one."""
    read = h5read._read_leaves
    here = os.getpid()
    monkeypatch.setattr(h5read, "_read_leaves", lambda *a: read(*a) if os.getpid() == here else harm())


def busy():
    while True:
        pass


@pytest.mark.slow
def test_tables_that_never_end_are_damage(bare, monkeypatch):
    monkeypatch.setattr(trial_process, "MAX_LEAF_CPU_SECONDS", 0)  # to the next whole second
    harmful(monkeypatch, busy)
    with pytest.raises(CheckpointError, match="HDF5 does not finish reading its tables") as e:
        checkpoint.load(bare)
    assert str(bare) in str(e.value) and "another copy" in str(e.value)


@pytest.mark.parametrize(
    "harm, words",
    [
        (lambda: time.sleep(60), "does not finish"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"),
    ],
)
def test_what_stands_still_or_dies_is_damage(bare, harm, words, monkeypatch):
    monkeypatch.setattr(trial_process, "MAX_IDLE_SECONDS", 0.2)
    harmful(monkeypatch, harm)
    with pytest.raises(CheckpointError, match=words):
        checkpoint.load(bare)


def test_good_file_of_another_program_is_read(bare):
    assert checkpoint.load(bare)["weight"].tolist() == [0, 1, 2, 3, 4, 5]


def test_file_with_our_checksums_needs_no_rehearsal(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a process was started"))
    checkpoint.save({"a": lt.ones(2)}, tmp_path / "own.mdl")
    assert checkpoint.load(tmp_path / "own.mdl")["a"].tolist() == [1, 1]


def test_without_processes_files_are_read_with_one_warning(bare, monkeypatch):
    def forbidden():
        raise PermissionError("no processes here")

    monkeypatch.setattr(trial_process, "_is_warned", False)
    monkeypatch.setattr(os, "fork", forbidden)
    with pytest.warns(UserWarning, match="without a time limit") as seen:
        first, second = checkpoint.load(bare), checkpoint.load(bare)
    assert len(seen) == 1 and first["step"] == second["step"] == 3


def test_no_process_is_left_of_a_reader_that_is_killed():
    """A reader that goes on and on, in a process that its own parent kills."""
    into, out = os.pipe()

    def read(beat):
        os.write(out, b"!")
        while True:
            beat()

    reader = os.fork()
    if not reader:
        os.close(into)
        trial_process.read_in_trial_process(read, "bare")
    os.close(out)
    assert os.read(into, 1) == b"!"
    os.kill(reader, signal.SIGKILL)
    os.waitpid(reader, 0)
    # Every process of the two has a copy of the writing end until it is gone.
    assert select.select([into], [], [], 60.0)[0] and os.read(into, 1) == b""
    os.close(into)
