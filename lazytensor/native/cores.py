"""Where the threads run that share a step: machine code that tells the kernel.

Beside another busy process the kernel takes a core from a thread for a turn of some milliseconds, in the middle of a
part for which all others wait. The core of the one that waits is free meanwhile: a set of cores of one element moves
the other there at once, and the full set lets it go on from there. It is kept away from that core when there is work
again, since the kernel wakes a thread where it ran last. All of it is within the cores that the waiting thread may use.
"""

CALLS = {
    "x86_64": {"FUTEX": 202, "GETTID": 186, "SET_CORES": 203, "GET_CORES": 204, "CLOCK": 228},
    "aarch64": {"FUTEX": 98, "GETTID": 178, "SET_CORES": 122, "GET_CORES": 123, "CLOCK": 113},
}
"""The numbers of system calls."""

GLANCES = 100
"""How often a thread looks elsewhere before it looks again whether another one has run: some microseconds."""

CORES = """
; The cores that the kernel gives this thread, less one of them; whether any is left.
define internal i1 @cores_but(ptr %cores, i64 %core) {{
entry:
  %size = call i64 (i64, ...) @syscall(i64 {GET_CORES}, i64 0, i64 1024, ptr %cores)
  %known = icmp sgt i64 %size, 0
  br i1 %known, label %less, label %none
less:
  ; A set of cores is a row of bits, 64 in a word.
  %far = lshr i64 %core, 6
  %place = getelementptr i64, ptr %cores, i64 %far
  %word = load i64, ptr %place
  %near = and i64 %core, 63
  %bit = shl i64 1, %near
  %others = xor i64 %bit, -1
  %rest = and i64 %word, %others
  store i64 %rest, ptr %place
  %words = lshr i64 %size, 3
  br label %look
look:
  %k = phi i64 [ 0, %less ], [ %next, %more ]
  %is_end = icmp eq i64 %k, %words
  br i1 %is_end, label %none, label %more
more:
  %at = getelementptr i64, ptr %cores, i64 %k
  %some = load i64, ptr %at
  %next = add i64 %k, 1
  %is_empty = icmp eq i64 %some, 0
  br i1 %is_empty, label %look, label %any
any:
  ret i1 true
none:
  ret i1 false
}}

; Keep all others from the core of this thread.
define internal void @keep_away(ptr %block, ptr %memory, i64 %core) {{
entry:
  %cores = alloca [1024 x i8], align 8
  call void @llvm.memset.p0.i64(ptr %cores, i8 0, i64 1024, i1 false)
  %at_away = getelementptr i64, ptr %block, i64 {AWAY}
  %at_crew = getelementptr i64, ptr %block, i64 {CREW}
  %crew = load i64, ptr %at_crew
  ; One more than the core, since 0 says that nobody is kept from any.
  %mark = add i64 %core, 1
  store i64 %mark, ptr %at_away
  %is_left = call i1 @cores_but(ptr %cores, i64 %core)
  br i1 %is_left, label %look, label %out
look:
  %k = phi i64 [ 0, %entry ], [ %next, %early ], [ %next, %tell ]
  %is_end = icmp eq i64 %k, %crew
  br i1 %is_end, label %out, label %set
set:
  %next = add i64 %k, 1
  %words = mul i64 %next, {PLACE}
  %place = getelementptr i64, ptr %memory, i64 %words
  %at_number = getelementptr i64, ptr %place, i64 1
  %number = load atomic i64, ptr %at_number monotonic, align 8
  ; One that has just been started has none yet, and 0 would be this thread: the others are told once more.
  %is_there = icmp ne i64 %number, 0
  br i1 %is_there, label %tell, label %early
early:
  store i64 0, ptr %at_away
  br label %look
tell:
  call i64 (i64, ...) @syscall(i64 {SET_CORES}, i64 %number, i64 1024, ptr %cores)
  br label %look
out:
  ret void
}}

; The nanoseconds of a clock.
define internal i64 @nanoseconds(i64 %clock) {{
entry:
  %time = alloca [2 x i64]
  store [2 x i64] zeroinitializer, ptr %time
  call i64 (i64, ...) @syscall(i64 {CLOCK}, i64 %clock, ptr %time)
  %seconds = load i64, ptr %time
  %at_rest = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %at_rest
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}}

; The nanoseconds that another thread has run, up to now if it runs.
define internal i64 @has_run(i64 %number) {{
entry:
  ; How Linux numbers the clock of a thread: see CPUCLOCK_PERTHREAD and CPUCLOCK_SCHED in its source.
  %not = xor i64 %number, -1
  %far = shl i64 %not, 3
  %clock = or i64 %far, 6
  %time = call i64 @nanoseconds(i64 %clock)
  ret i64 %time
}}

; Move one that was put aside with a part in hand to the core of this thread, which is about to sleep.
; It may leave again.
define internal void @pull(ptr %block, ptr %memory) {{
entry:
  %own = alloca [1024 x i8], align 8
  %cores = alloca [1024 x i8], align 8
  call void @llvm.memset.p0.i64(ptr %own, i8 0, i64 1024, i1 false)
  call void @llvm.memset.p0.i64(ptr %cores, i8 0, i64 1024, i1 false)
  %at_crew = getelementptr i64, ptr %block, i64 {CREW}
  %crew = load i64, ptr %at_crew
  br label %look
look:
  %k = phi i64 [ 0, %entry ], [ %next, %asked ], [ %next, %again ]
  %is_end = icmp eq i64 %k, %crew
  br i1 %is_end, label %out, label %asked
asked:
  %next = add i64 %k, 1
  %words = mul i64 %next, {PLACE}
  %place = getelementptr i64, ptr %memory, i64 %words
  %in_hand = getelementptr i64, ptr %place, i64 2
  %has_part = load atomic i64, ptr %in_hand monotonic, align 8
  %is_idle = icmp eq i64 %has_part, 0
  br i1 %is_idle, label %look, label %watch
watch:
  %at_number = getelementptr i64, ptr %place, i64 1
  %number = load atomic i64, ptr %at_number monotonic, align 8
  %first = call i64 @has_run(i64 %number)
  br label %pause
pause:
  %turn = phi i64 [ 0, %watch ], [ %later, %pause ]
  call void @{PAUSE}
  %later = add i64 %turn, 1
  %is_over = icmp eq i64 %later, {GLANCES}
  br i1 %is_over, label %again, label %pause
again:
  ; One that runs needs no other core, and would find its cache empty there.
  %second = call i64 @has_run(i64 %number)
  %runs = icmp ne i64 %first, %second
  br i1 %runs, label %look, label %move
move:
  %core = call i32 @sched_getcpu()
  %long = zext i32 %core to i64
  %far = lshr i64 %long, 6
  %near = and i64 %long, 63
  %bit = shl i64 1, %near
  %at_word = getelementptr i64, ptr %own, i64 %far
  store i64 %bit, ptr %at_word
  %size = call i64 (i64, ...) @syscall(i64 {GET_CORES}, i64 0, i64 1024, ptr %cores)
  %is_known = icmp sgt i64 %size, 0
  br i1 %is_known, label %set, label %out
set:
  call i64 (i64, ...) @syscall(i64 {SET_CORES}, i64 %number, i64 1024, ptr %own)
  call i64 (i64, ...) @syscall(i64 {SET_CORES}, i64 %number, i64 1024, ptr %cores)
  %at_away = getelementptr i64, ptr %block, i64 {AWAY}
  store i64 0, ptr %at_away
  br label %out
out:
  ret void
}}
"""
