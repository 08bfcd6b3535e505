"""Milliseconds of a step of plain PyTorch scripts, which trace nothing, and of PyTorch beside them if there is one.

    python -m tests.bench.plain [--rounds R] [--threads N] [--torch-python PYTHON] [SCRIPT ...]

A step lasts from the loss that a script prints to the next one; the figure of a run is the median of its last STEPS,
when what recurs is compiled, and that of a script the median of its runs, taken in turns with PyTorch's. A ratio is
PyTorch's time divided by ours. The last line has the geometric mean of the ratios and the lowest one. On a busy
computer use one thread: threads of PyTorch that wait for a core make its steps several times as long.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

SCRIPTS = pathlib.Path(__file__).parent.parent / "scripts"
PATHS = {
    path.stem: path
    for path in (
        *(SCRIPTS / f"{name}.py" for name in ("mlp", "cnn", "transformer", "lstm")),
        *sorted((SCRIPTS / "plain").glob("*.py")),
    )
}
STEPS = 20
CHILD = """
import builtins, runpy, statistics, sys, time
if {ours}:
    import cstorch_compat
    cstorch_compat.install()
times, shown = [], print
builtins.print = lambda *words: times.append(time.perf_counter())
sys.path.insert(0, {folder!r})
sys.argv = [{path!r}]
runpy.run_path({path!r}, run_name="__main__")
shown(1000 * statistics.median(b - a for a, b in list(zip(times, times[1:]))[-{steps}:]))
"""


def milliseconds(python: str, name: str, is_ours: bool, threads: str) -> float:
    """One run of a script by an interpreter, by this package or by the PyTorch that it has."""
    path = PATHS[name]
    text = CHILD.format(ours=is_ours, folder=str(path.parent), path=str(path), steps=STEPS)
    # PyTorch's interpreter must not find a package of ours that is called torch too.
    env = {key: value for key, value in os.environ.items() if is_ours or key != "PYTHONPATH"}
    env |= {"LT_THREADS": threads, "OMP_NUM_THREADS": threads} if threads else {}
    return float(subprocess.run([python, "-c", text], capture_output=True, text=True, check=True, env=env).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="SCRIPT", help=f"of {', '.join(PATHS)}; all of them by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default="", metavar="N", help="the threads of a step; by default all cores")
    parser.add_argument("--torch-python", default="", metavar="PYTHON", help="an interpreter that has PyTorch")
    options = parser.parse_args()
    print(f"{'script':14}{'ours':>9}" + (f"{'PyTorch':>9}{'ratio':>8}" if options.torch_python else ""))
    ratios = {}
    for name in options.names or PATHS:
        ours, theirs = [], []
        for _ in range(options.rounds):
            ours.append(milliseconds(sys.executable, name, True, options.threads))
            if options.torch_python:
                theirs.append(milliseconds(options.torch_python, name, False, options.threads))
        line = f"{name:14}{statistics.median(ours):9.3f}"
        if theirs:
            ratios[name] = statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
            line += f"{statistics.median(theirs):9.3f}{ratios[name]:8.2f}"
        print(line, flush=True)
    if ratios:
        worst = min(ratios, key=ratios.__getitem__)
        print(f"geometric mean {statistics.geometric_mean(ratios.values()):.2f}; lowest {ratios[worst]:.2f} ({worst})")


if __name__ == "__main__":
    main()
