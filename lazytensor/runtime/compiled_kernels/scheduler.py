"""The scheduler of shared steps, in the kernel language: threads take the parts of a step without the interpreter.

One thread calls `run` with a table of steps; the others are in `serve`, and all take parts. A step is two words: the
number of its parts, and the address of its entries. An entry is four words: see FUNCTION to RESULT. A thread that
finds no part tries again for a short while and then sleeps, so that it costs a busy machine nothing; on the core of the
thread in `run` it sleeps at once. It reads the bell before its last look at the ticket, so that it cannot miss a step:
this is the eventcount of D. Vyukov (2008).
"""

from typing import Any

from lazytensor.runtime.atomics import (
    atomic_add,
    atomic_load,
    atomic_store,
    called,
    clock,
    compare_exchange,
    current_core,
    pause,
    wait,
    wake,
    words_at,
)
from lazytensor.runtime.language import inline, typed

# Words of the block that the threads share, each on a cache line of its own. The ticket has the number of the step, its
# first part that no thread has taken, and the one after its last, in 32, 16 and 16 bits. It changes as a whole, so that
# a thread that takes a part of one step cannot read the entries of another.
TICKET = 0
FINISHED = 8
ENTRIES = 16
BELL = 24
SLEEPERS = 32
WAITS = 40
STOP = 48
CORE = 56
BLOCK_WORDS = 64

MAX_PARTS = 65535
NEXT_PART = 65536
NEXT_STEP = 4294967296

# Words of an entry: a function and its argument, the address of the word that takes the working memory of the thread,
# and that of the word that takes the truth that the function returns; 0 for none.
FUNCTION = 0
ARGUMENT = 1
MEMORY = 2
RESULT = 3
ENTRY_BYTES = 32

# The thread in `run` makes so many attempts before it sleeps: to wake it takes longer than most parts.
MAX_SPINS = 4000
# A thread in `serve` tries for PATIENCE_NS, and then sleeps. It reads the clock once in LOOKS attempts. If more than
# MAX_GAP_NS lie between two readings, another process has had its core: until it has slept SHY_SLEEPS times more, it
# tries for SHORT_PATIENCE_NS only.
PATIENCE_NS = 400000
SHORT_PATIENCE_NS = 100000
MAX_GAP_NS = 100000
SHY_SLEEPS = 64
LOOKS = 256


@inline
def _run_part(entries: int, number: int, thread: Any) -> None:
    """Call the function of an entry. `thread` has the address of the working memory of this thread."""
    entry = words_at(entries + number * ENTRY_BYTES)
    if entry[MEMORY] != 0:
        # Read for each part: the working memory of a thread may have grown.
        memory = words_at(entry[MEMORY])
        memory[0] = thread[0]
    result = called(entry[FUNCTION], entry[ARGUMENT])
    if entry[RESULT] != 0:
        target = words_at(entry[RESULT])
        target[0] = result


@inline
def _take(block: Any, thread: Any, is_runner: bool) -> bool:
    """Take a part of the step and run it; return whether there was one.

    The thread in `run` takes the last parts and the others the first ones, so that a thread mostly works on the parts
    that it had in the step before, which are in its cache.
    """
    number = -1
    entries = 0
    while number < 0:
        ticket = atomic_load(block, TICKET)
        end = ticket & MAX_PARTS
        first = (ticket >> 16) & MAX_PARTS
        if first == end:
            break
        # If these are the entries of another step, the ticket is another one too, and the exchange fails.
        entries = atomic_load(block, ENTRIES)
        if compare_exchange(block, TICKET, ticket, ticket - 1 if is_runner else ticket + NEXT_PART):
            number = end - 1 if is_runner else first
    if number >= 0:
        _run_part(entries, number, thread)
        atomic_add(block, FINISHED, 1)
        if atomic_load(block, WAITS) != 0:
            wake(block, FINISHED, 1)
    return number >= 0


@inline
def _publish(block: Any, parts: int, entries: int) -> None:
    """Offer the parts of a step, whose entries are at the address `entries`, to all threads; wake those that sleep."""
    # The others read this word at each attempt: a store would take its cache line from all of them.
    core = current_core()
    if core != atomic_load(block, CORE):
        atomic_store(block, CORE, core)
    # The ticket is last: a thread that takes a part finds the entries of this step, and counts from 0.
    atomic_store(block, FINISHED, 0)
    atomic_store(block, ENTRIES, entries)
    ticket = atomic_load(block, TICKET)
    atomic_store(block, TICKET, (ticket & -NEXT_STEP) + NEXT_STEP + parts)
    # A thread that counts itself as a sleeper after this load looks at the ticket once more.
    if atomic_load(block, SLEEPERS) != 0:
        atomic_add(block, BELL, 1)
        wake(block, BELL, parts - 1)


@inline
def _wait_for_parts(block: Any, parts: int) -> None:
    """Return when all parts of a step have finished."""
    spins = 0
    while spins < MAX_SPINS and atomic_load(block, FINISHED) != parts:
        pause()
        spins += 1
    if atomic_load(block, FINISHED) != parts:
        # Set before the next look: a part that ends after it wakes this thread, and one that ended before is counted.
        atomic_store(block, WAITS, 1)
        finished = atomic_load(block, FINISHED)
        while finished != parts:
            wait(block, FINISHED, finished)
            finished = atomic_load(block, FINISHED)
        atomic_store(block, WAITS, 0)


@typed("void(int64, int64, int64, int64)")
def run(block_at: int, table_at: int, count: int, thread_at: int) -> None:
    """Run `count` steps of a table one after the other; threads in `serve` take parts too.

    The addresses are those of the block that the threads share, of the table, and of the word with the address of the
    working memory of this thread. Returns when all parts of the last step have finished.
    """
    block, table, thread = words_at(block_at), words_at(table_at), words_at(thread_at)
    for k in range(count):
        parts, entries = table[2 * k], table[2 * k + 1]
        if parts == 1:
            _run_part(entries, 0, thread)
        else:
            _publish(block, parts, entries)
            while _take(block, thread, True):
                pass
            _wait_for_parts(block, parts)


@inline
def _sleep(block: Any) -> None:
    """Sleep until the bell rings, unless there are parts or the threads have to stop."""
    # Read before the last look at the ticket: if the bell rings after that, `wait` returns at once.
    bell = atomic_load(block, BELL)
    atomic_add(block, SLEEPERS, 1)
    ticket = atomic_load(block, TICKET)
    if (ticket >> 16) & MAX_PARTS == ticket & MAX_PARTS and atomic_load(block, STOP) == 0:
        wait(block, BELL, bell)
    atomic_add(block, SLEEPERS, -1)


@typed("void(int64, int64)")
def serve(block_at: int, thread_at: int) -> None:
    """Take parts until `stop` is called."""
    block, thread = words_at(block_at), words_at(thread_at)
    looks = 0
    start = 0
    last = 0
    shy = 0
    while atomic_load(block, STOP) == 0:
        if _take(block, thread, False):
            looks = 0
            continue
        looks += 1
        # On the core of the thread in `run` an attempt would be one that this thread waits for.
        core = current_core()
        is_tired = core >= 0 and core == atomic_load(block, CORE)
        if looks % LOOKS == 0:
            now = clock()
            if looks == LOOKS:
                start = now
            elif now - last > MAX_GAP_NS:
                # The system gave the core to another process, from which a thread that only tries would take it.
                shy = SHY_SLEEPS
                is_tired = True
            elif now - start > (SHORT_PATIENCE_NS if shy > 0 else PATIENCE_NS):
                shy = max(shy - 1, 0)
                is_tired = True
            last = now
        if is_tired:
            _sleep(block)
            looks = 0
        else:
            pause()


@typed("void(int64)")
def stop(block_at: int) -> None:
    """Make all threads leave `serve`."""
    block = words_at(block_at)
    atomic_store(block, STOP, 1)
    atomic_add(block, BELL, 1)
    wake(block, BELL, MAX_PARTS)
