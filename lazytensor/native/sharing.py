"""Sharing: machine code by which threads run the steps of a program together without the interpreter.

One thread runs a table of steps; the others serve a block of shared words, and all take parts from there. A step is a
number of parts and the address of its entries, an entry the address of a function and that of its argument; the thread
says besides where its own working memory is. Whoever finds nothing to do looks again for a short while and then sleeps
in the kernel's futex, so that it costs a busy machine nothing; at once on the core of the thread that runs the table,
which it would only keep from running. Beside another busy process the kernel puts a thread aside in the middle of a
part, for some milliseconds: who runs the table then has it moved to the own core, which is free while it waits; see
`cores`. Source: own; the bell that is read before the last look is the eventcount of Vyukov (2008).
"""

import functools
import platform
import sys
from collections.abc import Mapping

from lazytensor.native import machine
from lazytensor.native.cores import CALLS, CORES, GLANCES
from lazytensor.native.row_blocks import ROWS
from lazytensor.native.stacks import stack_of_products

SPINS = 4000
"""How often who runs a table looks whether the others are done before it sleeps: waking it costs more."""
PATIENCE_NS, SHORT_NS, AWAY_NS = 400_000, 100_000, 100_000
"""How long the others look for work before they sleep: as long as Python takes between two steps of a small net, and
shorter for SHY times behind a look from which they came back so late that another process has had their core."""
SHY, LOOKS = 64, 256
"""LOOKS are made between two looks at the clock."""
TICKET, FINISHED, ENTRIES, BELL, SLEEPERS, WAITS, STOP, CORE = range(0, 64, 8)
AWAY, CREW = CORE + 1, CORE + 2
"""Where in the block, in words of 8 bytes, each shared word stands: on lines of the cache of their own.

The ticket has the number of the step, the first of its parts that nobody has taken, and the one behind the last of
them, in 32, 16 and 16 bits. It changes as a whole, so that who takes a part of a step cannot be reading the entries of
another. Who begins tables takes the last parts and all others the first ones: most of what a thread works on is then
what it worked on in the steps before, and lies in its cache.

Behind the core of the thread that runs the table are the one from which the others are kept, plus 1, and how many
others there are.
"""
PLACE = 8
"""Words of the place of a thread: its working memory, its number for the kernel (0 for the one that runs tables), and
whether it has a part in hand."""
MOST_PARTS = (1 << 16) - 1
OWN = 4
"""Which argument of a routine is the working memory of the thread that runs it."""

# How long who runs a table sleeps for the parts of others before it looks whether one of them was put aside with one.
_MOMENT_NS = 300_000
# How a processor is told that a loop only waits.
_PAUSE = {"x86_64": ("llvm.x86.sse2.pause", "", ""), "aarch64": ("llvm.aarch64.hint", "i32", "i32 1")}
_WAIT, _WAKE = 128, 129  # FUTEX_WAIT and FUTEX_WAKE, of this process alone

_TAKE = """
; Take a part of the step and run it; whether there was one.
define internal i1 @take(ptr %block, ptr %memory) {{
entry:
  %finished = getelementptr i64, ptr %block, i64 {FINISHED}
  %place = getelementptr i64, ptr %block, i64 {ENTRIES}
  %waits = getelementptr i64, ptr %block, i64 {WAITS}
  %at_number = getelementptr i64, ptr %memory, i64 1
  %own_number = load atomic i64, ptr %at_number monotonic, align 8
  %begins = icmp eq i64 %own_number, 0
  br label %look
look:
  %ticket = load atomic i64, ptr %block seq_cst, align 8
  %behind = and i64 %ticket, {MOST_PARTS}
  %above = lshr i64 %ticket, 16
  %first = and i64 %above, {MOST_PARTS}
  %none = icmp eq i64 %first, %behind
  br i1 %none, label %nothing, label %try
try:
  ; If these are of another step, the ticket is another by now too, and the exchange fails.
  %entries = load atomic ptr, ptr %place seq_cst, align 8
  %shorter = sub i64 %ticket, 1
  %later = add i64 %ticket, {NEXT_PART}
  %rest = select i1 %begins, i64 %shorter, i64 %later
  %pair = cmpxchg ptr %block, i64 %ticket, i64 %rest seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %run, label %look
run:
  %last = sub i64 %behind, 1
  %number = select i1 %begins, i64 %last, i64 %first
  %in_hand = getelementptr i64, ptr %memory, i64 2
  store atomic i64 1, ptr %in_hand monotonic, align 8
  call void @one(ptr %entries, i64 %number, ptr %memory)
  store atomic i64 0, ptr %in_hand monotonic, align 8
  %before = atomicrmw add ptr %finished, i64 1 seq_cst
  %asleep = load atomic i64, ptr %waits seq_cst, align 8
  %is_asleep = icmp ne i64 %asleep, 0
  br i1 %is_asleep, label %wake, label %done
wake:
  call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr %finished, i64 {WAKE}, i64 1)
  br label %done
done:
  ret i1 true
nothing:
  ret i1 false
}}

; Run the function of an entry on its argument.
define internal void @one(ptr %entries, i64 %number, ptr %memory) {{
  %at = getelementptr [2 x ptr], ptr %entries, i64 %number
  %function = load ptr, ptr %at
  %second = getelementptr [2 x ptr], ptr %entries, i64 %number, i64 1
  %argument = load ptr, ptr %second
  ; Read for each part: the memory of a thread may have grown. Most functions do not ask for it.
  %own = load i64, ptr %memory
  call void %function(ptr %argument, i64 %own)
  ret void
}}

; A routine as a part: its function, its table, and where its result goes.
define void @share_routine(ptr %words, i64 %own) {{
  %function = load ptr, ptr %words
  %second = getelementptr i64, ptr %words, i64 1
  %table = load ptr, ptr %second
  %place = getelementptr i64, ptr %table, i64 {OWN}
  store i64 %own, ptr %place
  %result = call i1 %function(ptr %table)
  ; Of a function without a result this is anything, and nobody reads it.
  %refused = zext i1 %result to i64
  %third = getelementptr i64, ptr %words, i64 2
  store i64 %refused, ptr %third
  ret void
}}
"""

_RUN = """
; Wake so many of the others, away from the core of the thread that begins tables.
define internal void @rouse(ptr %block, ptr %memory, i64 %most) {{
entry:
  %bell = getelementptr i64, ptr %block, i64 {BELL}
  %at_away = getelementptr i64, ptr %block, i64 {AWAY}
  %core = call i32 @sched_getcpu()
  %long = zext i32 %core to i64
  %mark = add i64 %long, 1
  %away = load i64, ptr %at_away
  %is_away = icmp eq i64 %away, %mark
  br i1 %is_away, label %strike, label %send
send:
  call void @keep_away(ptr %block, ptr %memory, i64 %long)
  br label %strike
strike:
  %rings = atomicrmw add ptr %bell, i64 1 seq_cst
  call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr %bell, i64 {WAKE}, i64 %most)
  ret void
}}

; Run a table of steps, each of so many parts, which all others take from too.
define void @share_run(ptr %block, ptr %table, i64 %count, ptr %memory) {{
entry:
  %finished = getelementptr i64, ptr %block, i64 {FINISHED}
  %place = getelementptr i64, ptr %block, i64 {ENTRIES}
  %sleepers = getelementptr i64, ptr %block, i64 {SLEEPERS}
  %waits = getelementptr i64, ptr %block, i64 {WAITS}
  %at_core = getelementptr i64, ptr %block, i64 {CORE}
  ; Seconds and nanoseconds, after which it is looked once more whether another one was put aside.
  %moment = alloca [2 x i64]
  store [2 x i64] [i64 0, i64 {MOMENT_NS}], ptr %moment
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %next, %tail ]
  %over = icmp eq i64 %k, %count
  br i1 %over, label %out, label %step
step:
  %row = getelementptr [2 x i64], ptr %table, i64 %k
  %parts = load i64, ptr %row
  %second = getelementptr [2 x i64], ptr %table, i64 %k, i64 1
  %entries = load ptr, ptr %second
  %alone = icmp eq i64 %parts, 1
  br i1 %alone, label %single, label %publish
single:
  call void @one(ptr %entries, i64 0, ptr %memory)
  br label %tail
publish:
  %core = call i32 @sched_getcpu()
  store atomic i32 %core, ptr %at_core monotonic, align 4
  ; The ticket is last: who takes a part from it finds the entries of this step, and counts from 0.
  store atomic i64 0, ptr %finished seq_cst, align 8
  store atomic ptr %entries, ptr %place seq_cst, align 8
  %old = load atomic i64, ptr %block seq_cst, align 8
  %cleared = and i64 %old, {STEP_MASK}
  %later = add i64 %cleared, {STEP}
  %ticket = or i64 %later, %parts
  store atomic i64 %ticket, ptr %block seq_cst, align 8
  ; Behind the ticket: a thread that counts itself asleep after this load looks at the ticket once more.
  %beds = load atomic i64, ptr %sleepers seq_cst, align 8
  %anybody = icmp ne i64 %beds, 0
  br i1 %anybody, label %ring, label %work
ring:
  %most = sub i64 %parts, 1
  call void @rouse(ptr %block, ptr %memory, i64 %most)
  br label %work
work:
  %ran = call i1 @take(ptr %block, ptr %memory)
  br i1 %ran, label %work, label %wait
wait:
  %looks = phi i64 [ 0, %work ], [ %more, %pause ]
  %ready = load atomic i64, ptr %finished seq_cst, align 8
  %all = icmp eq i64 %ready, %parts
  br i1 %all, label %tail, label %patience
patience:
  %more = add i64 %looks, 1
  %long = icmp ugt i64 %more, {SPINS}
  br i1 %long, label %late, label %pause
pause:
  call void @{PAUSE}
  br label %wait
late:
  call void @pull(ptr %block, ptr %memory)
  br label %sleep
sleep:
  ; Told before the last look: a part that ends after this look wakes, one that ended before it is counted.
  store atomic i64 1, ptr %waits seq_cst, align 8
  %now = load atomic i64, ptr %finished seq_cst, align 8
  %complete = icmp eq i64 %now, %parts
  br i1 %complete, label %awake, label %bed
bed:
  call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr %finished, i64 {WAIT}, i64 %now, ptr %moment)
  %seen = load atomic i64, ptr %finished seq_cst, align 8
  %is_whole = icmp eq i64 %seen, %parts
  br i1 %is_whole, label %awake, label %late
awake:
  store atomic i64 0, ptr %waits seq_cst, align 8
  br label %tail
tail:
  %next = add i64 %k, 1
  br label %head
out:
  ret void
}}
"""

_SERVE = """
; Take parts until told to stop.
define void @share_serve(ptr %block, ptr %memory) {{
entry:
  %bell = getelementptr i64, ptr %block, i64 {BELL}
  %sleepers = getelementptr i64, ptr %block, i64 {SLEEPERS}
  %stop = getelementptr i64, ptr %block, i64 {STOP}
  %at_core = getelementptr i64, ptr %block, i64 {CORE}
  %at_number = getelementptr i64, ptr %memory, i64 1
  %own_number = call i64 (i64, ...) @syscall(i64 {GETTID})
  store atomic i64 %own_number, ptr %at_number monotonic, align 8
  %first = alloca i64
  %last = alloca i64
  %shy = alloca i64
  store i64 0, ptr %last
  store i64 0, ptr %shy
  br label %look
look:
  %looks = phi i64 [ 0, %entry ], [ 0, %look ], [ %more, %pause ], [ 0, %up ]
  %ran = call i1 @take(ptr %block, ptr %memory)
  br i1 %ran, label %look, label %idle
idle:
  %asked = load atomic i64, ptr %stop seq_cst, align 8
  %stops = icmp ne i64 %asked, 0
  br i1 %stops, label %out, label %where
where:
  ; On the core of the thread that runs the steps every look would be one that it waits for.
  %core = call i32 @sched_getcpu()
  %runs_at = load atomic i32, ptr %at_core monotonic, align 4
  %is_same = icmp eq i32 %core, %runs_at
  br i1 %is_same, label %tired, label %patience
patience:
  %more = add i64 %looks, 1
  ; The clock is asked from time to time: a system call takes as long as some looks.
  %rest_of_looks = urem i64 %more, {LOOKS}
  %is_glance = icmp eq i64 %rest_of_looks, 0
  br i1 %is_glance, label %glance, label %pause
glance:
  ; The clock that only goes forward.
  %now = call i64 @nanoseconds(i64 1)
  %then = load i64, ptr %last
  store i64 %now, ptr %last
  %is_first = icmp eq i64 %more, {LOOKS}
  br i1 %is_first, label %begin, label %judge
begin:
  ; The first look at the clock since there was work: from here on it waits.
  store i64 %now, ptr %first
  br label %pause
judge:
  ; Looks take some microseconds; if it was longer, the kernel gave the core to another process meanwhile, which a
  ; thread that only looks would keep from it.
  %gap = sub i64 %now, %then
  %was_away = icmp ugt i64 %gap, {AWAY_NS}
  br i1 %was_away, label %shy_now, label %measure
shy_now:
  store i64 {SHY}, ptr %shy
  br label %tired
measure:
  %began = load i64, ptr %first
  %waited = sub i64 %now, %began
  %times = load i64, ptr %shy
  %is_shy = icmp ne i64 %times, 0
  %most = select i1 %is_shy, i64 {SHORT_NS}, i64 {PATIENCE_NS}
  %long = icmp ugt i64 %waited, %most
  br i1 %long, label %rest, label %pause
rest:
  ; Shy for so many waits: then it tries once more whether the core is its own.
  %one_less = sub i64 %times, 1
  %times_left = select i1 %is_shy, i64 %one_less, i64 0
  store i64 %times_left, ptr %shy
  br label %tired
pause:
  call void @{PAUSE}
  br label %look
tired:
  ; Read before the last look at the ticket: if it rings from here on, the futex does not wait.
  %rings = load atomic i64, ptr %bell seq_cst, align 8
  %others = atomicrmw add ptr %sleepers, i64 1 seq_cst
  %ticket = load atomic i64, ptr %block seq_cst, align 8
  %behind = and i64 %ticket, {MOST_PARTS}
  %above = lshr i64 %ticket, 16
  %next_part = and i64 %above, {MOST_PARTS}
  %left = sub i64 %behind, %next_part
  %late = load atomic i64, ptr %stop seq_cst, align 8
  %news = or i64 %left, %late
  %quiet = icmp eq i64 %news, 0
  br i1 %quiet, label %bed, label %up
bed:
  call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr %bell, i64 {WAIT}, i64 %rings, ptr null)
  br label %up
up:
  %still = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  br label %look
out:
  ret void
}}

; Wake all that sleep: they are to stop.
define void @share_ring(ptr %block) {{
  %bell = getelementptr i64, ptr %block, i64 {BELL}
  %rings = atomicrmw add ptr %bell, i64 1 seq_cst
  call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr %bell, i64 {WAKE}, i64 {MOST_PARTS})
  ret void
}}
"""


@functools.cache
def functions() -> Mapping[str, int] | None:
    """The addresses of the functions by name; None on a system whose threads wait in another way."""
    kind = platform.machine()
    # The numbers of system calls are those of Linux, and the words of a block are addresses of 64 bits.
    if sys.platform != "linux" or kind not in CALLS or sys.maxsize < 1 << 32:
        return None
    pause, parameter, argument = _PAUSE[kind]
    words: dict[str, int | str] = {**CALLS[kind], "PAUSE": f"{pause}({argument})"}
    words |= {"AWAY": AWAY, "CREW": CREW, "PLACE": PLACE, "GLANCES": GLANCES, "MOMENT_NS": _MOMENT_NS}
    words |= {"WAIT": _WAIT, "WAKE": _WAKE, "SPINS": SPINS, "CORE": CORE}
    words |= {"PATIENCE_NS": PATIENCE_NS, "SHORT_NS": SHORT_NS, "AWAY_NS": AWAY_NS, "SHY": SHY, "LOOKS": LOOKS}
    words |= {"TICKET": TICKET, "FINISHED": FINISHED, "ENTRIES": ENTRIES, "BELL": BELL, "SLEEPERS": SLEEPERS}
    words |= {"OWN": OWN, "WAITS": WAITS, "STOP": STOP, "MOST_PARTS": MOST_PARTS, "STEP": 1 << 32, "NEXT_PART": 1 << 16}
    words["STEP_MASK"] = -(1 << 32)
    declared = f"declare i64 @syscall(i64, ...)\ndeclare i32 @sched_getcpu()\ndeclare void @{pause}({parameter})"
    declared += "\ndeclare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
    # One module for all: the routines call each other, and `ROWS` has no words to fill in.
    ours = [text.format(**words) for text in (_TAKE, CORES, _RUN, _SERVE)]
    texts = [declared, *ours, stack_of_products(), ROWS]
    names = ("run", "serve", "ring", "product", "routine", "rows")
    return machine.addresses("\n".join(texts), tuple(f"share_{name}" for name in names))
