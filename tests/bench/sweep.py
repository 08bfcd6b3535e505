"""A sweep over two processes against the same sweep in one: the points of a small GPT on a CS-2.

    python tests/bench/sweep.py [--processes N] [--rounds R]

Both are measured in turns, each with processes of its own that have loaded the package, and have planned nothing; the
figure is the median of the ratios of their times. Beside it stands what the processes computed, by their own clocks:
where other work keeps the cores busy, the processes cannot be faster than the cores that are left, and `processes times
the computing of one over that of many` is what they would gain alone.
"""

import argparse
import multiprocessing
import os
import pathlib
import statistics
import time
from concurrent.futures import ProcessPoolExecutor

from cstorch_compat.planning.recording import record_script
from wse_sim import sweep

SCRIPT = pathlib.Path(__file__).parents[2] / "notebooks" / "scripts" / "published" / "gpt2.py"
BATCHES, SYSTEMS = range(8, 104, 8), (1, 2)


def seconds(step: object, processes: int) -> tuple[float, float]:
    """The time of the sweep alone, and of all processors in it: the processes are there before it begins."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        # As many at a time as there are processes, so that each gets one and has the package loaded.
        for future in [pool.submit(wait_loaded, 1.0) for _ in range(processes)]:
            future.result()
        pids = list(pool._processes)
        start, computed = time.perf_counter(), sum(map(processor_seconds, pids))
        records = sweep({"gpt2": step}, ["wse2"], ["streaming"], BATCHES, SYSTEMS, executor=pool)
        whole, computed = time.perf_counter() - start, sum(map(processor_seconds, pids)) - computed
    assert len(records) == len(BATCHES) * len(SYSTEMS) and not any(r.error for r in records)
    return whole, computed


def processor_seconds(pid: int) -> float:
    """What a process has computed by now, as Linux counts it."""
    user, system = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def wait_loaded(seconds: float) -> None:
    """Sleep in a process that has loaded what a point needs, as this module imports it."""
    time.sleep(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    step = record_script(str(SCRIPT), ["--layers", "4"])
    step.program(step.batch_size + 1)  # recorded for other batches before the clock runs
    ratios, alone = [], []
    for _ in range(options.rounds):
        (one, work), (many, more) = (seconds(step, n) for n in (1, options.processes))
        ratios.append(one / many)
        alone.append(options.processes * work / more)
        print(
            f"1 process {one:6.1f} s ({work:.1f} s computing), {options.processes} processes {many:6.1f} s ({more:.1f})"
        )
    print(f"median ratio {statistics.median(ratios):.2f}, by computing {statistics.median(alone):.2f}")


if __name__ == "__main__":
    main()
