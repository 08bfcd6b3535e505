"""Run the engine on the state of a mesh: with threads, by list or by scan, until nothing can change any more."""

import importlib
import threading
from types import ModuleType

import numpy as np

from lazytensor.system.threads import try_start
from wse_sim.fabric.assemble import EngineState
from wse_sim.fabric.mesh import DIRECTION_OFFSETS
from wse_sim.isa import record

ENGINES = ("auto", "list", "scan")
"""Values of the argument `engine`."""
SAMPLE_CYCLES, SPAN_CYCLES = 64, 4096
"""Cycles after which the engine "auto" chooses between list and scan for the first time; 4096 cycles between later
choices.
"""
# With all cores active a scan is 3 % faster than lists (README); with few active cores, it mostly visits sleeping ones.
MIN_SCAN_ACTIVITY_RATIO = 0.6
"""Minimum fraction of active cores for a scan."""
MIN_QUIET_CYCLES = 1000
"""Cycles without activity of any core after which the runner searches for rings; `QUIET_CYCLES_PER_LANE` is added for
each lane of a router.
"""
QUIET_CYCLES_PER_LANE = 4


def load_engine() -> ModuleType:
    """Return the module of the compiled engine; the first call imports Numba."""
    # Importing Numba takes 0.2 s, and neither cost models nor the NumPy reference need it.
    return importlib.import_module("wse_sim.fabric.engine")


class EngineRunner:
    """A runner that advances an `EngineState` with up to `threads` threads.

    - `now`: the next cycle
    - `active`: active cores, summed over the cycles
    - `is_over`: True if nothing can change any more, a core has failed, or wavelets circulate and no core can do
      anything
    """

    def __init__(self, state: EngineState, threads: int = 1):
        self._state, self._engine = state, load_engine()
        self._blocks = -(-state.size("cores") // 64)
        self._bands = self._cut(threads)
        self._lists: np.ndarray | None = None
        self._quiet, self._patience = (
            0,
            MIN_QUIET_CYCLES + QUIET_CYCLES_PER_LANE * state.size("cores") * state.size("lanes"),
        )
        self.now, self.active, self.is_over = 0, 0, False

    def advance(self, most: int, by_list: bool) -> None:
        """Run until cycle `most` or until the run is over, and update the fields of the runner.

        If `by_list` is true, only cores in the lists are visited, else all cores. If the system starts no more threads,
        the run goes on with one.
        """
        # After a scan it is unknown which cores sleep, so all are visited once to rebuild the lists.
        if not by_list or self._lists is None:
            self._state.cores[:, record.SLEEP_START] = 0
            self._lists = np.zeros((self._bands, record.LIST_PLANES, self._blocks), np.int64)
            self._lists[0, self.now % record.LIST_PLANES] = self._all()
        ends = self._run_bands(most, by_list)
        if ends is None:
            # The system starts no more threads: continue with one band and new lists.
            self._bands, self._lists = 1, None
            self.advance(most, by_list)
            return
        self.now, active, self._quiet = ends
        self.active += active
        if not by_list:
            self._lists = None
        # Quiet for long but no ring: a wavelet is on a very long path. The search for rings is expensive, so wait twice
        # as long before the next one.
        if self.now < most and self._quiet >= self._patience and not find_ring_lanes(self._state).any():
            self._patience *= 2
            self.advance(most, by_list)
        self.is_over = self.is_over or self.now < most or self._quiet < 0

    def _cut(self, threads: int) -> int:
        """Return the number of bands of blocks, at most `threads`, and shorten the sweeps of short bands in
        `state.shape`.

        Updates at the two ends of a band must not overlap, so a small mesh has one band.
        """
        cores, width = self._state.size("cores"), self._state.size("width")
        lag = record.block_lag(width if cores > width else 1)
        # Each of the wedges at the two ends of a band reaches `lag` blocks for every stage.
        bands = max(1, min(threads, self._blocks // (2 * lag)))
        if bands > 1:
            sweep = self._state.shape[record.SHAPE_FIELDS.index("sweep") :]
            # A sweep of c cycles has 2 c stages, so fewer cycles make the wedges fit.
            sweep[0] = min(sweep[0], (self._blocks // bands // (2 * lag) + 1) // 2)
        return bands

    def _all(self) -> np.ndarray:
        """Return int64 words with one bit set for each core, 64 cores in a word."""
        bits = np.full(self._blocks, -1, np.int64)
        if over := self._state.size("cores") % 64:
            bits[-1] = (1 << over) - 1
        return bits

    def _run_bands(self, most: int, by_list: bool) -> tuple[int, int, int] | None:
        """Run all bands, each on a separate thread; the first one on this thread. Return (cycle, active cores, quiet
        cycles).

        Active cores are summed over the cycles. Return None if a thread could not be started; nothing has run then.
        """
        assert self._lists is not None
        sync = np.zeros((2 + 2 * self._bands) * record.NOTE_SLOT_WORDS, np.int64)
        ends = [(0, 0, 0)] * self._bands
        # The engine uses raw addresses, so these arrays have to live until all threads have finished.
        addresses, lists = self._state.addresses(), self._lists.reshape(-1)

        # Bands wait for each other in every cycle, so none may begin before all have a thread.
        gate, has_all = threading.Event(), [False]

        def join_in(band: int) -> None:
            gate.wait()
            if has_all[0]:
                work(band)

        def work(band: int) -> None:
            span = (self.now, most, self._quiet, self._patience)
            ends[band] = self._engine.run(addresses, lists, sync, *span, band, self._bands, by_list)

        # Band 0 runs on this thread. The entry point releases the interpreter's lock, so the other threads run
        # concurrently.
        others = [threading.Thread(target=join_in, args=(band,)) for band in range(1, self._bands)]
        started = [other for other in others if try_start(other)]
        has_all[0] = len(started) == len(others)
        gate.set()
        if has_all[0]:
            work(0)
        for other in started:
            other.join()
        return ends[0] if has_all[0] else None


def run_to_end(state: EngineState, engine: str, threads: int, max_cycles: int) -> int:
    """Run a state until the run is over, for at most `max_cycles` cycles. Return the cycle at which the engine stopped.

    `engine` is "list", "scan" or "auto", which chooses between the two by the fraction of active cores.
    """
    runner = EngineRunner(state, threads)
    if engine != "auto":
        runner.advance(max_cycles, engine == "list")
        return runner.now
    # A short span first, to measure the activity, then long spans, so that choosing costs little.
    by_list, span = True, SAMPLE_CYCLES
    while not runner.is_over and runner.now < max_cycles:
        before, counted = runner.now, runner.active
        runner.advance(min(max_cycles, before + span), by_list)
        visits = max(1, runner.now - before) * state.size("cores")
        by_list, span = runner.active - counted < MIN_SCAN_ACTIVITY_RATIO * visits, SPAN_CYCLES
    return runner.now


def find_ring_lanes(state: EngineState) -> np.ndarray:
    """Return a mask [cores, lanes] of the lanes that are on a ring of routes and have a wavelet.

    The current switch positions count. Each lane takes wavelets from at most one other. A walk against the routes with
    as many steps as there are lanes either ends or reaches a ring, and every lane of a ring is reached by such a walk.
    """
    # Pointer doubling: after k rounds `reached` is 2 ** k steps back, so log2 of the number of lanes rounds are enough.
    before = _upstream_lanes(state)
    end = len(before) - 1
    reached = before
    for _ in range(end.bit_length()):
        reached = reached[reached]
    on_ring = np.zeros(end + 1, bool)
    on_ring[reached] = True
    lanes = state.size("lanes")
    return on_ring[:end].reshape(-1, lanes) & (state.occupancy()[:, :lanes] > 0)


def _upstream_lanes(state: EngineState) -> np.ndarray:
    """Return, for each lane of each router, the lane that feeds it, in a flat numbering (router, lane) of all lanes.

    Lanes that no lane feeds get the total number of lanes; this number is also appended as a last entry.
    """
    cores, lanes, width = state.size("cores"), state.size("lanes"), state.size("width")
    routes, end = state.outputs()[:, :lanes], cores * lanes
    before = np.full((cores, lanes), end, np.int64)
    colour = state.lanes[:, record.LANE_COLOUR]
    for d, (dx, dy) in DIRECTION_OFFSETS.items():
        step, back = dx + dy * width, (d + 2) % 4
        takes = (routes & record.OUTPUTS != 0) & (routes >> record.SOURCE_SHIFT == d)
        for j in range(lanes):
            here = np.flatnonzero(takes[:, j])
            for other in np.flatnonzero(colour == colour[j]):
                feeds = here[routes[here + step, other] >> back & 1 == 1]
                before[feeds, j] = (feeds + step) * lanes + other
    return np.append(before.reshape(-1), end)
