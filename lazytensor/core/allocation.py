"""Raise out-of-memory errors for tensors that are too large, at the line where PyTorch would fail to allocate them.

Tensors are computed lazily, so creating a huge tensor would succeed. Scripts that search for the largest batch size
that fits rely on PyTorch's error.
"""

import contextlib
import os
import pathlib

from lazytensor.core import source, storage
from lazytensor.core.device import Device
from lazytensor.errors import MemoryMissing
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type

MAX_ITEM_BYTES = 16
"""Size of the largest element type, complex128, in bytes."""
MAX_ADDRESS_BYTES = 1 << 47
"""Address space of a process on x86-64 with four-level paging, in bytes: the limit if the memory size is unknown."""


def machine_bytes() -> int:
    """Return the memory and swap space of this machine in bytes. Linux refuses larger allocations.

    Return `MAX_ADDRESS_BYTES` if the memory size is unknown, and only the memory if the swap space is unknown.
    """
    total = MAX_ADDRESS_BYTES
    with contextlib.suppress(OSError, ValueError, AttributeError):
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        with contextlib.suppress(OSError, IndexError):
            lines = pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
            total += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("SwapTotal:"))
    return total


MAX_BYTES = machine_bytes()
"""Maximum size of a tensor in bytes."""


def require_node_memory(n: Node, device: Device) -> Node:
    """Return `n`, the value of a new tensor on `device`. Raises MemoryMissing as `require_memory` does."""
    # This runs for each new tensor; one comparison is enough for nearly all of them.
    if n.type._size > MAX_BYTES // MAX_ITEM_BYTES:
        require_memory(n.type, device)
    return n


def require_memory(t: Type, device: Device) -> None:
    """Raise MemoryMissing, with the user's line, if the machine cannot hold a tensor of type `t`.

    The limit is `MAX_BYTES`. On the device "meta", in abstract runs, and in steps that are not readable (on the wafer)
    it is 2 ** 63 bytes, because such tensors may never exist as a whole. Half types count 2 bytes per element.
    """
    size_bytes = t.size * t.dtype.itemsize
    step = storage.thread_state.current
    is_recorded = storage.is_abstract or (step is not None and not step.readable)
    if size_bytes >> 63:
        lead = f"Storage size calculation overflowed with sizes={list(t.shape)}"
        raise MemoryMissing(f"{t} has {size_bytes:,} bytes", size_bytes, where=source.where(), lead=lead)
    if size_bytes > MAX_BYTES and device.type != "meta" and not is_recorded:
        what = f"{t} has {size_bytes:,} bytes, but this machine has {MAX_BYTES:,} including swap space"
        raise MemoryMissing(what, size_bytes, where=source.where())
