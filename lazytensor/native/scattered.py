"""Many pieces of memory written to their places in a file by one call, during which others may run Python."""

import ctypes
import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from lazytensor import config

_TEXT = """
declare i64 @pwrite(i32, ptr, i64, i64)

define i64 @write_pieces(i32 %file, ptr %rows, i64 %count) {
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %next, %tail ]
  %is_over = icmp eq i64 %k, %count
  br i1 %is_over, label %out, label %row
row:
  %at = getelementptr [3 x i64], ptr %rows, i64 %k
  %memory = load ptr, ptr %at
  %at_size = getelementptr i64, ptr %at, i64 1
  %size = load i64, ptr %at_size
  %at_place = getelementptr i64, ptr %at, i64 2
  %place = load i64, ptr %at_place
  br label %more
more:
  %done = phi i64 [ 0, %row ], [ %after, %put ]
  %is_whole = icmp eq i64 %done, %size
  br i1 %is_whole, label %tail, label %write
write:
  %from = getelementptr i8, ptr %memory, i64 %done
  %left = sub i64 %size, %done
  %to = add i64 %place, %done
  %written = call i64 @pwrite(i32 %file, ptr %from, i64 %left, i64 %to)
  %is_bad = icmp slt i64 %written, 1
  br i1 %is_bad, label %out, label %put
put:
  %after = add i64 %done, %written
  br label %more
tail:
  %next = add i64 %k, 1
  br label %head
out:
  ret i64 %k
}
"""


def write_pieces(descriptor: int, rows: list[tuple[int, int, int]]) -> int:
    """Write each row: where in memory it begins, how many bytes it has, and its place in the file.

    Returns how many were written whole, one after another; an error or a signal ends it early.
    """
    write = _function()
    table = np.array(rows, np.int64).reshape(-1, 3)
    return 0 if write is None else write(descriptor, table.ctypes.data, len(rows))


@functools.cache
def _function() -> Callable[..., int] | None:
    if sys.platform != "linux" or sys.maxsize < 1 << 32 or not config.current().jit:
        return None
    # Imported here: LLVM takes a tenth of a second.
    machine: Any = importlib.import_module("lazytensor.native.machine")
    address = machine.addresses(_TEXT, ("write_pieces",))["write_pieces"]
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)(address)
