"""Milliseconds of a step of plain PyTorch scripts, which trace nothing, and of PyTorch beside them if there is one.

    python -m tests.bench.plain [--rounds R] [--torch-python PYTHON] [SCRIPT ...]

A step lasts from the loss that a script prints to the next one; the figure of a run is the median of its last STEPS,
when what recurs is compiled, and that of a script the median of its runs, taken in turns with PyTorch's.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

SCRIPTS = pathlib.Path(__file__).parent.parent / "scripts"
NAMES = ("mlp", "cnn", "transformer", "lstm")
STEPS = 20
CHILD = """
import builtins, runpy, statistics, sys, time
if {ours}:
    import cstorch_compat
    cstorch_compat.install()
times, shown = [], print
builtins.print = lambda *words: times.append(time.perf_counter())
sys.path.insert(0, {folder!r})
runpy.run_path({path!r}, run_name="__main__")
shown(1000 * statistics.median(b - a for a, b in list(zip(times, times[1:]))[-{steps}:]))
"""


def milliseconds(python: str, name: str, is_ours: bool) -> float:
    """One run of a script by an interpreter, by this package or by the PyTorch that it has."""
    text = CHILD.format(ours=is_ours, folder=str(SCRIPTS), path=str(SCRIPTS / f"{name}.py"), steps=STEPS)
    # PyTorch's interpreter must not find a package of ours that is called torch too.
    env = {key: value for key, value in os.environ.items() if is_ours or key != "PYTHONPATH"}
    return float(subprocess.run([python, "-c", text], capture_output=True, text=True, check=True, env=env).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="SCRIPT", help=f"of {', '.join(NAMES)}; all of them by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--torch-python", default="", metavar="PYTHON", help="an interpreter that has PyTorch")
    options = parser.parse_args()
    print(f"{'script':12}{'ours':>9}" + (f"{'PyTorch':>9}{'ratio':>8}" if options.torch_python else ""))
    for name in options.names or NAMES:
        ours, theirs = [], []
        for _ in range(options.rounds):
            ours.append(milliseconds(sys.executable, name, True))
            if options.torch_python:
                theirs.append(milliseconds(options.torch_python, name, False))
        line = f"{name:12}{statistics.median(ours):9.3f}"
        if theirs:
            ratio = statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
            line += f"{statistics.median(theirs):9.3f}{ratio:8.2f}"
        print(line)


if __name__ == "__main__":
    main()
