"""Rows: machine code that runs several loops over the same rows, block by block, while those lie in a cache."""

ROWS = """
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
; Calls on a block of rows at a time: how many rows, rows of a block, how many calls, pointers and streams there are;
; then each call (function, table, elements of a row), pointer (slot, first address, bytes of a row) and stream (first
; address, bytes of a row).
define void @share_rows(ptr %words, i64 %own) {
entry:
  %count = load i64, ptr %words
  %at_block = getelementptr i64, ptr %words, i64 1
  %block = load i64, ptr %at_block
  %at_steps = getelementptr i64, ptr %words, i64 2
  %steps = load i64, ptr %at_steps
  %at_pointers = getelementptr i64, ptr %words, i64 3
  %pointers = load i64, ptr %at_pointers
  %at_streams = getelementptr i64, ptr %words, i64 4
  %streams = load i64, ptr %at_streams
  %calls = getelementptr i64, ptr %words, i64 5
  %places = getelementptr [3 x i64], ptr %calls, i64 %steps
  %ahead = getelementptr [3 x i64], ptr %places, i64 %pointers
  br label %head
head:
  %row = phi i64 [ 0, %entry ], [ %next, %tail ]
  %more = icmp slt i64 %row, %count
  br i1 %more, label %rows, label %out
rows:
  %rest = sub i64 %count, %row
  %is_last = icmp slt i64 %rest, %block
  %height = select i1 %is_last, i64 %rest, i64 %block
  br label %point
point:
  %k = phi i64 [ 0, %rows ], [ %after, %move ]
  %moved = icmp eq i64 %k, %pointers
  br i1 %moved, label %call, label %move
move:
  %place = getelementptr [3 x i64], ptr %places, i64 %k
  %slot = load ptr, ptr %place
  %at_base = getelementptr i64, ptr %place, i64 1
  %base = load i64, ptr %at_base
  %at_bytes = getelementptr i64, ptr %place, i64 2
  %bytes = load i64, ptr %at_bytes
  %far = mul i64 %row, %bytes
  %address = add i64 %base, %far
  store i64 %address, ptr %slot
  %after = add i64 %k, 1
  br label %point
call:
  %j = phi i64 [ 0, %point ], [ %later, %run ]
  %called = icmp eq i64 %j, %steps
  br i1 %called, label %tail, label %share
share:
  ; Before each call a share of what the next block reads is asked for: it comes while this block is computed.
  %n = phi i64 [ 0, %call ], [ %other, %line ]
  %asked = icmp eq i64 %n, %streams
  br i1 %asked, label %run, label %stream
stream:
  %other = add i64 %n, 1
  %at_first = getelementptr [2 x i64], ptr %ahead, i64 %n
  %first = load i64, ptr %at_first
  %at_row_bytes = getelementptr i64, ptr %at_first, i64 1
  %row_bytes = load i64, ptr %at_row_bytes
  %next_row = add i64 %row, %block
  %skipped = mul i64 %next_row, %row_bytes
  %start = add i64 %first, %skipped
  %all = mul i64 %block, %row_bytes
  %each = udiv i64 %all, %steps
  ; Rounded up to lines of the cache, so that no two calls ask for parts of one.
  %up = add i64 %each, 63
  %whole = and i64 %up, -64
  %from = mul i64 %whole, %j
  %behind = add i64 %from, %whole
  %to = call i64 @llvm.smin.i64(i64 %behind, i64 %all)
  br label %line
line:
  %byte = phi i64 [ %from, %stream ], [ %next_byte, %fetch ]
  %is_within = icmp slt i64 %byte, %to
  br i1 %is_within, label %fetch, label %share
fetch:
  %line_address = add i64 %start, %byte
  %line_pointer = inttoptr i64 %line_address to ptr
  ; To be read, into the second-level cache; behind the end of an array this does nothing.
  call void @llvm.prefetch.p0(ptr %line_pointer, i32 0, i32 2, i32 1)
  %next_byte = add i64 %byte, 64
  br label %line
run:
  %step = getelementptr [3 x i64], ptr %calls, i64 %j
  %function = load ptr, ptr %step
  %at_table = getelementptr i64, ptr %step, i64 1
  %table = load ptr, ptr %at_table
  %at_unit = getelementptr i64, ptr %step, i64 2
  %unit = load i64, ptr %at_unit
  %end = mul i64 %height, %unit
  %at_end = getelementptr i64, ptr %table, i64 1
  store i64 0, ptr %table
  store i64 %end, ptr %at_end
  call void %function(ptr %table)
  %later = add i64 %j, 1
  br label %call
tail:
  %next = add i64 %row, %block
  br label %head
out:
  ret void
}
"""
