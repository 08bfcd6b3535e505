"""The engine: one clock of every router and core, in two phases, as compiled code. Imported when the first mesh runs.

Phase 1 (`_decide_block`) reads the queues as they stand at the start of the cycle and writes only what belongs to its
own core: which lanes its router will pass on, and the progress of the core. Phase 2 (`_commit_block`) moves the
wavelets. Every queue has one reader and one writer; so neither the order of the cores nor the number of threads can
change a result.

Both phases visit cores in order, in blocks of 64, and phase 2 follows phase 1 at the distance of two rows, beyond which
neither sees the other; at that distance the next cycle follows, and a few more: so the state comes through the caches
once in several cycles. Each thread has a band of blocks. By list, a bit for each core says whether to visit it.
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
"""How many cores before a visit its record is asked for, and how many words of its memory, half as many as of that."""
# By plain names: inlined functions cannot look up attributes of modules.
_decide_router, _decide_core, _commit_router = router.decide_router, core.decide_core, router.commit_router


lag_blocks = compile_inlined(block_lag)


@compile_inlined
def _block_count(m: Pointers) -> Int:
    return (m.cores + 63) >> 6


@compile_inlined
def _list_word_index(m: Pointers, band: Int, now: Int, block: Int) -> Int:
    """Where the bits of a block stand that a band has set for a cycle."""
    return (LIST_PLANES * band + (now & (LIST_PLANES - 1))) * _block_count(m) + block


@compile_inlined
def _listed_cores(m: Pointers, block: Int, now: Int, bands: Int, by_list: bool) -> Int:
    """The cores of a block to visit in this cycle, as bits."""
    # All cores of the block but those past the end of the mesh.
    if not by_list:
        return np.int64(-1) if (block + 1) << 6 <= m.cores else (np.int64(1) << (m.cores & 63)) - 1
    # Each band writes only its own words, and a core may be woken by several: so a reader joins them.
    bits = np.int64(0)
    for band in range(bands):
        bits |= m.lists[_list_word_index(m, band, now, block)]
    return bits


@compile_inlined
def _wake_core(m: Pointers, t: Int, now: Int, band: Int) -> None:
    """Have a core visited in the next cycle."""
    # PLANES sets of bits, one for each cycle that may be under way: a sweep writes ahead of what it reads.
    m.lists[_list_word_index(m, band, now + 1, t >> 6)] |= np.int64(1) << (t & 63)


@compile_inlined
def _count_sleep_cycles(m: Pointers, t: Int, until: Int) -> None:
    """Count the cycles in which a core was not visited."""
    c = t * m.stride
    if m.ints[c + SLEEP_START] > 0 and m.ints[c + PROGRAM] >= 0:
        # A core that sleeps cannot change its state, so its cycles are added when it wakes or when the run ends.
        m.ints[c + COUNTERS_AT + m.ints[c + STATE]] += max(0, until - m.ints[c + SLEEP_START])
    m.ints[c + SLEEP_START] = 0


@compile_inlined
def _prefetch_core(m: Pointers, t: Int) -> None:
    """Have the record and the memory of a core that is visited soon brought near."""
    for line in range(0, min(m.stride + 16, 2 * PREFETCHED_WORDS), 16):
        prefetch(m.ints, t * m.stride + line)
    for line in range(0, min(m.words_per_core, PREFETCHED_WORDS), 16):
        prefetch(m.words, t * m.words_per_core + line)


@compile_expanded
def _decide_block(m: Pointers, block: Int, now: Int, band: Int, bands: Int, by_list: bool, note: Int) -> None:
    """Phase 1 of a block. Adds the bits of its cores, and how many of them are active, to the two words at `note`."""
    bits, results, active = _listed_cores(m, block, now, bands, by_list), np.int64(0), np.int64(0)
    if bits == 0:
        return
    # Round robin by the clock alone, so that a core that slept for a while stands where it would without.
    first_lane, first_thread = now % m.nlanes, now % m.threads
    while bits:
        t = (block << 6) + lowest_set_bit(bits)
        # Takes away the lowest bit that is set.
        bits &= bits - 1
        _prefetch_core(m, t + PREFETCH_CORES_AHEAD)
        if by_list:
            _count_sleep_cycles(m, t, now)
        # The router first: both read the queues as they are, and the core's configure may take back a grant.
        result = _decide_router(m, t, now, first_lane) | _decide_core(m, t, now, first_thread)
        results |= result
        active += result != 0
        if by_list:
            if result:
                _wake_core(m, t, now, band)
            else:
                # Nothing here can happen by the clock alone; only a wavelet from a neighbour wakes it.
                m.ints[t * m.stride + SLEEP_START] = now + 1
    m.sync[note] |= results
    m.sync[note + 1] += active


@compile_expanded
def _commit_block(m: Pointers, block: Int, now: Int, band: Int, bands: Int, by_list: bool) -> None:
    """Phase 2 of a block: who gets a wavelet wakes."""
    bits = _listed_cores(m, block, now, bands, by_list)
    if bits == 0:
        return
    while bits:
        t = (block << 6) + lowest_set_bit(bits)
        bits &= bits - 1
        # Where nothing is passed on there is no need to look at the lanes.
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
            # The plane is free for the cycle PLANES later.
            m.lists[_list_word_index(m, other, now, block)] = 0


@compile_inlined
def _note_slot(band: Int, now: Int) -> Int:
    """Where a band notes what it found in a sweep: two words for each cycle. The next sweep has another place."""
    return (2 + 2 * band + now % 2) * NOTE_SLOT_WORDS


@compile_expanded
def _run_sweep(m: Pointers, now: Int, cycles: Int, sweeps: Int, band: Int, bands: Int, by_list: bool) -> None:
    """Several cycles of a band, one behind the other.

    Stage 2 c of a block is phase 1 of cycle c, stage 2 c + 1 its phase 2; a stage comes after the one before it in all
    blocks up to `lag` away. First the band does what depends on its own blocks alone, then, when all bands have, what
    depends on the blocks at both sides of its end.
    """
    # A skewed loop over blocks and stages, as compilers tile a stencil in time: a block is at stage s when those up to
    # `lag` around it are past stage s - 1.
    first, last = _block_count(m) * band // bands, _block_count(m) * (band + 1) // bands
    lag = lag_blocks(m.width if m.cores > m.width else 1)
    stages, slot, is_last = 2 * cycles, _note_slot(band, sweeps), band == bands - 1
    for i in range(NOTE_SLOT_WORDS):
        m.sync[slot + i] = 0
    # Before step `own` a band stays away from its end, by `lag` more for each stage; what lies there needs the
    # neighbour's blocks of the stage before.
    own = last - first + (stages - 1) * lag
    for step in range(own if is_last else own + stages - 1):
        if step == own:
            wait_at_barrier(m.sync, bands)
        beyond = step + 1 - own
        # Beyond the barrier: the wedge of blocks on both sides of the end, stage by stage, which no other band touches.
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
    # The next sweep begins with stage 0 of all blocks, so all wedges must be done. Inner bands met once before theirs;
    # the last band has none and meets once more.
    if bands > 1:
        if is_last:
            wait_at_barrier(m.sync, bands)
        wait_at_barrier(m.sync, bands)


@compile_inlined
def _sweep_results(m: Pointers, sweeps: Int, cycle: Int, bands: Int) -> tuple[Int, Int]:
    """The bits of all cores in a cycle of a sweep, and how many were active."""
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
    """Returns the cycle, the active cores summed over the cycles, and for how many cycles now no core did anything."""
    visited, sweeps = np.int64(0), np.int64(0)
    while now < most and 0 <= quiet < patience:
        # While nothing happens on any core, cycles come one by one: the end must be seen in the cycle in which it
        # comes.
        cycles = min(most - now, m.sweep if quiet == 0 else 1)
        _run_sweep(m, now, cycles, sweeps, band, bands, by_list)
        for cycle in range(cycles):
            results, active = _sweep_results(m, sweeps, cycle, bands)
            # No event, no clock to wait for and nothing on the move: the mesh stands still for ever.
            if results & (EVENT | WAITING | ROUTER_MOVES | IN_TRANSIT) == 0:
                _uncount_cycles(m, band, bands, cycles - 1 - cycle)
                return now, visited, quiet
            visited += active
            now += 1
            # Wavelets may go round in rings without any core: the runner asks about that after `patience` quiet cycles.
            quiet = 0 if results & (EVENT | WAITING) else quiet + 1
            if results & FAULTED:
                quiet = -1
        sweeps += 1
    return now, visited, quiet


@compile_inlined
def _uncount_cycles(m: Pointers, band: Int, bands: Int, cycles: Int) -> None:
    """Do not count the cycles of a sweep after the one in which nothing could happen any more, where cores saw them."""
    for t in range(m.cores * band // bands, m.cores * (band + 1) // bands):
        c = t * m.stride
        if m.ints[c + PROGRAM] >= 0 and m.ints[c + SLEEP_START] == 0:
            m.ints[c + COUNTERS_AT + m.ints[c + STATE]] -= cycles


@compile_inlined
def _settle_sleep_counters(m: Pointers, first: Int, last: Int, until: Int) -> None:
    """Count the cycles of the cores that sleep up to now."""
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
    """Run a band from cycle `now` until `most`, or until nothing can happen or a core cannot go on.

    Or until no core did anything for `patience` cycles, `quiet` of which are over. Returns the cycle, the number of
    active cores summed over the cycles, and `quiet`, -1 if a core cannot go on. `addresses` says where the arrays
    of a State lie, which must outlive the call; `lists` has the bits of cores to visit, [bands, PLANES, blocks];
    `sync` is where threads meet, SLOT * (2 + 2 * bands) words. Each of several bands has a thread of its own.
    """
    m = make_pointers(addresses, lists, sync)
    end, visited, quiet = _run_band(m, now, most, quiet, patience, band, bands, by_list)
    if by_list:
        _settle_sleep_counters(m, m.cores * band // bands, m.cores * (band + 1) // bands, min(end + 1, most))
    return end, visited, quiet
