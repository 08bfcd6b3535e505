"""Run other people's projects on this package and on PyTorch, and compare the losses that they print.

    python -m tests.projects [NAME ...] --sources FOLDER [--torch-python PYTHON] [--torch-libraries FOLDER]

NAME is a script of this folder; its first line has the project and where it is looked for in the folder of sources:
pip packages (`pip install --no-deps --target FOLDER`) or a copy of the repository in a subfolder. Each script prints
five losses for each model, one a line, and runs by itself in an empty folder, with `lazywafer run` and with PyTorch.
Words after NAME and a colon select some models (`timm_models:resnet18,resnet50`). Nothing is downloaded.

The table has, for each script, the largest relative difference of two losses, PyTorch's own one if it computes without
oneDNN (`--spread`), the ratio of the time from the first loss to the last one, and the first loss that
differs by more than 1e-4 or the obstacle. Where PyTorch differs from itself by as much, rounding is the cause.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[2]
SCRIPTS = pathlib.Path(__file__).parent
MAX_RELATIVE_DIFFERENCE = 1e-4
MAX_SECONDS = 1800
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d*(?:e[-+]?\d+)?|nan|inf)")


@dataclasses.dataclass(frozen=True)
class Output:
    """The lines of a script that have a number, the time at which each was printed in seconds, and the error or ""."""

    lines: list[str]
    seconds: list[float]
    error: str


VARIED = """
import runpy, sys, torch
torch.backends.mkldnn.enabled = False
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""A program that runs a script with PyTorch's other kernels, which round differently."""


def run_script(command: list[str], script: str, arguments: list[str], paths: list[str], sources: str) -> Output:
    """Run a script of this folder in an empty folder, with `paths` as PYTHONPATH."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([*paths, sources]),
        "PROJECTS": sources,
        "PYTHONUNBUFFERED": "1",
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
    }
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
        # Copy the script, so that its folder, which Python searches first, hides no package.
        path = shutil.copy(SCRIPTS / f"{script}.py", os.path.join(folder, "script_to_run.py"))
        process = subprocess.Popen(
            ["timeout", str(MAX_SECONDS), *command, path, *arguments],
            cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
        lines, seconds = [], []
        assert process.stdout is not None
        for line in process.stdout:
            if NUMBER.search(line):
                lines.append(line.strip())
                seconds.append(time.perf_counter())
        status = process.wait()
        errors.seek(0)
        words = [line.rstrip() for line in errors if line.strip()]
        if "-v" in sys.argv and status:
            print("\n".join(words))
    return Output(lines, seconds, "" if status == 0 else (_find_error(words) if words else f"exit status {status}"))


def _find_error(lines: list[str]) -> str:
    """Return the last line that begins with the name of an exception, or else the last line."""
    found = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Missing|Interrupt|Mismatch)\b", line)]
    return (found or lines)[-1]


def get_largest_difference(ours: list[str], theirs: list[str]) -> tuple[float, str]:
    """Return the largest relative difference of two numbers on equal lines, and our line. Text is not compared."""
    largest = 0.0, ""
    for a, b in zip(ours, theirs, strict=False):
        for x, y in zip(map(float, NUMBER.findall(a)), map(float, NUMBER.findall(b)), strict=True):
            apart = 0.0 if x == y or (x != x and y != y) else abs(x - y) / max(abs(x), abs(y))
            if not apart <= largest[0]:
                largest = apart, a
    return largest


def find_first_difference(ours: list[str], theirs: list[str]) -> str:
    """Return our first line with a number that differs by more than MAX_RELATIVE_DIFFERENCE, and PyTorch's, or ""."""
    for a, b in zip(ours, theirs, strict=False):
        if not get_largest_difference([a], [b])[0] <= MAX_RELATIVE_DIFFERENCE:
            return f"{a}, PyTorch {' '.join(NUMBER.findall(b))}"
    return ""


def get_time_ratio(ours: list[float], theirs: list[float]) -> float:
    """Return the ratio of the seconds from the first line to the last one that both have."""
    count = min(len(ours), len(theirs))
    # The lines of a quick script are read together, so that the seconds between two of them are no measure.
    return (ours[count - 1] - ours[0]) / max(theirs[count - 1] - theirs[0], 1e-3) if count > 1 else float("nan")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = sorted(p.stem for p in SCRIPTS.glob("*.py") if not p.stem.startswith("__"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; all by default")
    parser.add_argument("--sources", required=True, metavar="FOLDER")
    parser.add_argument("--torch-python", default="", metavar="PYTHON", help="an interpreter that has PyTorch")
    parser.add_argument(
        "--torch-libraries", default="", metavar="FOLDER", help="packages for PyTorch only: torchvision"
    )
    parser.add_argument("--spread", action="store_true", help="also run PyTorch with other kernels")
    parser.add_argument("-v", action="store_true", help="print the whole error of a script")
    options = parser.parse_args()
    sources = os.path.abspath(options.sources)
    width = max(map(len, known)) + 2
    heads = f"{'losses':>8}{'difference':>12}{'own':>9}{'time':>7}  first difference or obstacle"
    print(f"{'project':{width}}{heads}", flush=True)
    failed = False
    for name, _, models in (word.partition(":") for word in options.names or known):
        arguments = models.split(",") if models else []
        ours = run_script([sys.executable, "-m", "cstorch_compat", "run"], name, arguments, [str(ROOT)], sources)
        if not options.torch_python:
            print("\n".join(ours.lines), ours.error, sep="\n")
            continue
        libraries = [os.path.abspath(options.torch_libraries)] if options.torch_libraries else []
        theirs = run_script([options.torch_python], name, arguments, libraries, sources)
        own = "-"
        if options.spread:
            varied = run_script([options.torch_python, "-c", VARIED], name, arguments, libraries, sources)
            own = f"{get_largest_difference(varied.lines, theirs.lines)[0]:.1e}"
        largest, _ = get_largest_difference(ours.lines, theirs.lines)
        ratio = get_time_ratio(ours.seconds, theirs.seconds)
        text = find_first_difference(ours.lines, theirs.lines) or ours.error
        if theirs.error:
            text += f" (PyTorch: {theirs.error})"
        failed |= bool(text)
        count = f"{len(ours.lines)}/{len(theirs.lines)}"
        print(f"{name:{width}}{count:>8}{largest:12.1e}{own:>9}{ratio:7.2f}  {text}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
