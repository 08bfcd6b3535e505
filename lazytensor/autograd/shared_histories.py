"""Gradient histories of tensors that share a storage with others, as `.detach()` and `.data` give them.

A storage has one value and one history. A detached tensor shares the value. It has no history until the script writes
the result of a computation that requires a gradient to it, and then one that its views share.
"""

import weakref

from lazytensor.core.shared_memory import SharedMemory
from lazytensor.core.storage import Storage, is_pinned, thread_state, value_of
from lazytensor.ir.graph import Node, leaf, unique_id
from lazytensor.ops import call
from lazytensor.ops.identity import VJP_KEY
from lazytensor.ops.op import full_like


def detach_node(n: Node) -> Node:
    """The node without gradient history."""
    return call("detach", n) if n.tracks else n


class History:
    """The gradient history of a detached tensor and its views, apart from that of their storage.

    `_node` is the value of the whole storage with this history, None before the first write that requires a gradient;
    `_stored` is the value of the storage that `_node` was made for.
    """

    __slots__ = ("_node", "_stored", "_written")

    def __init__(self) -> None:
        self._node: Node | None = None
        self._stored: Node | None = None
        self._written: weakref.ref[Node] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no gradient passes; inside a step none does."""
        return self._node is None or thread_state.current is not None

    @property
    def node(self) -> Node | None:
        """The last value of the whole storage with this history; None before there is one."""
        return self._node

    @property
    def written(self) -> Node | None:
        """The result of the last operation that was written, for the whole storage; None if it is gone."""
        return self._written() if self._written is not None else None

    def seen(self, stored: Node) -> Node:
        """Return `stored`, the present value of the storage, with this history in place of that of the storage."""
        if self.is_empty:
            return detach_node(stored)
        assert self._node is not None
        if stored is not self._stored:
            # Another tensor of the storage was written to.
            self._node, self._stored = call("written_past", detach_node(stored), self._node), stored
        return self._node

    def follow(self, whole: Node, stored: Node) -> None:
        """Continue with `whole`, which was written; `stored` is the value of the storage now."""
        self._written = weakref.ref(whole)
        self._node, self._stored = call("written_past", detach_node(stored), whole), stored


def detached_value_leaf(n: Node) -> Node:
    """Return a new node with the values of a node, which are computed now, and no history."""
    return leaf(value_of(n), n.type)


def attach_storage_history(cell: Storage, n: Node) -> Node:
    """Return `n`, to be written to a cell, with the history that the cell has now."""
    history = cell.node
    if is_pinned(cell) and isinstance(cell.home, SharedMemory):
        history = cell.home.node()
    if history is None or not history.tracks:
        return n
    return call("written_past", detach_node(n), history)


def merge_empty_write(base: Node, n: Node) -> Node:
    """Return `base` after a write of `n`, which has no elements: it has the history of both."""
    written = call("custom_vjp", base, n, uid=unique_id())
    written.memo = {**(written.memo or {}), VJP_KEY: lambda g: (g, full_like(0, n))}
    return written
