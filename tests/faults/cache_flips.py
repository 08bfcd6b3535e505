"""Kept machine code with one bit turned: `python -m tests.faults cache N`.

A run has to come to the same values, with at most one warning, whichever bit of whichever file of the cache it is, the
engine of the fabric among them.
"""

import pathlib
import random
import shutil

from tests.faults.endings import Ground, values

NAME = "cached"


def ground_of(folder: pathlib.Path) -> Ground:
    """The process that forks, with a cache of its own, filled by one run."""
    return Ground(folder, (NAME,), cache=folder / "whole" / "cache")


def flipped(ground: Ground, draw: random.Random) -> tuple[str, list[str]]:
    """One run behind a turned bit: which kind of file it was in, and what is wrong with the run."""
    reference, whole, kept = ground.reference(NAME), ground.folder / "whole", ground.folder / "kept"
    if not kept.exists():
        shutil.copytree(whole, kept)
    shutil.rmtree(whole)
    shutil.copytree(kept, whole)
    files = sorted(p for p in whole.rglob("*") if p.is_file())
    path = draw.choice(files)
    data = bytearray(path.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)
    folder = ground.empty(NAME)
    status = ground.run(folder, lambda pid: None)
    said = (folder / "err").read_text(errors="replace")
    wrong = []
    if status:
        wrong.append(f"it ended with {status}: {said[-800:]}")
    elif values(folder) != reference.checkpoints:
        wrong.append("it has other values")
    if said.count("Warning") > 1:
        wrong.append(f"it warned {said.count('Warning')} times: {said[-800:]}")
    return path.name.split("_")[0].split("-")[0], [f"{path.name}: {w}" for w in wrong]
