"""The compiled engine: it advances every router and core by one clock, in two phases.

Imported when the first mesh runs. Phase 1 (`_decide_block`) reads the queues as they are at the start of the cycle. It
writes only the state of its own core: which lanes the router will forward, and the progress of the core. Phase 2
(`_commit_block`) moves the wavelets. Every queue has one reader and one writer, so neither the order of the cores nor
the number of threads changes a result.

Both phases visit cores in order, in blocks of 64. Phase 2 follows phase 1 at a distance of two rows, at which neither
reads what the other writes. The next cycle follows at the same distance, and so on for a few cycles (a sweep), so that
the state is loaded into the caches once for several cycles. Each thread has a band of blocks. In list mode a bit for
each core marks whether it has to be visited.
"""

import numpy as np

from wse_sim.fabric import core, router
from wse_sim.fabric.compiled import (
    Int,
    Pointers,
    compile_entry_point,
    compile_expanded,
    compile_inlined,
    lowest_set_bit,
    make_pointers,
    prefetch,
    wait_at_barrier,
)
from wse_sim.isa.record import (
    COUNTERS_AT,
    EVENT,
    FAULTED,
    GRANTS,
    IN_TRANSIT,
    LIST_PLANES,
    NOTE_SLOT_WORDS,
    PROGRAM,
    ROUTER_MOVES,
    SLEEP_START,
    STATE,
    WAITING,
    block_lag,
)

PREFETCH_CORES_AHEAD, PREFETCHED_WORDS = 8, 64
"""A core's record and memory are prefetched this many visits ahead: up to 128 words of the record and 64 of the
memory.
"""
# Plain names, since inlined functions cannot look up attributes of modules.
_decide_router, _decide_core, _commit_router = router.decide_router, core.decide_core, router.commit_router


lag_blocks = compile_inlined(block_lag)


@compile_inlined
def _block_count(m: Pointers) -> Int:
    return (m.cores + 63) >> 6


@compile_inlined
def _list_word_index(m: Pointers, band: Int, now: Int, block: Int) -> Int:
    """Return the index in `lists` of the bits that `band` has set for the cores of `block` in cycle `now`."""
    return (LIST_PLANES * band + (now & (LIST_PLANES - 1))) * _block_count(m) + block


@compile_inlined
def _listed_cores(m: Pointers, block: Int, now: Int, bands: Int, by_list: bool) -> Int:
    """Return the cores of `block` to visit in cycle `now`, as bits; all of them if `by_list` is false."""
    # All cores of the block except those past the end of the mesh.
    if not by_list:
        return np.int64(-1) if (block + 1) << 6 <= m.cores else (np.int64(1) << (m.cores & 63)) - 1
    # Each band writes only its own words, and several may wake a core, so the words are combined.
    bits = np.int64(0)
    for band in range(bands):
        bits |= m.lists[_list_word_index(m, band, now, block)]
    return bits


@compile_inlined
def _wake_core(m: Pointers, t: Int, now: Int, band: Int) -> None:
    """Set the bit of core `t` in the list of band `band` for the cycle `now` + 1, so that it is visited then."""
    # There is a set of bits for each cycle that may be in progress, since a sweep writes ahead of what it reads.
    m.lists[_list_word_index(m, band, now + 1, t >> 6)] |= np.int64(1) << (t & 63)


@compile_inlined
def _count_sleep_cycles(m: Pointers, t: Int, until: Int) -> None:
    """Add the cycles from the start of core `t`'s sleep to `until` to the counter of its state, and end the sleep.

    Nothing is added if it does not sleep or has no program.
    """
    c = t * m.stride
    if m.ints[c + SLEEP_START] > 0 and m.ints[c + PROGRAM] >= 0:
        # The state of a sleeping core does not change, so its cycles are counted when it wakes or when the run ends.
        m.ints[c + COUNTERS_AT + m.ints[c + STATE]] += max(0, until - m.ints[c + SLEEP_START])
    m.ints[c + SLEEP_START] = 0


@compile_inlined
def _prefetch_core(m: Pointers, t: Int) -> None:
    """Prefetch the record and the memory of core `t`, which will be visited soon."""
    for line in range(0, min(m.stride + 16, 2 * PREFETCHED_WORDS), 16):
        prefetch(m.ints, t * m.stride + line)
    for line in range(0, min(m.words_per_core, PREFETCHED_WORDS), 16):
        prefetch(m.words, t * m.words_per_core + line)


@compile_expanded
def _decide_block(m: Pointers, block: Int, now: Int, band: Int, bands: Int, by_list: bool, note: Int) -> None:
    """Run phase 1 of cycle `now` on the cores of `block`, in list mode only on those in the lists.

    The result bits of its cores, and the number of active ones, are added to the two words of `sync` at index `note`.
    In list mode an active core is listed for the next cycle, and any other one goes to sleep.
    """
    bits, results, active = _listed_cores(m, block, now, bands, by_list), np.int64(0), np.int64(0)
    if bits == 0:
        return
    # Round robin by the clock, so that a core that has slept continues where it would be otherwise.
    first_lane, first_thread = now % m.nlanes, now % m.threads
    while bits:
        t = (block << 6) + lowest_set_bit(bits)
        # Clear the lowest set bit.
        bits &= bits - 1
        _prefetch_core(m, t + PREFETCH_CORES_AHEAD)
        if by_list:
            _count_sleep_cycles(m, t, now)
        # The router first: both read the queues as they are, and the core's configure may revoke a grant.
        result = _decide_router(m, t, now, first_lane) | _decide_core(m, t, now, first_thread)
        results |= result
        active += result != 0
        if by_list:
            if result:
                _wake_core(m, t, now, band)
            else:
                # Nothing can change by the clock; only a wavelet from a neighbour wakes the core.
                m.ints[t * m.stride + SLEEP_START] = now + 1
    m.sync[note] |= results
    m.sync[note + 1] += active


@compile_expanded
def _commit_block(m: Pointers, block: Int, now: Int, band: Int, bands: Int, by_list: bool) -> None:
    """Run phase 2 of cycle `now` on the cores of `block`.

    In list mode, wake the cores that receive wavelets, and clear the lists of this cycle.
    """
    bits = _listed_cores(m, block, now, bands, by_list)
    if bits == 0:
        return
    while bits:
        t = (block << 6) + lowest_set_bit(bits)
        bits &= bits - 1
        # Without a grant no lane has to be examined.
        if m.longs[(t * m.stride + GRANTS) >> 1] == 0:
            continue
        went = _commit_router(m, t, now)
        if not by_list:
            continue
        for d in range(4):
            if went >> d & 1:
                _wake_core(m, router.neighbour_core(m, t, d), now, band)
    if by_list:
        for other in range(bands):
            # The plane becomes free for the cycle LIST_PLANES later.
            m.lists[_list_word_index(m, other, now, block)] = 0


@compile_inlined
def _note_slot(band: Int, now: Int) -> Int:
    """Return the index in `sync` of the results of `band` in sweep number `now`: two words for each cycle.

    Consecutive sweeps use different places.
    """
    return (2 + 2 * band + now % 2) * NOTE_SLOT_WORDS


@compile_expanded
def _run_sweep(m: Pointers, now: Int, cycles: Int, sweeps: Int, band: Int, bands: Int, by_list: bool) -> None:
    """Run `cycles` cycles of a band from cycle `now` on, interleaved over its blocks.

    Stage 2 c of a block is phase 1 of cycle c, and stage 2 c + 1 is its phase 2. A stage of a block runs after the
    previous stage of all blocks up to `lag` away. First the band runs all stages that depend only on its own blocks.
    After all bands have finished these, it runs those that depend on blocks on both sides of its end.
    """
    # A skewed loop over blocks and stages, like time tiling of a stencil: a block is at stage s when all blocks up to
    # `lag` away have completed stage s - 1.
    first, last = _block_count(m) * band // bands, _block_count(m) * (band + 1) // bands
    lag = lag_blocks(m.width if m.cores > m.width else 1)
    stages, slot, is_last = 2 * cycles, _note_slot(band, sweeps), band == bands - 1
    for i in range(NOTE_SLOT_WORDS):
        m.sync[slot + i] = 0
    # Before step `own` the band keeps a distance from its end, `lag` more for each stage, since the blocks there need
    # the neighbour's blocks of the previous stage.
    own = last - first + (stages - 1) * lag
    for step in range(own if is_last else own + stages - 1):
        if step == own:
            wait_at_barrier(m.sync, bands)
        beyond = step + 1 - own
        # After the barrier: the wedge of blocks on both sides of the end, stage by stage, which no other band accesses.
        for j in range(2 * beyond * lag if beyond > 0 else stages):
            stage = beyond if beyond > 0 else j
            block = last - beyond * lag + j if beyond > 0 else first + step - j * lag
            low = first if band == 0 else first + stage * lag
            high = last if is_last else last - stage * lag
            if beyond > 0 or low <= block < high:
                if stage & 1:
                    _commit_block(m, block, now + (stage >> 1), band, bands, by_list)
                else:
                    _decide_block(m, block, now + (stage >> 1), band, bands, by_list, slot + stage)
    # The next sweep begins with stage 0 of all blocks, so all wedges must be done. Inner bands have met one barrier
    # before their wedge; the last band has no wedge and meets one more here.
    if bands > 1:
        if is_last:
            wait_at_barrier(m.sync, bands)
        wait_at_barrier(m.sync, bands)


@compile_inlined
def _sweep_results(m: Pointers, sweeps: Int, cycle: Int, bands: Int) -> tuple[Int, Int]:
    """Return (result bits of all cores, active cores) of one cycle of a sweep."""
    results, active = np.int64(0), np.int64(0)
    for band in range(bands):
        slot = _note_slot(band, sweeps) + 2 * cycle
        results |= m.sync[slot]
        active += m.sync[slot + 1]
    return results, active


@compile_expanded
def _run_band(
    m: Pointers, now: Int, most: Int, quiet: Int, patience: Int, band: Int, bands: Int, by_list: bool
) -> tuple[Int, Int, Int]:
    """Run a band until cycle `most`, or until the run is over; see `run`.

    Return (cycle, active cores of all bands summed over the cycles, consecutive cycles without activity of any core).
    The third is -1 if a core has failed.
    """
    visited, sweeps = np.int64(0), np.int64(0)
    while now < most and 0 <= quiet < patience:
        # While no core does anything, cycles run one by one: the end must be detected in its own cycle.
        cycles = min(most - now, m.sweep if quiet == 0 else 1)
        _run_sweep(m, now, cycles, sweeps, band, bands, by_list)
        for cycle in range(cycles):
            results, active = _sweep_results(m, sweeps, cycle, bands)
            # No event, nothing that waits for the clock and nothing on the move: the state can never change again.
            if results & (EVENT | WAITING | ROUTER_MOVES | IN_TRANSIT) == 0:
                _uncount_cycles(m, band, bands, cycles - 1 - cycle)
                return now, visited, quiet
            visited += active
            now += 1
            # Wavelets may circulate without any core; the runner tests for that after `patience` quiet cycles.
            quiet = 0 if results & (EVENT | WAITING) else quiet + 1
            if results & FAULTED:
                quiet = -1
        sweeps += 1
    return now, visited, quiet


@compile_inlined
def _uncount_cycles(m: Pointers, band: Int, bands: Int, cycles: Int) -> None:
    """Remove from the counters of visited cores the last `cycles` of a sweep, which came after the end of the run."""
    for t in range(m.cores * band // bands, m.cores * (band + 1) // bands):
        c = t * m.stride
        if m.ints[c + PROGRAM] >= 0 and m.ints[c + SLEEP_START] == 0:
            m.ints[c + COUNTERS_AT + m.ints[c + STATE]] -= cycles


@compile_inlined
def _settle_sleep_counters(m: Pointers, first: Int, last: Int, until: Int) -> None:
    """Count the cycles of sleeping cores up to cycle `until`."""
    for t in range(first, last):
        if m.ints[t * m.stride + SLEEP_START] > 0:
            _count_sleep_cycles(m, t, until)
            m.ints[t * m.stride + SLEEP_START] = until


@compile_entry_point("(int64[::1], int64[::1], int64[::1], int64, int64, int64, int64, int64, int64, boolean)")
def run(
    addresses: np.ndarray,
    lists: np.ndarray,
    sync: np.ndarray,
    now: Int,
    most: Int,
    quiet: Int,
    patience: Int,
    band: Int,
    bands: Int,
    by_list: bool,
) -> tuple[Int, Int, Int]:
    """Run a band from cycle `now` until cycle `most`, until nothing can change, until a core fails, or until it is
    quiet.

    Quiet means that no core did anything for `patience` cycles, `quiet` of which are already over. Returns (cycle,
    active cores summed over the cycles, `quiet`), where `quiet` is -1 if a core has failed.

    - `addresses`: addresses of the arrays of an `EngineState`, which must outlive the call
    - `lists`: bits of the cores to visit, [bands, LIST_PLANES, blocks]
    - `sync`: words that threads share, NOTE_SLOT_WORDS * (2 + 2 * bands)
    - `band`, `bands`: number of this band, and of all bands; each band is run by a separate thread
    - `by_list`: True to visit only the cores in `lists`
    """
    m = make_pointers(addresses, lists, sync)
    end, visited, quiet = _run_band(m, now, most, quiet, patience, band, bands, by_list)
    if by_list:
        _settle_sleep_counters(m, m.cores * band // bands, m.cores * (band + 1) // bands, min(end + 1, most))
    return end, visited, quiet
