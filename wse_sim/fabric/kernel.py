"""The engine: one clock of every router and core, in two phases, as compiled code. Imported when the first mesh runs.

Phase 1 (`_decide`) reads the queues as they stand at the start of the cycle and writes only what belongs to its own
core: which lanes its router will pass on, and the progress of the core. Phase 2 (`commit`) moves the wavelets. Every
queue has one reader and one writer; so neither the order of the cores nor the number of threads can change a result.

Both phases visit cores in order, in blocks of 64, and phase 2 follows phase 1 at the distance of two rows, beyond which
neither sees the other: so the state comes through the caches once a cycle. Each thread has a band of blocks; what lies
near its ends is moved when all threads are through with phase 1. By list, a bit for each core says whether to visit it.
"""

import numpy as np

from wse_sim.fabric import core, router
from wse_sim.fabric.compiled import DIGEST, entry, leaf, lowest_bit, meet, pointers
from wse_sim.fabric.record import (
    COUNTED,
    EVENT,
    FAULTED,
    GRANTS,
    LINE,
    MOVES,
    PROGRAM,
    SLEEPS,
    STATE,
    TRAVELS,
    WAITING,
)

_decide_router, _decide_core, _commit = router.decide, core.decide, router.commit


@leaf
def _blocks(m):
    return (m.cores + 63) >> 6


@leaf
def _word(m, band, now, block):
    """Where the bits of a block stand that a band has set for a cycle."""
    return (2 * band + (now & 1)) * _blocks(m) + block


@leaf
def _present(m, block, now, bands, by_list):
    """The cores of a block to visit in this cycle, as bits."""
    if not by_list:
        return np.int64(-1) if (block + 1) << 6 <= m.cores else (np.int64(1) << (m.cores & 63)) - 1
    bits = np.int64(0)
    for band in range(bands):
        bits |= m.lists[_word(m, band, now, block)]
    return bits


@leaf
def _wake(m, t, now, band):
    """Have a core visited in the next cycle."""
    m.lists[_word(m, band, now + 1, t >> 6)] |= np.int64(1) << (t & 63)


@leaf
def _add_slept(m, t, until):
    """Count the cycles in which a core was not visited."""
    c = t * m.stride
    if m.ints[c + SLEEPS] > 0 and m.ints[c + PROGRAM] >= 0:
        m.ints[c + COUNTED + m.ints[c + STATE]] += max(0, until - m.ints[c + SLEEPS])
    m.ints[c + SLEEPS] = 0


@leaf
def _decide_block(m, block, now, band, bands, by_list, first_lane, first_thread):
    """Phase 1 of a block. Returns the bits of all its cores, and how many of them are active."""
    bits, results, active = _present(m, block, now, bands, by_list), 0, 0
    while bits:
        t = (block << 6) + lowest_bit(bits)
        bits &= bits - 1
        if by_list:
            _add_slept(m, t, now)
        result = _decide_router(m, t, now, first_lane) | _decide_core(m, t, now, first_thread)
        results |= result
        active += result != 0
        if by_list:
            if result:
                _wake(m, t, now, band)
            else:
                m.ints[t * m.stride + SLEEPS] = now + 1
    return results, active


@leaf
def _commit_block(m, block, now, band, bands, by_list):
    """Phase 2 of a block: who gets a wavelet wakes."""
    bits = _present(m, block, now, bands, by_list)
    while bits:
        t = (block << 6) + lowest_bit(bits)
        bits &= bits - 1
        if m.longs[(t * m.stride + GRANTS) >> 1] == 0:
            continue
        went = _commit(m, t, now)
        if not by_list:
            continue
        for d in range(4):
            if went >> d & 1:
                _wake(m, router.neighbour(m, t, d), now, band)
    if by_list:
        for other in range(bands):
            m.lists[_word(m, other, now, block)] = 0


@leaf
def _share(m, band, bands, results, active):
    """Wait for the other bands. Returns the bits and the number of active cores of all."""
    if bands == 1:
        return results, active
    m.sync[(2 + band) * LINE], m.sync[(2 + band) * LINE + 1] = results, active
    meet(m.sync, bands)
    results, active = 0, 0
    for other in range(bands):
        results |= m.sync[(2 + other) * LINE]
        active += m.sync[(2 + other) * LINE + 1]
    return results, active


@leaf
def _cycle(m, now, band, bands, by_list):
    """One cycle of a band. Returns the bits and the number of active cores of the mesh.

    First the blocks of the band pass phase 1, followed by phase 2 where that is safe; then the rest passes phase 2.
    """
    first, last = _blocks(m) * band // bands, _blocks(m) * (band + 1) // bands
    lag = (2 * m.width + 126) >> 6
    inner = min(last, first + lag) if bands > 1 else first
    rest, edge = max(inner, last - lag), inner - first
    results, active = 0, 0
    for i in range(first, last + edge + last - rest):
        moved = i - lag
        if i < last:
            found, count = _decide_block(m, i, now, band, bands, by_list, now % m.nlanes, now % m.threads)
            results, active = results | found, active + count
        else:
            if i == last:
                results, active = _share(m, band, bands, results, active)
            moved = first + i - last if i - last < edge else rest + i - last - edge
        if moved >= (inner if i < last else first):
            _commit_block(m, moved, now, band, bands, by_list)
    if bands > 1:
        meet(m.sync, bands)
    return results, active


@leaf
def _run(m, now, most, quiet, patience, band, bands, by_list):
    """Returns the cycle, the active cores summed over the cycles, and for how many cycles now no core did anything."""
    visited = 0
    while now < most and quiet < patience:
        results, active = _cycle(m, now, band, bands, by_list)
        if results & (EVENT | WAITING | MOVES | TRAVELS) == 0:
            break
        visited += active
        now += 1
        quiet = 0 if results & (EVENT | WAITING) else quiet + 1
        if results & FAULTED:
            return now, visited, -1
    return now, visited, quiet


@leaf
def _settle(m, first, last, until):
    """Count the cycles of the cores that sleep up to now."""
    for t in range(first, last):
        if m.ints[t * m.stride + SLEEPS] > 0:
            _add_slept(m, t, until)
            m.ints[t * m.stride + SLEEPS] = until


def _entry(digest):
    """The entry point; what it closes over is part of the name under which it is kept."""

    @entry("(int64[::1], int64[::1], int64[::1], int64, int64, int64, int64, int64, int64, boolean)")
    def run(addresses, lists, sync, now, most, quiet, patience, band, bands, by_list):
        """Run a band from cycle `now` until `most`, or until nothing can happen or a core cannot go on.

        Or until no core did anything for `patience` cycles, `quiet` of which are over. Returns the cycle, the number of
        active cores summed over the cycles, and `quiet`, -1 if a core cannot go on. `addresses` says where the arrays
        of a State lie, which must outlive the call; `lists` has the bits of cores to visit, [bands, 2, blocks]; `sync`
        is where threads meet, LINE * (2 + bands) words. With more than one band each is run by a thread of its own.
        """
        m = pointers(addresses, lists, sync)
        most = most if digest >= 0 else now
        end, visited, quiet = _run(m, now, most, quiet, patience, band, bands, by_list)
        if by_list:
            _settle(m, m.cores * band // bands, m.cores * (band + 1) // bands, min(end + 1, most))
        return end, visited, quiet

    return run


run = _entry(DIGEST)
