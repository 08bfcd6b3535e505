"""Constants that the assembler and the compiled engine share: columns of records, codes of operations and of types.

All records are 32-bit words. Each core has one record with these parts, in order:

- a header and the counters
- `THREAD` words for each of its threads
- bytes: heads, tails and capacities of its queues, the current outputs of its lanes, the switches of colours
- the routes of its lanes at every switch position
- the queues: `PUSHED`, `COPIED`, then a stamp and a value for each slot
"""

# Columns of a core's record. GRANTS takes two words, and LOOPS_AT is the first of as many as loops nest.
PROGRAM, ACTIVE, BLOCKED, STATE, SLEEP_START, FINISHED, GRANTS, CONTROLS, FAULT = 0, 1, 2, 3, 4, 5, 6, 8, 9
LOOPS_AT = 12
COUNTERS_AT = 16
# Cycles by what a core did, then wavelets over four links and the ramp; the counters begin at column COUNTERS_AT.
COUNTERS = ("busy", "on_input", "on_output", "on_memory", "idle", "north", "east", "south", "west", "ramp")
BUSY, ON_INPUT, ON_OUTPUT, ON_MEMORY, IDLE, LINKS = 0, 1, 2, 3, 4, 5
THREADS_AT = COUNTERS_AT + len(COUNTERS)
# Columns of a thread; BASES has one for each operand. READY is the cycle from which an issued operation runs. Before an
# operation is issued, READY is NEVER_CYCLE plus the cycle from which it can be issued.
PC, READY, DONE, CREDIT, BASES, THREAD = 0, 1, 2, 3, 4, 8
# Larger than every cycle of a run; twice this value still fits a signed 32-bit word.
NEVER_CYCLE = 1 << 30
# Columns of a queue. The two highest bits of a stamp mark a control wavelet and the last wavelet before an advance. A
# stamp and its value are adjacent words, in one cache line.
PUSHED, COPIED, RING_AT = 0, 1, 2
TIME, CONTROL_FLAG, ADVANCE_FLAG = (1 << 30) - 1, 1 << 30, -1 << 31
# A byte of a route: five bits of outputs, then the source. A byte of a switch: position, last position, torn down.
OUTPUTS, SOURCE_SHIFT = 31, 5
POSITION, LAST_SHIFT, TORN_DOWN = 3, 2, 16
# A control wavelet's value: eight commands of two bits, then the number of a task's name, from 1.
COMMAND, COMMAND_BITS, COMMANDS_MASK, TASK_SHIFT = 3, 2, (1 << 16) - 1, 16
NOP, ADVANCE, RESET, TEARDOWN = range(4)

# Columns of `lanes`: the lane at the next router for four directions, then the colour.
LANE_COLOUR, LANE = 4, 5
# INPUT_QUEUES has the queues that an operation reads, three at most, then -1; TO_LANE the lane that it sends on, or -1.
OP, LENGTH, RATE, ASYNC, THEN, TASK, SETUP, KIND, STEP, ADVANCES, TO_LANE, INPUT_QUEUES, OPERANDS = *range(12), 15
OPERAND_AT, BASE, STRIDE, TYPE, EXTRA, OPERAND = 0, 1, 2, 3, 4, 5
INSTRUCTION = OPERANDS + 4 * OPERAND
# Values of KIND: PLAIN for float32 vectors that the engine's fast path can run, GENERAL for all others.
PLAIN, GENERAL = 0, 1
# Columns of an operand's extras: steps of four loops, three outer pairs, inner extent, index, its step, range, limit.
STEPS, OUTER, INNER, INDEX, INDEX_STEP, LOW, HIGH, LIMIT, EXTRAS = 0, 4, 10, 11, 12, 13, 14, 15, 16
CONSTANT, MEMORY, RECEIVED, SENT, NONE = range(5)
TYPES = ("float32", "float16", "bfloat16", "uint16")
FLOAT32, FLOAT16, BFLOAT16, UINT16 = range(4)
MOVE, CONVERT, ADD, SUB, MUL, MAX, GREATER, BIT_AND, BIT_XOR, SHIFT_LEFT, SHIFT_RIGHT, FMAC = range(12)
EXP, LOG, RECIPROCAL, SQRT, TANH = range(12, 17)
# FIRST_CONTROL is not an instruction: instructions with larger codes run on the scalar pipe.
FIRST_CONTROL, LOOP, END, BRANCH, ACTIVATE, BLOCK, UNBLOCK, SEND_CONTROL, CONFIGURE, STOP = range(17, 27)
TASK_ENTRIES = 32
"""Columns of a program in the table of task entries."""
FULL_RATE = 1_000_000
"""The rate of one step in a cycle; rates are counted in millionths of a step."""

# Result bits of one core and its router in one cycle: EVENT, the core did something; WAITING, it only waits for the
# clock; FAULTED, it cannot continue; ROUTER_HOLDS, the router has a wavelet; ROUTER_MOVES, it forwards one; IN_TRANSIT,
# one is on a wire to it.
EVENT, WAITING, FAULTED, ROUTER_HOLDS, ROUTER_MOVES, IN_TRANSIT = 1, 2, 4, 8, 16, 32

# Entries of `EngineState.shape`: sizes, offsets in a record, latencies.
SHAPE_FIELDS = (
    "cores width lanes colours threads ring stride words bytes_at queued positions_at queues_at queue names "
    "ramp_up ramp_down hop turn task_start sweep"
).split()
MAX_SWEEP_CYCLES, LIST_PLANES, NOTE_SLOT_WORDS = 4, 8, 8
"""Limits of the engine's lists of cores to visit.

- `MAX_SWEEP_CYCLES`: cycles of a sweep
- `LIST_PLANES`: sets of bits in the lists, more than a sweep has cycles
- `NOTE_SLOT_WORDS`: 64-bit words for the results of a sweep
"""


def block_lag(reach: int) -> int:
    """Return the distance, in blocks of 64 cores, that the two phases of the engine have to keep from each other.

    Both phases access queues up to `reach` cores away. At twice that distance each phase sees the other's queues either
    before or after its update.
    """
    return (2 * reach + 63) >> 6
