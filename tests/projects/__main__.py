"""Run other people's projects on this package and on PyTorch, and compare the losses that they print.

    python -m tests.projects [NAME ...] --sources FOLDER [--torch-python PYTHON] [--torch-libraries FOLDER]

NAME is a script of this folder; its first line has the project and where it is looked for in the folder of sources:
pip packages (`pip install --no-deps --target FOLDER`) or a copy of the repository in a subfolder. Each script prints
five losses for each model, one a line, and runs by itself in an empty folder, with `lazywafer run` and with PyTorch.
Words after NAME and a colon select some models (`timm_models:resnet18,resnet50`). Nothing is downloaded.

The table has, for each script, the largest relative difference of two losses, PyTorch's own one if it computes without
oneDNN (`--spread`), three ratios of CPU time to PyTorch's, and the first loss that differs by more than 1e-4 or the
obstacle. Where PyTorch differs from itself by as much, rounding is the cause. The ratios are of the imports, which end
at the first call of `torch.manual_seed`, of the first loss of each model with its construction, and of later losses.
"""

import argparse
import ast
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
SCRIPTS = pathlib.Path(__file__).parent
MAX_RELATIVE_DIFFERENCE = 1e-4
MAX_SECONDS = 1800
MIN_CPU_SECONDS = 1e-3
"""The least divisor of a ratio of times. Shorter times are below the resolution of a loaded machine."""
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d*(?:e[-+]?\d+)?|nan|inf)")


@dataclasses.dataclass(frozen=True)
class Output:
    """What a script printed.

    lines    the lines that have a number
    seconds  CPU seconds of the process when each line was printed
    imports  CPU seconds at the first call of torch.manual_seed
    error    the last error, or "" if the script ended well
    """

    lines: list[str]
    seconds: list[float]
    imports: float
    error: str


MEASURED = """
import runpy, sys, time, torch
class Clock:
    def __init__(self, stream):
        self.stream, self.times, self.text = stream, open("printed_lines", "w", buffering=1), ""
    def note(self, line):
        self.times.write(f"{time.process_time()} {line}" + chr(10))
    def write(self, text):
        *lines, self.text = (self.text + text).split(chr(10))
        for line in lines:
            self.note(line)
        return self.stream.write(text)
    def __getattr__(self, name):
        return getattr(self.stream, name)
clock, manual_seed = Clock(sys.stdout), torch.manual_seed
def note_imports(seed):
    torch.manual_seed = manual_seed
    clock.note("imports")
    return manual_seed(seed)
torch.manual_seed, sys.stdout = note_imports, clock
if sys.argv.pop(1) == "varied":
    torch.backends.mkldnn.enabled = False
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""A program that runs a script and writes each line that it prints to a file, after the CPU seconds of the process.

With "varied" as its first argument, PyTorch uses other kernels, which round differently.
"""


def run_script(
    command: list[str], script: str, arguments: list[str], paths: list[str], sources: str, kernels: str = "usual"
) -> Output:
    """Run a script of this folder in an empty folder, with `paths` as PYTHONPATH. `kernels` is "usual" or "varied"."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([*paths, sources]),
        "PROJECTS": sources,
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
    }
    with tempfile.TemporaryDirectory() as folder:
        # Copy the script, so that its folder, which Python searches first, hides no package.
        path = shutil.copy(SCRIPTS / f"{script}.py", os.path.join(folder, "script_to_run.py"))
        program = pathlib.Path(folder, "measured.py")
        program.write_text(MEASURED)
        process = subprocess.run(
            ["timeout", str(MAX_SECONDS), *command, str(program), kernels, path, *arguments],
            cwd=folder, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        printed = pathlib.Path(folder, "printed_lines")
        pairs = [line.partition(" ")[::2] for line in printed.read_text().splitlines()] if printed.exists() else []
    errors = [line.rstrip() for line in process.stderr.splitlines() if line.strip()]
    status = process.returncode
    if "-v" in sys.argv and status:
        print("\n".join(errors))
    numbered = [(float(seconds), line.strip()) for seconds, line in pairs if NUMBER.search(line)]
    imports = next((float(seconds) for seconds, line in pairs if line == "imports"), 0.0)
    error = "" if status == 0 else (_find_error(errors) if errors else f"exit status {status}")
    return Output([line for _, line in numbered], [seconds for seconds, _ in numbered], imports, error)


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


def get_seconds(output: Output, count: int) -> tuple[float, float, float]:
    """Return the CPU seconds of the imports, and those of first and of later lines, of the first `count` lines.

    The first line of a model is one whose text without numbers is new.
    """
    first = later = 0.0
    before, texts = output.imports, set()
    for seconds, line in zip(output.seconds[:count], output.lines, strict=False):
        text = NUMBER.sub("", line)
        first, later = (first, later + seconds - before) if text in texts else (first + seconds - before, later)
        texts.add(text)
        before = seconds
    return output.imports, first, later


def describe_needs(script: str, errors: str) -> str:
    """Return what a script needs in the folder of sources if a module or file is missing in `errors`, else ""."""
    if not re.search(r"ModuleNotFoundError|FileNotFoundError|NotADirectoryError", errors):
        return ""
    needs = ast.get_docstring(ast.parse((SCRIPTS / f"{script}.py").read_text())) or ""
    return f" (pip install --no-deps --target SOURCES, or copy, what the script names: {' '.join(needs.split())})"


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
    words = [word.partition(":")[::2] for word in options.names or known]
    if unknown := sorted({name for name, _ in words} - set(known)):
        parser.error(f"no script {', '.join(unknown)}; choose from {', '.join(known)}")
    sources = os.path.abspath(options.sources)
    if not os.path.isdir(sources):
        parser.error(f"no folder {sources}; create it with: pip install --no-deps --target {sources} PACKAGE")
    width = max(map(len, known)) + 2
    heads = (
        f"{'losses':>8}{'difference':>12}{'own':>9}{'import':>8}{'first':>7}{'later':>7}  first difference or obstacle"
    )
    print(f"{'project':{width}}{heads}", flush=True)
    failed = False
    for name, models in words:
        arguments = models.split(",") if models else []
        ours = run_script([sys.executable, "-m", "cstorch_compat", "run"], name, arguments, [str(ROOT)], sources)
        if not options.torch_python:
            print("\n".join(ours.lines), ours.error + describe_needs(name, ours.error), sep="\n")
            failed |= bool(ours.error)
            continue
        libraries = [os.path.abspath(options.torch_libraries)] if options.torch_libraries else []
        theirs = run_script([options.torch_python], name, arguments, libraries, sources)
        own = "-"
        if options.spread:
            varied = run_script([options.torch_python], name, arguments, libraries, sources, "varied")
            own = f"{get_largest_difference(varied.lines, theirs.lines)[0]:.1e}"
        largest, _ = get_largest_difference(ours.lines, theirs.lines)
        count = min(len(ours.lines), len(theirs.lines))
        seconds = zip(get_seconds(ours, count), get_seconds(theirs, count), strict=True)
        ratios = [a / max(b, MIN_CPU_SECONDS) for a, b in seconds]
        text = find_first_difference(ours.lines, theirs.lines) or ours.error
        if theirs.error:
            text += f" (PyTorch: {theirs.error})"
        text += describe_needs(name, text)
        failed |= bool(text)
        counts = f"{len(ours.lines)}/{len(theirs.lines)}"
        times = f"{ratios[0]:8.2f}{ratios[1]:7.2f}{ratios[2]:7.2f}"
        print(f"{name:{width}}{counts:>8}{largest:12.1e}{own:>9}{times}  {text}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
