"""How fast the fabric runs: millions of core-cycles in a second, for each engine.

    python tests/bench/fabric.py [WIDTHxHEIGHT ...] [--share S] [--uniform] [--rounds N]
    python tests/bench/fabric.py [WIDTHxHEIGHT ...] --all-reduce
    python tests/bench/fabric.py --load

The first measures programs that never end on 128x128 and 757x996. Every core sends 32 words to the next core of its row
while it adds those that it receives to its memory, again and again; with `--share` only some of the rows do, and only
lists are measured. With `--uniform` cores send single words to random ones, as often as they can start an operation.
Only core-cycles of active cores count. Engines are interleaved; wall and processor time of the best and the median
round are given, since on a machine that others use wall time says little. `--all-reduce` times an all-reduce of one
word over each mesh instead, `--load` how long a fresh process takes to load the compiled engine that was kept.
"""

import os
import statistics
import subprocess
import sys
import time

import numpy as np

from wse_sim import WSE2
from wse_sim.fabric import EAST, RAMP, SOUTH, WEST, Builder, Memory, Mesh, Received, Sent, simulate, simulate_phase
from wse_sim.fabric.assemble import assemble_mesh
from wse_sim.fabric.mesh import NORTH, check
from wse_sim.fabric.runner import EngineRunner
from wse_sim.layout import Rect
from wse_sim.phase import AllReduce

ENGINES = (("list", 1), ("scan", 1), ("list", 2), ("scan", 2))
CORE_CYCLES = 20_000_000
"""About how many each measurement runs."""
WARM_CYCLES = 64
FOREVER = 1_000_000
COLOURS, TAKEN_MOST = 24, 7
LOAD = """
import time
start = time.perf_counter()
import numba
numba_there = time.perf_counter()
import wse_sim.fabric
fabric_there = time.perf_counter()
import wse_sim.fabric.engine
spans = numba_there - start, fabric_there - numba_there, time.perf_counter() - fabric_there
print("numba {:.2f} s, wse_sim.fabric {:.2f} s, the compiled engine {:.2f} s".format(*spans))
"""


def streaming(width: int, height: int, share: float = 1.0) -> Mesh:
    """Rows of cores that pass words east, on two colours by turns."""
    mesh = Mesh(WSE2, width, height)
    rows = np.arange(0, height, max(1, round(1 / share)))[:, None]
    for parity in (0, 1):
        senders = np.arange(parity, width - 1, 2)
        mesh.route(parity, senders, rows, RAMP, [EAST])
        mesh.route(parity, senders + 1, rows, WEST, [RAMP])
    kinds = {(x % 2, x == 0, x == width - 1): x for x in range(width)}
    for parity, is_first, is_last in kinds:
        builder = Builder(f"{parity} {is_first} {is_last}", 64)
        with builder.loop(FOREVER):
            if not is_last:
                builder.move(Sent(parity), Memory(0), 32, asynchronous=True)
            if not is_first:
                builder.add(Memory(32), Memory(32), Received(1 - parity), 32)
        columns = [x for x in range(width) if (x % 2, x == 0, x == width - 1) == (parity, is_first, is_last)]
        mesh.run(builder.build(), np.array(columns), rows)
    return mesh


def uniform(width: int, height: int) -> Mesh:
    """A flow from each core to a random one, first along the row, as far as colours are free on all of its way."""
    generator, mesh = np.random.default_rng(1), Mesh(WSE2, width, height)
    is_free = np.ones((COLOURS, height, width), bool)
    sends: dict[tuple[int, int], int] = {}
    takes: dict[tuple[int, int], list[int]] = {}
    for t in generator.permutation(width * height):
        start, end = (int(t) % width, int(t) // width), tuple(generator.integers(0, [width, height]).tolist())
        moves = [EAST if end[0] > start[0] else WEST] * abs(end[0] - start[0])
        moves += [SOUTH if end[1] > start[1] else NORTH] * abs(end[1] - start[1])
        path = [start]
        for move in moves:
            x, y = path[-1]
            path.append((x + (move == EAST) - (move == WEST), y + (move == SOUTH) - (move == NORTH)))
        x, y = np.array(path).T
        colours = np.flatnonzero(is_free[:, y, x].all(1))
        if len(path) == 1 or len(colours) == 0 or len(takes.get(end, [])) == TAKEN_MOST:
            continue
        colour = int(generator.choice(colours))
        is_free[colour, y, x] = False
        sends[start] = colour
        takes.setdefault(end, []).append(colour)
        for i, (source, target) in enumerate(zip([RAMP, *moves], [*moves, RAMP], strict=True)):
            mesh.route(colour, *path[i], source if source == RAMP else (source + 2) % 4, [target])
    for cell in sends.keys() | takes.keys():
        builder = Builder("random", 2)
        for colour in takes.get(cell, []):
            builder.move(Memory(1, 0), Received(colour), FOREVER, asynchronous=True)
        if cell in sends:
            with builder.loop(FOREVER):
                builder.move(Sent(sends[cell]), Memory(0), 1)
        mesh.run(builder.build(), *cell)
    print(f"{len(sends)} flows")
    return mesh


class Engine:
    """A mesh that runs on and on."""

    def __init__(self, mesh: Mesh, engine: str, threads: int):
        check(mesh)
        self.state, _ = assemble_mesh(mesh)
        self.runner, self.by_list = EngineRunner(self.state, threads), engine == "list"
        self.runner.advance(WARM_CYCLES, self.by_list)

    def measure(self, cycles: int) -> tuple[float, float]:
        """Core-cycles of active cores in a second of wall time and of processor time."""
        before, wall, processor = self.runner.active, time.perf_counter(), time.process_time()
        self.runner.advance(self.runner.now + cycles, self.by_list)
        done = self.runner.active - before
        return done / (time.perf_counter() - wall), done / (time.process_time() - processor)


def compare(size: str, mesh: Mesh, share: float, rounds: int) -> None:
    cores = mesh.width * mesh.height
    cycles = max(16, round(CORE_CYCLES / cores / share))
    engines = {e: Engine(mesh, *e) for e in ENGINES if e[0] == "list" or share == 1}
    found = {e: [] for e in engines}
    for _ in range(rounds):
        for e, engine in engines.items():
            found[e].append(engine.measure(cycles))
    state = engines[ENGINES[0]].state
    print(f"{size}, {cycles} cycles, {state.bytes / cores:.0f} bytes for each core, load {os.getloadavg()[0]:.1f}")
    for (engine, threads), rates in found.items():
        texts = [f"best {max(r) / 1e6:.1f}, median {statistics.median(r) / 1e6:.1f}" for r in zip(*rates, strict=True)]
        print(f"  {engine} on {threads}: M core-cycles/s by wall {texts[0]}; by processor time {texts[1]}")


def all_reduce(width: int, height: int) -> None:
    for algorithm in ("two_phase", "chain"):
        phase = AllReduce(Rect(0, 0, width, height), "xy", 1, algorithm=algorithm)
        wall, processor = time.perf_counter(), time.process_time()
        done = simulate_phase(phase, WSE2, np.ones((height, width, 1), np.float32)).expect_finished()
        assert (done.memory == width * height).all()
        spans = f"{time.perf_counter() - wall:.1f} s, {time.process_time() - processor:.1f} s of processor time"
        print(f"{width}x{height} {algorithm}: {done.cycles} cycles in {spans}, {done.state_bytes / 1e9:.2f} GB")


def option(arguments: list[str], name: str, default: float) -> float:
    return float(arguments[arguments.index(name) + 1]) if name in arguments else default


def main(arguments: list[str]) -> None:
    simulate(streaming(4, 4), "list", max_cycles=10)  # loads and compiles
    if "--load" in arguments:
        subprocess.run([sys.executable, "-c", LOAD], check=True)
        return
    share, rounds = option(arguments, "--share", 1.0), int(option(arguments, "--rounds", 5))
    for size in [a for a in arguments if a[0].isdigit() and "x" in a] or ["128x128", "757x996"]:
        width, height = map(int, size.split("x"))
        if "--all-reduce" in arguments:
            all_reduce(width, height)
            continue
        mesh = uniform(width, height) if "--uniform" in arguments else streaming(width, height, share)
        compare(size, mesh, share, rounds)


if __name__ == "__main__":
    main(sys.argv[1:])
