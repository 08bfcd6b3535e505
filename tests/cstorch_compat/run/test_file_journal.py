"""What a script changes in the file system before its first step is undone after `check`, `plan` and a recording."""

import contextlib
import json
import os
import pathlib
import shutil
import tempfile
import threading

import h5py
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cstorch_compat.run import file_journal
from cstorch_compat.run.file_journal import FileJournal
from tests.conftest import lazywafer, python

TRAINING = """
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.ones(8, 4)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FOLDER_OF_A_RUN = "import os, time, torch\nos.makedirs(time.strftime('run_%Y%m%d_%H%M%S'))\n" + TRAINING
WRITING = (
    """
import json, logging, os, pathlib, shutil, h5py, numpy, torch
from torch.utils.tensorboard import SummaryWriter

writer = SummaryWriter()
os.makedirs("out/logs")
os.chdir("out")
os.environ["RUN_FOLDER"] = "out"
json.dump({"lr": 0.1}, open("args.json", "x"))
os.chdir("..")
logging.basicConfig(filename="train.log", level=logging.INFO)
logging.info("begins")
unflushed = open("train.log", "a")
unflushed.write("flushed at the end of the process")
pathlib.Path("results.csv").write_text("step,loss\\n")
shutil.move("raw.txt", "out/raw.txt")
shutil.rmtree("old")
os.symlink("out", "latest")
pathlib.Path("latest/more.txt").write_text("more")
with h5py.File("features.h5", "a") as file:
    file["more"] = numpy.ones(3)
torch.save({}, "initial.pt")
"""
    + TRAINING
)


def tree(folder: pathlib.Path) -> dict[str, object]:
    """Everything in a folder: the bytes of files, the aims of links."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = content
    return found


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with files of the user, and a script that changes all of them before its first step."""
    (tmp_path / "old").mkdir()
    for name in ("train.log", "results.csv", "raw.txt", "old/a.txt"):
        (tmp_path / name).write_text(f"{name} of the user\n")
    with h5py.File(tmp_path / "features.h5", "w") as file:
        file["x"] = 1
    (tmp_path / "script.py").write_text(WRITING)
    return tmp_path


@pytest.mark.process
@pytest.mark.parametrize("command", [["check"], ["plan"], ["plan", "--batch", "3,16"]], ids=" ".join)
def test_files_are_as_they_were_and_the_report_names_them(folder, command):
    before = tree(folder)
    done = python("-m", "cstorch_compat", *command, "script.py", cwd=folder)
    assert tree(folder) == before
    assert done.returncode == 0, done.stderr
    line = next(line for line in (done.stdout + done.stderr).splitlines() if "removed or restored" in line)
    assert all(name in line for name in ("runs", "out", "train.log", "more"))


@pytest.mark.process
def test_check_lists_files_in_json(folder):
    files = json.loads(python("-m", "cstorch_compat", "check", "--json", "script.py", cwd=folder).stdout)["files"]
    assert files["remaining"] == []
    assert {"runs", "out", "train.log", "results.csv", "features.h5", "initial.pt", "latest"} <= set(files["undone"])


@pytest.mark.slow
def test_a_script_that_names_a_folder_by_the_second_is_planned_for_another_batch(tmp_path):
    (tmp_path / "script.py").write_text(FOLDER_OF_A_RUN)
    for _ in range(3):
        done = lazywafer("plan", "--json", "--batch", "16,64", "--machine", "tiny", "script.py", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert [row["batch_size"] for row in json.loads(done.stdout)["rows"]] == [16, 64]
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


def test_a_script_that_cannot_run_twice_is_told_its_line(tmp_path, monkeypatch):
    """A file too large to keep a copy of is overwritten: nothing is undone, and the second recording fails."""
    monkeypatch.setattr(file_journal, "MAX_BACKUP_BYTES", 10)
    (tmp_path / "large.bin").write_bytes(bytes(11))
    (tmp_path / "script.py").write_text("open('large.bin', 'w').close()\n" + FOLDER_OF_A_RUN.replace("%S", "_"))
    done = lazywafer("plan", "--batch", "16", "--machine", "tiny", "script.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "script.py:3: the script ran with its own batch size, but failed with 16: FileExistsError" in done.stderr
    assert "exist_ok=True" in done.stderr
    (files,) = [line for line in done.stderr.splitlines() if "were not restored" in line]
    assert "large.bin" in files and "run_" in files
    assert len(list(tmp_path.glob("run_*"))) == 1


NAMES = st.sampled_from(["a", "b", "c/d", "c", "e/f", "e", "new", "link"])
OPERATIONS = {
    "write": lambda p, q: p.write_text("written"),
    "append": lambda p, q: p.open("a").write("more"),
    "update": lambda p, q: p.open("r+").write("!"),
    "exclusive": lambda p, q: p.open("x").write("x"),
    "descriptor": lambda p, q: os.close(os.open(p, os.O_RDWR | os.O_CREAT)),
    "truncate": lambda p, q: os.truncate(p, 1),
    "mkdir": lambda p, q: p.mkdir(),
    "makedirs": lambda p, q: p.mkdir(parents=True, exist_ok=True),
    "unlink": lambda p, q: p.unlink(),
    "rmdir": lambda p, q: p.rmdir(),
    "rmtree": lambda p, q: shutil.rmtree(p),
    "rename": lambda p, q: p.rename(q),
    "replace": lambda p, q: p.replace(q),
    "move": lambda p, q: shutil.move(p, q),
    "copy": lambda p, q: shutil.copy(p, q),
    "copytree": lambda p, q: shutil.copytree(p, q),
    "symlink": lambda p, q: q.symlink_to(p),
    "hardlink": lambda p, q: q.hardlink_to(p),
    "temporary": lambda p, q: os.close(tempfile.mkstemp(dir=p.parent)[0]),
    "h5": lambda p, q: h5py.File(p, "w").close(),
    "h5 more": lambda p, q: h5py.File(p, "a").close(),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@settings(max_examples=100)
@given(st.lists(st.tuples(st.sampled_from(sorted(OPERATIONS)), NAMES, NAMES), max_size=12))
def test_any_changes_are_undone(operations):
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        (folder / "c").mkdir()
        (folder / "e").mkdir()
        for name in ("a", "c/d", "e/f"):
            (folder / name).write_text(f"{name} of the user")
        (folder / "link").symlink_to("a")
        before = tree(folder)
        journal = FileJournal()
        with journal:
            for name, one, other in operations:
                with contextlib.suppress(OSError):  # the script would have failed
                    OPERATIONS[name](folder / one, folder / other)
        assert tree(folder) == before
        assert journal.remaining == []


def test_threads_that_ran_before_keep_their_files_and_new_ones_do_not(tmp_path):
    goes_on, has_written = threading.Event(), threading.Event()

    def write_later() -> None:
        goes_on.wait()
        (tmp_path / "of a notebook").write_text("kept")
        has_written.set()

    threading.Thread(target=write_later).start()
    with FileJournal() as journal:
        goes_on.set()
        has_written.wait()
        own = threading.Thread(target=lambda: (tmp_path / "of the script").write_text("undone"))
        own.start()
        own.join()
    assert [path.name for path in tmp_path.iterdir()] == ["of a notebook"]
    assert [os.path.basename(name) for name in journal.undone] == ["of the script"]
