"""Runs entry points of public repositories as they stand, and compares what they print with PyTorch's prints.

    LT_PUBLIC=DIR python -m tests.scripts.public [--only NAME] [--torch-python PATH] [--record]

DIR has the repositories as folders; nothing is downloaded, and nothing is written there: each row runs in a scratch
copy. The prints that PyTorch gave are in recorded.json; `--torch-python` runs PyTorch beside, and `--record` keeps
what it prints, and of chaotic rows how far it is from itself with other roundings (varied.py): ours have to be as near.
`--libraries DIR` names a folder of packages for both sides, `--torch-libraries DIR` one for PyTorch's.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from tests.scripts.public.comparison import FIRST, Verdict, compared, prints, spread
from tests.scripts.public.rows import ROWS, Row

ROOT = pathlib.Path(__file__).parents[3]
RECORDED = pathlib.Path(__file__).with_name("recorded.json")
APART = pathlib.Path(__file__).with_name("apart.json")
"""How far PyTorch's prints are from its own, print by print, where roundings differ."""
VARIED, VARIANTS = pathlib.Path(__file__).with_name("varied.py"), ("1", "2", "threads", "plain")
SEED = "import random\n\nrandom.seed(1)\n"
"""What every process of both sides begins with: scripts that draw from Python's own generator seldom seed it."""


class Stopped(Exception):
    """A command ended with an error."""


def run(row: Row, repositories: pathlib.Path, scratch: pathlib.Path, python: list[str], paths: list[str]) -> list[str]:
    """The prints of a row. Raises Stopped with the last line of the error."""
    copy = scratch / row.repository
    shutil.rmtree(copy, ignore_errors=True)
    folder = copy / row.folder
    shutil.copytree(repositories / row.repository / row.folder, folder, ignore=shutil.ignore_patterns(".git"))
    row.prepare(folder)
    (scratch / "sitecustomize.py").write_text(SEED)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(scratch), str(folder), *paths]),
        "TORCH_HOME": str(scratch / "torch_home"),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
        # A script from before PyTorch 2.6 loads an array, which PyTorch refuses since then unless it is told.
        "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",
    }
    lines: list[str] = []
    for command in row.commands:
        lines += _executed([*python, *shlex.split(command)], folder, environment, row.is_endless)
    return lines + [_picture(folder / name) for name in row.pictures]


def _executed(command: list[str], folder: pathlib.Path, environment: dict[str, str], is_endless: bool) -> list[str]:
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        clock = threading.Timer(900, process.kill)
        clock.start()
        output = []
        assert process.stdout is not None
        for line in process.stdout:
            output.append(line)
            if is_endless and len(prints("".join(output))) >= FIRST:
                process.kill()
                break
        process.stdout.close()
        status = process.wait()
        clock.cancel()
        if status and not (is_endless and len(prints("".join(output))) >= FIRST):
            errors.seek(0)
            said = [s for s in errors.read().splitlines() if s.strip()] or [f"status {status}"]
            raise Stopped(reason(said))
    # Of each command alike, or the second would never be looked at.
    return prints("".join(output))[:FIRST]


def reason(lines: list[str]) -> str:
    """The line of a traceback that names the error."""
    named = [s for s in lines if re.match(r"\w[\w.]*(?:Error|Exception|Missing|Invalid)\b", s)]
    return (named or lines)[-1][:300]


def _picture(path: pathlib.Path) -> str:
    import numpy as np  # noqa: PLC0415
    from PIL import Image  # noqa: PLC0415 - needed by few rows

    pixels = np.asarray(Image.open(path), np.float64)
    return f"{path.name} {list(pixels.shape)} mean {pixels.mean() / 255:.4f} deviation {pixels.std() / 255:.4f}"


def is_missing(row: Row, repositories: pathlib.Path, paths: list[str]) -> str:
    """What a row needs and is not there."""
    if not (repositories / row.repository / row.folder).is_dir():
        return f"no folder {row.repository}"
    absent = [
        p
        for p in row.packages
        if importlib.util.find_spec(p) is None
        and not any((pathlib.Path(q) / p).exists() or (pathlib.Path(q) / f"{p}.py").exists() for q in paths)
    ]
    return f"needs {', '.join(absent)}" if absent else ""


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.scripts.public", description=__doc__)
    parser.add_argument("--only", default="", help="rows whose names match this expression")
    parser.add_argument("--torch-python", help="an interpreter that has PyTorch: both sides are run")
    parser.add_argument("--torch-only", action="store_true", help="run PyTorch's side alone")
    parser.add_argument("--record", action="store_true", help="keep what PyTorch prints")
    parser.add_argument("--libraries", action="append", default=[], help="a folder of packages for both sides")
    parser.add_argument("--torch-libraries", action="append", default=[], help="one for PyTorch's side")
    return parser.parse_args()


def main() -> int:
    """Run the rows, print a line for each and the sum. Returns the number of rows that differ."""
    options = _options()
    place = os.environ.get("LT_PUBLIC")
    if not place:
        print("LT_PUBLIC names no folder with the repositories: nothing is run")
        return 0
    repositories = pathlib.Path(place)
    recorded, apart = (json.loads(path.read_text()) if path.exists() else {} for path in (RECORDED, APART))
    equal = total = 0
    for row in (r for r in ROWS if re.search(options.only, r.name)):
        absent = is_missing(row, repositories, options.libraries)
        if absent:
            print(f"{row.name:28} left out: {absent}")
            continue
        with tempfile.TemporaryDirectory() as scratch:
            total += 1
            line = _line(row, options, repositories, pathlib.Path(scratch), recorded, apart)
            equal += line.startswith("runs")
            print(f"{row.name:28} {line}", flush=True)
        if options.record:
            RECORDED.write_text(json.dumps(recorded, indent=0, ensure_ascii=False) + "\n")
            APART.write_text(json.dumps(apart, indent=0) + "\n")
    print(f"{equal} of {total} run to their end with PyTorch's numbers")
    return total - equal


def _line(
    row: Row,
    options: argparse.Namespace,
    repositories: pathlib.Path,
    scratch: pathlib.Path,
    recorded: dict,
    apart: dict,
) -> str:
    if options.torch_python:
        paths = [*options.libraries, *options.torch_libraries]
        try:
            theirs = run(row, repositories, scratch, [options.torch_python], paths)
            if options.record:
                recorded[row.name] = theirs
                if row.is_chaotic:
                    varied = [[options.torch_python, str(VARIED), v] for v in VARIANTS]
                    apart[row.name] = spread(theirs, [run(row, repositories, scratch, v, paths) for v in varied])
        except Stopped as e:
            return f"PyTorch stops at {e}"
        if options.torch_only:
            return f"{len(theirs)} prints of PyTorch"
    elif row.name in recorded:
        theirs = recorded[row.name]
    else:
        return "no recorded prints"
    start = time.monotonic()
    try:
        ours = run(
            row, repositories, scratch, [sys.executable, "-m", "cstorch_compat"], [str(ROOT), *options.libraries]
        )
    except Stopped as e:
        return f"stops at {e}"
    own = apart.get(row.name)
    return said(compared(ours, theirs, own), own, time.monotonic() - start)


def said(verdict: Verdict, apart: list[float] | None, seconds: float) -> str:
    """The outcome of a row in a line; `apart` is how far PyTorch's prints are from its own."""
    if verdict.difference:
        return f"numbers differ at {verdict.difference} ({verdict.compared} prints equal)"
    equal = verdict.compared - verdict.parted
    line = f"runs: {equal} prints equal, largest difference {verdict.largest:.1e}, {seconds:.0f} s"
    if not verdict.parted or apart is None:
        return line
    return (
        f"{line}; then PyTorch's own runs part by up to {apart[-1]:.1e}, ours from it by {verdict.astray:.1e} "
        f"({verdict.parted} prints)"
    )


if __name__ == "__main__":
    sys.exit(main())
