"""Scheduler of parallel steps in the kernel language: threads take the parts of a step without the interpreter.

One thread calls `run` with a table of steps; the others are in `serve`. All of them take parts. A step is two words:
the number of its parts, and the address of its entries. An entry is four words: see FUNCTION to RESULT.

A thread in `serve` that finds no part retries for a short while and then sleeps, so that it costs a busy machine
nothing. If it runs on the core of the thread in `run`, it sleeps at once. It reads the bell before its last read of the
ticket, so that it cannot miss a step: this is the eventcount of D. Vyukov (2008).
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

# Indices of words in the block that the threads share, each on a separate cache line. The ticket holds the number of
# the step, its first part that no thread has taken, and the end of its parts, in 32, 16 and 16 bits. It changes
# atomically as a whole, so that a thread that takes a part of one step cannot read the entries of another.
TICKET = 0
FINISHED = 8
ENTRIES = 16
BELL = 24
SLEEPERS = 32
WAITS = 40
STOP = 48
CORE = 56
# Words 64 to 79 are the lock and the condition variable of systems that wait by them; see `atomics.wait`.
BLOCK_WORDS = 80

MAX_PARTS = 65535
NEXT_PART = 65536
NEXT_STEP = 4294967296

# Words of an entry: a function and its argument; the address of the word to set to the thread's scratch buffer; the
# address of the word to set to the returned truth value. The last two are 0 if not needed.
FUNCTION = 0
ARGUMENT = 1
MEMORY = 2
RESULT = 3
ENTRY_BYTES = 32

# The number of attempts of the thread in `run` before it sleeps. To wake it takes longer than most parts.
MAX_SPINS = 4000
# A thread in `serve` retries for PATIENCE_NS and then sleeps. It reads the clock once per LOOKS attempts. If more than
# MAX_GAP_NS passed between two readings, another process used its core: for its next SHY_SLEEPS sleeps, it retries only
# for SHORT_PATIENCE_NS.
PATIENCE_NS = 400000
SHORT_PATIENCE_NS = 100000
MAX_GAP_NS = 100000
SHY_SLEEPS = 64
LOOKS = 256


@inline
def _run_part(entries: int, number: int, thread: Any) -> None:
    """Call the function of entry `number` in the table at the address `entries`, and store its result if the entry
    wants it.

    The first word of `thread` is the address of this thread's scratch buffer, which is passed to the function if the
    entry has a place for it.
    """
    entry = words_at(entries + number * ENTRY_BYTES)
    if entry[MEMORY] != 0:
        # Read for each part, because the scratch buffer may have been replaced by a larger one.
        memory = words_at(entry[MEMORY])
        memory[0] = thread[0]
    result = called(entry[FUNCTION], entry[ARGUMENT])
    if entry[RESULT] != 0:
        target = words_at(entry[RESULT])
        target[0] = result


@inline
def _take(block: Any, thread: Any, is_runner: bool) -> bool:
    """Take a part of the current step and run it; return False if there was none left.

    The thread in `run` takes parts from the end and the others from the beginning, so that a thread mostly gets the
    parts that it ran in the previous step, whose data is in its cache.
    """
    number = -1
    entries = 0
    while number < 0:
        ticket = atomic_load(block, TICKET)
        end = ticket & MAX_PARTS
        first = (ticket >> 16) & MAX_PARTS
        if first == end:
            break
        # If the entries are already those of the next step, the ticket has changed too, and the exchange fails.
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
    """Offer the parts of a step to all threads and wake those that sleep.

    `entries` is the address of the step's entries.
    """
    # The other threads read this word at each attempt, and a store would invalidate its cache line in all cores.
    core = current_core()
    if core != atomic_load(block, CORE):
        atomic_store(block, CORE, core)
    # The ticket is stored last: a thread that takes a part must find the entries of this step and FINISHED at 0.
    atomic_store(block, FINISHED, 0)
    atomic_store(block, ENTRIES, entries)
    ticket = atomic_load(block, TICKET)
    atomic_store(block, TICKET, (ticket & -NEXT_STEP) + NEXT_STEP + parts)
    # A thread that increments SLEEPERS after this load reads the ticket again before it sleeps.
    if atomic_load(block, SLEEPERS) != 0:
        atomic_add(block, BELL, 1)
        wake(block, BELL, parts - 1)


@inline
def _wait_for_parts(block: Any, parts: int) -> None:
    """Return when all `parts` of a step have finished. Spin first, then sleep."""
    spins = 0
    while spins < MAX_SPINS and atomic_load(block, FINISHED) != parts:
        pause()
        spins += 1
    if atomic_load(block, FINISHED) != parts:
        # Set before FINISHED is read again: a part that ends later wakes this thread, an earlier one is counted.
        atomic_store(block, WAITS, 1)
        finished = atomic_load(block, FINISHED)
        while finished != parts:
            wait(block, FINISHED, finished)
            finished = atomic_load(block, FINISHED)
        atomic_store(block, WAITS, 0)


@typed("void(int64, int64, int64, int64)")
def run(block_at: int, table_at: int, count: int, thread_at: int) -> None:
    """Run `count` steps of a table one after the other, sharing their parts with the threads in `serve`.

    The table has two words for each step: the number of its parts, and the address of their entries. The addresses are
    those of the block of words that the threads share, of the table, and of the word that holds the address of this
    thread's scratch buffer. A step of one part runs in the calling thread. Returns when all parts of the last step have
    finished.
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
    """Sleep until the next step with several parts is published or `stop` is called.

    Return at once if there are parts to take or the threads have to stop.
    """
    # The bell is read before the last read of the ticket: if it rings after that, `wait` returns at once.
    bell = atomic_load(block, BELL)
    atomic_add(block, SLEEPERS, 1)
    ticket = atomic_load(block, TICKET)
    if (ticket >> 16) & MAX_PARTS == ticket & MAX_PARTS and atomic_load(block, STOP) == 0:
        wait(block, BELL, bell)
    atomic_add(block, SLEEPERS, -1)


@typed("void(int64, int64)")
def serve(block_at: int, thread_at: int) -> None:
    """Take and run parts until `stop` is called. The addresses are those of `run`.

    A thread that finds no part spins, and after some time sleeps until the next step is published. It sleeps at once on
    the core of the thread in `run`.
    """
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
        # On the core of the thread in `run`, further attempts would only delay that thread.
        core = current_core()
        is_tired = core >= 0 and core == atomic_load(block, CORE)
        if looks % LOOKS == 0:
            now = clock()
            if looks == LOOKS:
                start = now
            elif now - last > MAX_GAP_NS:
                # The system gave the core to another process: sleep, rather than compete with it by spinning.
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
