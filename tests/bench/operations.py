"""Times of single operations, forward and backward, in a plain loop, and PyTorch's times if there is an interpreter.

    python -m tests.bench.operations [--torch-python PYTHON] [--sizes 1e3,1e5,1e7] [NAME ...]

The table of `operation_cases` has the operations. Each runs in two processes in turns, and the figure of each is its
fastest batch of iterations after a warm-up. With one thread it is CPU time, so that other processes do not change it;
with more it is the time of the clock. The ratio is PyTorch's time over that of lazywafer: above 1, lazywafer is
faster. `NAME` selects the cases whose expression contains it.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

from tests.bench.operation_cases import cases

CHILD = pathlib.Path(__file__).parent / "operation_cases.py"


class Interpreter:
    """A process that times cases with the `torch` of this package, or with that of another interpreter."""

    def __init__(self, python: str, is_ours: bool, threads: int):
        # PyTorch's interpreter must not find a package of this repository that is called torch too.
        env = {key: value for key, value in os.environ.items() if is_ours or key != "PYTHONPATH"}
        if is_ours:
            env["PYTHONPATH"] = str(CHILD.parent.parent.parent)
        command = [python, str(CHILD), "ours" if is_ours else "torch", str(threads)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
        )

    def seconds(self, name: str, size: int, budget: float) -> float | str:
        """Return the seconds of one iteration, measured for about `budget` seconds, or the text of the error."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{name}\t{size}\t{budget}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        try:
            return float(answer)
        except ValueError:
            return answer or "the process ended"

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def measure(interpreters: list[Interpreter], name: str, size: int, rounds: int, budget: float) -> list[float | str]:
    """Return the least seconds of a case for each interpreter, or an error message. They run in turns."""
    times: list[list[float | str]] = [[] for _ in interpreters]
    for _ in range(rounds):
        for answers, interpreter in zip(times, interpreters, strict=True):
            answers.append(interpreter.seconds(name, size, budget))
    return [next((a for a in answers if isinstance(a, str)), None) or min(answers) for answers in times]  # type: ignore


def row_text(ratio: float, size: int, name: str, seconds: list[float]) -> str:
    """Return the line of a case: PyTorch's time over ours, the elements, the microseconds of each, the case."""
    times = "".join(f"{1e6 * t:12.0f}" for t in seconds)
    return f"{ratio:7.2f}{size:10}{times} us  {name}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--torch-python", default="", metavar="PYTHON", help="an interpreter that has PyTorch")
    parser.add_argument("--sizes", default="1e3,1e5,1e7", help="elements of the operands (1e3,1e5,1e7)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=0.1, metavar="SECONDS", help="seconds of a measurement (0.1)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each process (1)")
    options = parser.parse_args()
    chosen = [name for name in cases() if not options.names or any(part in name for part in options.names)]
    interpreters = [Interpreter(sys.executable, True, options.threads)]
    if options.torch_python:
        interpreters.append(Interpreter(options.torch_python, False, options.threads))
    rows, errors = [], []
    for size in [int(float(text)) for text in options.sizes.split(",")]:
        for name in chosen:
            answers = measure(interpreters, name, size, options.rounds, options.budget)
            numbers = [a for a in answers if isinstance(a, float)]
            if len(numbers) < len(answers):
                errors.append((name, size, answers))
                continue
            rows.append((numbers[-1] / numbers[0], size, name, numbers))
            print(f"{len(rows)} of {len(chosen)}: {row_text(*rows[-1])}", file=sys.stderr)
    for interpreter in interpreters:
        interpreter.close()
    for row in sorted(rows):
        print(row_text(*row))
    if rows and options.torch_python:
        ratios = [ratio for ratio, *_ in rows]
        low = sum(ratio < 1 / 3 for ratio in ratios)
        print(f"median {statistics.median(ratios):.2f} of {len(ratios)}, {low} under a third, least {min(ratios):.2f}")
    for name, size, answers in errors:
        print(f"no figure: {name} of {size}: {answers}")


if __name__ == "__main__":
    main()
