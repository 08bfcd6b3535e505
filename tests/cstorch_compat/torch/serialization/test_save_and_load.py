"""`torch.save` to a path leaves a whole file there, whatever happens while it writes."""

import os
import stat

import pytest

from cstorch_compat.names.mirror_modules import get_mirror
from tests.conftest import python

torch = get_mirror("torch")

# A child saves over one file until it is killed at a random moment.
KILLED = """
import os, random, signal, time
import cstorch_compat; cstorch_compat.install()
import torch
random.seed(5)
LEGACY = {"_use_new_zipfile_serialization": False}

def save_forever(start):
    for step in range(start, start + 100000):
        torch.save({"step": step, "w": torch.full((40000,), float(step))}, "latest.pt", **(LEGACY if step % 2 else {}))

torch.save({"step": 0, "w": torch.zeros(40000)}, "latest.pt")
interrupted, steps = 0, set()
for trial in range(30):
    child = os.fork()
    if not child:
        save_forever(trial * 1000)
    time.sleep(random.uniform(0.01, 0.06))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    interrupted += any(name.endswith(".tmp") for name in os.listdir())
    found = torch.load("latest.pt")
    assert set(found["w"].tolist()) == {float(found["step"])}
    steps.add(found["step"])
torch.save({}, "latest.pt")
print(interrupted, len(steps), os.listdir())
"""


@pytest.mark.process
def test_30_kills_inside_save_leave_a_whole_file(tmp_path):
    done = python("-c", KILLED, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    interrupted, steps, names = done.stdout.strip().split(" ", 2)
    # Some kills left a half-written file, which the next save removed.
    assert int(interrupted) and int(steps) and names == "['latest.pt']"


# The largest size of a file models the room on the disk.
FULL = """
import os, resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
import cstorch_compat; cstorch_compat.install()
import torch
tree = {"w": torch.ones(1000), "v": torch.ones(300)}
for options in ({}, {"_use_new_zipfile_serialization": False}):
    torch.save(tree, "a.pt", **options)
    before = open("a.pt", "rb").read()
    for room in (0, 1, 700, 5000, len(before) - 1):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        try:
            torch.save(tree, "a.pt", **options)
        except RuntimeError as e:
            for part in ("script.py:13: ", "File too large", "Free disk space"):
                assert part in str(e), str(e)
        else:
            raise AssertionError(f"it fits into {room} bytes")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert os.listdir() == ["a.pt"] and open("a.pt", "rb").read() == before
"""


@pytest.mark.process
def test_full_disk_leaves_the_old_file(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(FULL)
    folder = tmp_path / "folder"
    folder.mkdir()
    done = python(str(script), cwd=folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("is_zip", [True, False])
def test_object_that_cannot_be_saved_leaves_the_old_file(tmp_path, is_zip):
    torch.save({"step": 1}, tmp_path / "a.pt", _use_new_zipfile_serialization=is_zip)
    with pytest.raises(RuntimeError):
        torch.save({"w": torch.ones(3), "f": lambda: 1}, tmp_path / "a.pt", _use_new_zipfile_serialization=is_zip)
    assert torch.load(tmp_path / "a.pt") == {"step": 1} and os.listdir(tmp_path) == ["a.pt"]


def test_links_and_permissions_of_an_older_file_stay(tmp_path):
    target, link = tmp_path / "a.pt", tmp_path / "b.pt"
    torch.save({}, target)
    target.chmod(0o640)
    link.symlink_to(target)
    torch.save({"step": 2}, link)
    assert link.is_symlink() and torch.load(target) == {"step": 2}
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_device_is_written_and_not_replaced():
    torch.save({"w": torch.ones(3)}, os.devnull)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(RuntimeError, match=r"the directory .*missing.* does not exist"):
        torch.save({}, tmp_path / "missing" / "a.pt")
