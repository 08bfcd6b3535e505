"""Refuses tensors that the machine has no memory for, at the line where PyTorch fails to allocate them.

Nothing is computed before somebody reads it, so that a tensor of any size can be written down. A script that looks for
the largest batch that fits waits for PyTorch's error.
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
"""Of an element, that of complex128."""
MAX_ADDRESS_BYTES = 1 << 47
"""The addresses of a process on x86-64 with four-level paging: the limit where the memory size is unknown."""


def machine_bytes() -> int:
    """Return the bytes of memory and swap of this machine: Linux refuses to a process what is more than both."""
    total = MAX_ADDRESS_BYTES
    with contextlib.suppress(OSError, ValueError, AttributeError):
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        with contextlib.suppress(OSError, IndexError):
            lines = pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
            total += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("SwapTotal:"))
    return total


MAX_BYTES = machine_bytes()
"""Bytes of the largest tensor."""


def require_node_memory(n: Node, device: Device) -> Node:
    """Return a node, of which a tensor is about to be made. Raises MemoryMissing as `require_memory` does."""
    # Each new tensor comes this way: one comparison is enough for nearly all.
    if n.type._size > MAX_BYTES // MAX_ITEM_BYTES:
        require_memory(n.type, device)
    return n


def require_memory(t: Type, device: Device) -> None:
    """Raise MemoryMissing, with the user's line, for a tensor that the machine cannot hold.

    Accepted are tensors on the device "meta", and tensors of a plan and of a step on the wafer, which may never exist
    as a whole. On any device a tensor of 2 ** 63 bytes is refused.
    """
    size_bytes = t.size * t.dtype.itemsize
    step = storage.thread_state.current
    is_recorded = storage.is_abstract or (step is not None and not step.readable)
    if size_bytes >> 63:
        lead = f"Storage size calculation overflowed with sizes={list(t.shape)}"
        raise MemoryMissing(f"{t} has {size_bytes:,} bytes", size_bytes, where=source.where(), lead=lead)
    if size_bytes > MAX_BYTES and device.type != "meta" and not is_recorded:
        what = f"{t} has {size_bytes:,} bytes, and this machine has {MAX_BYTES:,} with its swap space"
        raise MemoryMissing(what, size_bytes, where=source.where())
