"""Odd places to run a script in: each starts a small training run, which has to end as ever or with one sentence."""

import os
import pathlib
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 120
UNWRITABLE = "/proc"
"""A folder that takes no file, from anybody."""
NOBODY = 54321
"""A user without an entry in the system's list."""
SCRIPT = """
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters())
data = TensorDataset(torch.randn(32, 4), torch.randint(0, 2, (32,)))
for x, y in DataLoader(data, batch_size=8, num_workers=2):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
torch.save(model.state_dict(), "model.pt")
with open("loss.txt", "w") as f:
    f.write(f"{loss.item():.7f}")
print("loss", loss.item())
"""
FOREIGN = re.compile(r'^  File "(?!.*/train\.py")', re.MULTILINE)
"""A line of a traceback that is not of the script."""


@dataclass(frozen=True)
class Place:
    """Where a script runs: settings, its folder's name, what the child does before it starts, and its streams.

    Of the streams those named in `full` go to a device without room; `prepare` may close them.
    """

    settings: Mapping[str, str | None] = field(default_factory=dict)
    folder: bytes = b"run"
    prepare: Callable[[], object] = lambda: None
    full: tuple[str, ...] = ()
    may_refuse: bool = False


def _closing(*streams: int) -> Callable[[], None]:
    def close() -> None:
        for stream in streams:
            os.close(stream)

    return close


def _limiting(kind: int, limit: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(kind, (limit, limit))


def _leave_folder() -> None:
    os.rmdir(os.getcwd())


PLACES: Mapping[str, Place] = {
    "as ever": Place(),
    "cache below a folder that takes nothing": Place({"LT_CACHE": UNWRITABLE}),
    "home that takes nothing": Place({"HOME": UNWRITABLE, "LT_CACHE": None, "XDG_CACHE_HOME": None}),
    "nothing takes files but the script's folder": Place(
        {"HOME": UNWRITABLE, "LT_CACHE": None, "TMPDIR": UNWRITABLE, "XDG_CACHE_HOME": UNWRITABLE}
    ),
    "home that is a file": Place({"HOME": "/etc/hostname", "LT_CACHE": None}),
    "cache that is a file": Place({"LT_CACHE": "/etc/hostname"}),
    "cache on a full device": Place({"LT_CACHE": "/dev/full"}),
    "no home": Place({"HOME": None, "LT_CACHE": None}),
    "no home and no such user": Place({"HOME": None, "LT_CACHE": None}, prepare=lambda: os.setuid(NOBODY)),
    "closed input": Place(prepare=_closing(0)),
    "closed output": Place(prepare=_closing(1)),
    "closed error stream": Place(prepare=_closing(2)),
    "all streams closed": Place(prepare=_closing(0, 1, 2)),
    "full output": Place(full=("stdout",), may_refuse=True),
    "full error stream": Place(full=("stderr",)),
    "all streams full": Place(full=("stdout", "stderr"), may_refuse=True),
    "sixteen descriptors": Place(prepare=_limiting(resource.RLIMIT_NOFILE, 16), may_refuse=True),
    "600 MB": Place(prepare=_limiting(resource.RLIMIT_AS, 600 << 20), may_refuse=True),
    "files for everybody": Place(prepare=lambda: os.umask(0)),
    "files for oneself": Place(prepare=lambda: os.umask(0o077)),
    "folder of bytes that are no text": Place(folder=b"run \xff\xfe"),
    "folder of odd characters": Place(folder="a b'\"\\$\t\n*?é漢 \u202e".encode()),
    "C locale": Place({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
}
"""What a script may meet; each is run by `python -m tests.faults`, and a share of them by the suite."""


def run(place: Place, folder: pathlib.Path) -> subprocess.CompletedProcess[bytes]:
    """A run of the script there; what it printed is in the result."""
    home = os.fsencode(folder) + b"/" + place.folder
    os.mkdir(home)
    # Anybody may write here: one of the users has no name.
    os.chmod(home, 0o777)
    with open(home + b"/train.py", "w") as f:
        f.write(SCRIPT)
    settings: dict[str, str | None] = {**os.environ, "LT_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    settings |= place.settings
    with open("/dev/full", "wb") as device:
        ends = {name: device if name in place.full else subprocess.PIPE for name in ("stdout", "stderr")}
        return subprocess.run(
            [sys.executable, "-m", "cstorch_compat", "run", home + b"/train.py"],
            cwd=home,
            env={name: value for name, value in settings.items() if value is not None},
            preexec_fn=place.prepare,
            stdin=subprocess.DEVNULL,
            timeout=SECONDS,
            **ends,
        )


def in_place(name: str, folder: pathlib.Path, loss: str) -> list[str]:
    """What is wrong with a run in that place; `loss` is what it has to come to."""
    place = PLACES[name]
    ended = run(place, folder)
    result = pathlib.Path(os.fsdecode(os.fsencode(folder) + b"/" + place.folder)) / "loss.txt"
    errors = (ended.stderr or b"").decode(errors="replace")
    wrong = []
    if ended.returncode < 0:
        wrong.append(f"it died of signal {-ended.returncode}")
    if ended.returncode and not place.may_refuse:
        wrong.append(f"it ended with {ended.returncode}")
    if not ended.returncode and (not result.exists() or result.read_text() != loss):
        wrong.append("it said nothing and has another result")
    if frames := FOREIGN.findall(errors):
        wrong.append(f"{len(frames)} frames that are not the user's")
    if wrong:
        wrong.append(f"it printed: {errors[-2000:]}")
    return wrong


def can_be_tried(name: str) -> bool:
    """Whether this machine has such a place: a user without a name may not be let at the interpreter."""
    return name != "no home and no such user" or (os.geteuid() == 0 and _lets_others_in(sys.executable))


def _lets_others_in(path: str) -> bool:
    ways = [pathlib.Path(path).resolve(), *pathlib.Path(path).resolve().parents, *ROOT.parents]
    return all(way.stat().st_mode & 0o001 for way in ways)


def expected(folder: pathlib.Path) -> str:
    """The loss of a run with nothing odd about it."""
    ended = run(PLACES["as ever"], folder)
    assert not ended.returncode, ended.stderr
    return (folder / "run" / "loss.txt").read_text()
