"""How fast the fabric runs: millions of core-cycles in a second, for each engine, on meshes where every core is busy.

    python tests/bench/fabric.py [meshes as WIDTHxHEIGHT, by default 128x128 757x996] [--rounds N] [--all-reduce]

Every core sends 32 words to the next core of its row while it adds those that it receives to its memory, again and
again. Engines are interleaved; wall and processor time of the best and the median round are given, since a machine that
others use makes wall time meaningless. `--all-reduce` times an all-reduce of one word over each mesh instead.
"""

import os
import statistics
import sys
import time

import numpy as np

from wse_sim import WSE2
from wse_sim.fabric import EAST, RAMP, WEST, Builder, Memory, Mesh, Received, Sent, simulate, simulate_phase
from wse_sim.layout import Rect
from wse_sim.phase import AllReduce

ENGINES = (("list", 1), ("scan", 1), ("scan", 2))
CORE_CYCLES = 20_000_000
"""About how many each measurement runs."""


def streaming(width: int, height: int) -> Mesh:
    """Rows of cores that pass words east, on two colours by turns."""
    mesh = Mesh(WSE2, width, height)
    every = slice(None)
    for parity in (0, 1):
        senders = np.arange(parity, width - 1, 2)
        mesh.route(parity, senders, every, RAMP, [EAST])
        mesh.route(parity, senders + 1, every, WEST, [RAMP])
    kinds = {(x % 2, x == 0, x == width - 1): x for x in range(width)}
    for parity, is_first, is_last in kinds:
        builder = Builder(f"{parity} {is_first} {is_last}", 64)
        with builder.loop(1_000_000):
            if not is_last:
                builder.move(Sent(parity), Memory(0), 32, asynchronous=True)
            if not is_first:
                builder.add(Memory(32), Memory(32), Received(1 - parity), 32)
        columns = [x for x in range(width) if (x % 2, x == 0, x == width - 1) == (parity, is_first, is_last)]
        mesh.run(builder.build(), np.array(columns), every)
    return mesh


def measure(mesh: Mesh, engine: str, threads: int, cycles: int) -> tuple[float, float]:
    """Wall and processor seconds of `cycles` cycles, without building and reading the state."""
    spans = []
    for n in (1, 1 + cycles):
        wall, processor = time.perf_counter(), time.process_time()
        done = simulate(mesh, engine, threads, n)
        assert done.cycles == n
        spans.append((time.perf_counter() - wall, time.process_time() - processor))
    return spans[1][0] - spans[0][0], spans[1][1] - spans[0][1]


def all_reduce(width: int, height: int) -> None:
    for algorithm in ("two_phase", "chain"):
        phase = AllReduce(Rect(0, 0, width, height), "xy", 1, algorithm=algorithm)
        wall, processor = time.perf_counter(), time.process_time()
        done = simulate_phase(phase, WSE2, np.ones((height, width, 1), np.float32)).expect_finished()
        assert (done.memory == width * height).all()
        spans = f"{time.perf_counter() - wall:.1f} s, {time.process_time() - processor:.1f} s of processor time"
        print(f"{width}x{height} {algorithm}: {done.cycles} cycles in {spans}, {done.state_bytes / 1e9:.2f} GB")


def main(arguments: list[str]) -> None:
    for engine, threads in ENGINES:
        simulate(streaming(4, 4), engine, threads, 10)  # loads and compiles
    rounds = int(arguments[arguments.index("--rounds") + 1]) if "--rounds" in arguments else 5
    sizes = [a for a in arguments if "x" in a] or ["128x128", "757x996"]
    for size in sizes:
        width, height = map(int, size.split("x"))
        if "--all-reduce" in arguments:
            all_reduce(width, height)
            continue
        mesh, cores = streaming(width, height), width * height
        cycles = max(10, CORE_CYCLES // cores)
        spans = {e: [] for e in ENGINES}
        for _ in range(rounds):
            for engine, threads in ENGINES:
                spans[engine, threads].append(measure(mesh, engine, threads, cycles))
        print(f"{size}, {cycles} cycles, load {os.getloadavg()[0]:.1f}")
        for (engine, threads), found in spans.items():
            rates = [[cores * cycles / s / 1e6 for s in one] for one in zip(*found, strict=True)]
            texts = [f"best {max(r):.1f}, median {statistics.median(r):.1f}" for r in rates]
            print(f"  {engine} on {threads}: M core-cycles/s by wall {texts[0]}; by processor time {texts[1]}")


if __name__ == "__main__":
    main(sys.argv[1:])
