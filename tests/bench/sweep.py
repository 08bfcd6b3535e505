"""A sweep of 200 points over two processes against the same sweep in one.

    python -m tests.bench.sweep [--processes N] [--rounds R] [--gpt2]

The points are two perceptrons, of two and of three layers, on the WSE-2 and the WSE-3, with 25 sizes of a batch, on one
system and on two, in weight streaming. As many points as a study has are 50 groups or more that ask for prices of their
own; 24 points (`--gpt2`: four layers of GPT-2 small, 12 batches of the WSE-2, one and two systems) are six, which two
processes cannot share evenly, however little each of them does twice.

Both are measured in turns, each with processes of its own that have loaded the package, and have planned nothing; the
figure is the median of the ratios of their times. Beside it stands what the processes computed, by their own clocks:
where other work keeps the cores busy, the processes cannot be faster than the cores that are left, and `processes times
the computing of one over that of many` is what they would gain alone.
"""

import argparse
import multiprocessing
import pathlib
import statistics
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from cstorch_compat.planning.recording import record_script
from tests.processors import processor_seconds
from tests.recorded_steps import perceptron
from wse_sim import sweep

SCRIPT = pathlib.Path(__file__).parents[2] / "notebooks" / "scripts" / "published" / "gpt2.py"
EXTENTS = {"two layers": (96, 40, 10), "three layers": (200, 120, 60, 10)}
SYSTEMS = (1, 2)


def asked_for(is_gpt2: bool) -> Mapping[str, Any]:
    """What the sweep is asked for, recorded for other batches before the clock runs."""
    if is_gpt2:
        programs = {"gpt2": record_script(str(SCRIPT), ["--layers", "4"])}
        return {"programs": programs, "machines": ["wse2"], "batches": range(8, 104, 8)}
    programs = {name: perceptron(extents) for name, extents in EXTENTS.items()}
    return {"programs": programs, "machines": ["wse2", "wse3"], "batches": range(8, 208, 8)}


def seconds(asked: Mapping[str, Any], processes: int) -> tuple[float, float]:
    """The time of the sweep alone, and of all processors in it: the processes are there before it begins."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        # As many at a time as there are processes, so that each gets one and has the package loaded.
        for future in [pool.submit(wait_loaded, 1.0) for _ in range(processes)]:
            future.result()
        pids = list(pool._processes)
        start, computed = time.perf_counter(), sum(map(processor_seconds, pids))
        records = sweep(**asked, modes=["streaming"], systems=SYSTEMS, executor=pool)
        whole, computed = time.perf_counter() - start, sum(map(processor_seconds, pids)) - computed
    assert not any(r.error for r in records)
    return whole, computed


def wait_loaded(seconds: float) -> None:
    """Sleep in a process that has loaded what a point needs, as this module imports it."""
    time.sleep(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gpt2", action="store_true", help="the 24 points of GPT-2 small")
    options = parser.parse_args()
    asked = asked_for(options.gpt2)
    for step in asked["programs"].values():
        step.program(step.batch_size + 1)
    ratios, alone = [], []
    for _ in range(options.rounds):
        (one, work), (many, more) = (seconds(asked, n) for n in (1, options.processes))
        ratios.append(one / many)
        alone.append(options.processes * work / more)
        print(
            f"1 process {one:6.1f} s ({work:.1f} s computing), {options.processes} processes {many:6.1f} s ({more:.1f})"
        )
    print(f"median ratio {statistics.median(ratios):.2f}, by computing {statistics.median(alone):.2f}")


if __name__ == "__main__":
    main()
