"""`make soak`: half an hour of training, saving, evaluating and loading, with workers killed at random all the time.

`python -m tests.faults.soak MINUTES SEED` starts one process that trains, and kills one of its workers every few
seconds. In the end the process has to be as large as in the beginning, and nothing may be left of what was killed.
"""

import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

from tests.faults.owned import owner_name, pieces

ROOT = pathlib.Path(__file__).resolve().parents[2]
MORE_MEMORY = 0.02
"""Of what the process had once it was warm: more of it is a leak."""
WARM = 0.2
"""Of the time: caches fill in it, and memory counts from then on."""
SCRIPT = """
import pathlib, sys, time
import torch
from torch.utils.data import DataLoader, Dataset
import cerebras.pytorch as cstorch

class Samples(Dataset):
    def __len__(self):
        return 512
    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randn(16, generator=g), i % 4

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
end = time.time() + float(sys.argv[1])
rounds = losses = 0
while time.time() < end:
    rounds += 1
    try:
        for x, y in DataLoader(Samples(), batch_size=32, num_workers=2):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    except RuntimeError as e:
        if "worker" not in str(e):
            raise
        losses += 1
    pathlib.Path("last.mdl").unlink(missing_ok=True)
    cstorch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "last.mdl")
    kept = cstorch.load("last.mdl")
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    torch.save(model.state_dict(), "last.pt")
    model.load_state_dict(torch.load("last.pt"))
    with torch.no_grad():
        assert torch.isfinite(model(torch.ones(8, 16))).all()
print(rounds, "rounds,", losses, "workers lost")
"""


@dataclass(frozen=True)
class Look:
    """The process at one moment: its own bytes, its descriptors, and the files of its folder."""

    nbytes: int
    descriptors: int
    files: tuple[str, ...]


def look(pid: int, folder: pathlib.Path) -> Look:
    """What it has now. Raises FileNotFoundError once it has ended."""
    own = pathlib.Path(f"/proc/{pid}")
    resident = int((own / "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    return Look(resident, len(list((own / "fd").iterdir())), tuple(sorted(p.name for p in folder.iterdir())))


def workers(pid: int) -> list[int]:
    """The processes that it has started."""
    lists = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for one in lists for child in one.read_text().split()]


def watched(process: "subprocess.Popen[str]", folder: pathlib.Path, seconds: float, draw: random.Random) -> list[Look]:
    """Kill its workers until the time is over; what was seen once it was warm, when it had no workers."""
    began, looks = time.monotonic(), list[Look]()
    while process.poll() is None:
        time.sleep(draw.uniform(0.05, 0.6))
        try:
            children = workers(process.pid)
            # Pipes to workers are descriptors too: those of a moment without workers count.
            if not children and time.monotonic() - began > WARM * seconds:
                looks.append(look(process.pid, folder))
            if children and draw.random() < 0.2:
                os.kill(draw.choice(children), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return looks


def wrong_of(looks: list[Look], owner: str, folder: pathlib.Path) -> list[str]:
    """What is not as it was."""
    wrong = []
    part = max(1, len(looks) // 10)
    first, last = (statistics.median(one.nbytes for one in some) for some in (looks[:part], looks[-part:]))
    if last > (1 + MORE_MEMORY) * first:
        wrong.append(f"{first / 1e6:.1f} MB became {last / 1e6:.1f} MB")
    if looks[-1].descriptors > looks[0].descriptors:
        wrong.append(f"{looks[0].descriptors} descriptors became {looks[-1].descriptors}")
    if left := pieces(owner):
        wrong.append(f"shared memory is left: {', '.join(sorted(left))}")
    if more := {p.name for p in folder.iterdir()} - {"train.py", "last.mdl", "last.pt"}:
        wrong.append(f"files are left: {', '.join(sorted(more))}")
    print(f"{len(looks)} looks, {first / 1e6:.1f} MB at first and {last / 1e6:.1f} MB in the end")
    return wrong


def soak(seconds: float, seed: int) -> list[str]:
    """What is wrong after a run of that many seconds."""
    draw, owner = random.Random(seed), owner_name()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "train.py").write_text(SCRIPT)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.owned", owner, "run", "train.py", str(seconds)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        looks = watched(process, folder, seconds, draw)
        assert process.stdout is not None
        print(process.stdout.read().strip())
        if process.returncode:
            return [f"it ended with {process.returncode}"]
        return wrong_of(looks, owner, folder) if looks else ["it was never seen without workers"]


if __name__ == "__main__":
    minutes, seed = (float(sys.argv[1]) if len(sys.argv) > 1 else 30.0, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    if failures := soak(60 * minutes, seed):
        sys.exit("; ".join(failures))
