"""Separate gradient histories of tensors that share a storage, such as those of `.detach()` and `.data`.

A storage has one value and one gradient history. A detached tensor shares the value but has no history. If the script
writes a result that requires a gradient to the detached tensor, the tensor and its views get a separate history.
The operation `written_past(value, history)` has the values of its first operand and the gradient history of its second.
"""

import weakref

from lazytensor.core.shared_memory import SharedMemory
from lazytensor.core.storage import Storage, is_pinned, thread_state, value_of
from lazytensor.ir.graph import Node, leaf, unique_id
from lazytensor.ops import call
from lazytensor.ops.identity import VJP_KEY
from lazytensor.ops.op import full_like


def detach_node(n: Node) -> Node:
    """Return a node with the value of `n` and no gradient history; `n` itself if it has none."""
    return call("detach", n) if n.tracks else n


class History:
    """The gradient history of a detached tensor and its views, separate from that of their storage.

    `_node` is the value of the whole storage with this history; None before the first write that requires a gradient.
    `_stored` is the storage's value that `_node` was made for.
    """

    __slots__ = ("_node", "_stored", "_written")

    def __init__(self) -> None:
        self._node: Node | None = None
        self._stored: Node | None = None
        self._written: weakref.ref[Node] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no gradient passes this history; always True inside a step."""
        return self._node is None or thread_state.current is not None

    @property
    def node(self) -> Node | None:
        """The last value of the whole storage with this history; None if there is none."""
        return self._node

    @property
    def written(self) -> Node | None:
        """The value of the whole storage after the last in-place operation; None if it was freed."""
        return self._written() if self._written is not None else None

    def seen(self, stored: Node) -> Node:
        """Return the current value `stored` of the storage with this history instead of the storage's.

        It has no gradient history while this history is empty. After a write through another tensor, the history stays
        and the value is the new one.
        """
        if self.is_empty:
            return detach_node(stored)
        assert self._node is not None
        if stored is not self._stored:
            # The storage was written through another tensor.
            self._node, self._stored = call("written_past", detach_node(stored), self._node), stored
        return self._node

    def follow(self, whole: Node, stored: Node) -> None:
        """Continue the history with `whole`, the value of the whole storage that was written.

        `stored` is the value of the storage after the write. The history is then that of `whole`.
        """
        self._written = weakref.ref(whole)
        self._node, self._stored = call("written_past", detach_node(stored), whole), stored


def detached_value_leaf(n: Node) -> Node:
    """Compute a node now and return a new leaf with its values and no history."""
    return leaf(value_of(n), n.type)


def attach_storage_history(cell: Storage, n: Node) -> Node:
    """Return `n`, which will be written to `cell`, with the gradient history that the storage has now.

    The history of `n` is dropped. If the storage has no gradient history, `n` is returned unchanged.
    """
    history = cell.node
    if is_pinned(cell) and isinstance(cell.home, SharedMemory):
        history = cell.home.node()
    if history is None or not history.tracks:
        return n
    return call("written_past", detach_node(n), history)


def merge_empty_write(base: Node, n: Node) -> Node:
    """Return `base` after a write of `n`, which has no elements: the result has the gradient histories of both."""
    written = call("custom_vjp", base, n, uid=unique_id())
    written.memo = {**(written.memo or {}), VJP_KEY: lambda g: (g, full_like(0, n))}
    return written
