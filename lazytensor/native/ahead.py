"""Ahead: machine code by which a thread of the crew begins a table of steps while the thread that has it does else.

A table is offered in the block of shared words, and the first that finds nothing to do runs it as its owner would,
while others take parts. The owner comes back to it in time and takes parts too until the step that runs is over; from
there on it goes on itself. Until then the owner runs no other table.
"""

AHEAD = """
; Offer a table to the others.
define void @share_offer(ptr %block, ptr %table, i64 %count, ptr %memory) {{
entry:
  %at_table = getelementptr i64, ptr %block, i64 {TABLE}
  %at_count = getelementptr i64, ptr %block, i64 {COUNT}
  %at_halt = getelementptr i64, ptr %block, i64 {HALT}
  %at_done = getelementptr i64, ptr %block, i64 {DONE}
  %sleepers = getelementptr i64, ptr %block, i64 {SLEEPERS}
  store i64 %count, ptr %at_count
  store atomic i64 0, ptr %at_halt monotonic, align 8
  store atomic i64 0, ptr %at_done monotonic, align 8
  ; The table is last: who takes it finds all the rest.
  store atomic ptr %table, ptr %at_table seq_cst, align 8
  %beds = load atomic i64, ptr %sleepers seq_cst, align 8
  %anybody = icmp ne i64 %beds, 0
  br i1 %anybody, label %ring, label %out
ring:
  call void @rouse(ptr %block, ptr %memory, i64 1)
  br label %out
out:
  ret void
}}

; Run the table that is offered, if no other thread has taken it.
define internal void @run_offered(ptr %block, ptr %memory) {{
entry:
  %at_table = getelementptr i64, ptr %block, i64 {TABLE}
  %at_count = getelementptr i64, ptr %block, i64 {COUNT}
  %at_done = getelementptr i64, ptr %block, i64 {DONE}
  %at_owner = getelementptr i64, ptr %block, i64 {OWNER}
  %has_table = getelementptr i64, ptr %memory, i64 3
  %table = atomicrmw xchg ptr %at_table, i64 0 seq_cst
  %is_gone = icmp eq i64 %table, 0
  br i1 %is_gone, label %out, label %run
run:
  %count = load i64, ptr %at_count
  store atomic i64 1, ptr %has_table monotonic, align 8
  %steps = inttoptr i64 %table to ptr
  %steps_done = call i64 @share_run(ptr %block, ptr %steps, i64 %count, ptr %memory)
  store atomic i64 0, ptr %has_table monotonic, align 8
  ; One more, since 0 says that it still runs.
  %done = add i64 %steps_done, 1
  store atomic i64 %done, ptr %at_done seq_cst, align 8
  %asleep = load atomic i64, ptr %at_owner seq_cst, align 8
  %is_asleep = icmp ne i64 %asleep, 0
  br i1 %is_asleep, label %wake, label %out
wake:
  call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr %at_done, i64 {WAKE}, i64 1)
  br label %out
out:
  ret void
}}

; Come back to the table that was offered; how many of its steps have run.
define i64 @share_return(ptr %block, ptr %memory) {{
entry:
  %at_table = getelementptr i64, ptr %block, i64 {TABLE}
  %at_halt = getelementptr i64, ptr %block, i64 {HALT}
  %at_done = getelementptr i64, ptr %block, i64 {DONE}
  %at_owner = getelementptr i64, ptr %block, i64 {OWNER}
  %moment = alloca [2 x i64]
  store [2 x i64] [i64 0, i64 {MOMENT_NS}], ptr %moment
  store atomic i64 1, ptr %at_halt monotonic, align 8
  %table = atomicrmw xchg ptr %at_table, i64 0 seq_cst
  %is_gone = icmp eq i64 %table, 0
  br i1 %is_gone, label %look, label %untouched
untouched:
  ret i64 0
look:
  %looks = phi i64 [ 0, %entry ], [ 0, %help ], [ %more, %pause ], [ 0, %awake ]
  %done = load atomic i64, ptr %at_done seq_cst, align 8
  %is_done = icmp ne i64 %done, 0
  br i1 %is_done, label %out, label %help
help:
  %ran = call i1 @take(ptr %block, ptr %memory)
  br i1 %ran, label %look, label %patience
patience:
  %more = add i64 %looks, 1
  %long = icmp ugt i64 %more, {SPINS}
  br i1 %long, label %late, label %pause
pause:
  call void @{PAUSE}
  br label %look
late:
  ; The one that has the table may have been put aside with it.
  call void @pull(ptr %block, ptr %memory)
  store atomic i64 1, ptr %at_owner seq_cst, align 8
  %now = load atomic i64, ptr %at_done seq_cst, align 8
  %is_over = icmp ne i64 %now, 0
  br i1 %is_over, label %awake, label %bed
bed:
  call i64 (i64, ...) @syscall(i64 {FUTEX}, ptr %at_done, i64 {WAIT}, i64 0, ptr %moment)
  br label %awake
awake:
  store atomic i64 0, ptr %at_owner seq_cst, align 8
  br label %look
out:
  %steps = sub i64 %done, 1
  ret i64 %steps
}}
"""
