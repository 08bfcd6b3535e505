"""`torch.multiprocessing.Process`: what a process does to shared tensors comes back when it is joined.

There is no memory that two processes write to: tensors are values here. A process gets copies, and its changes are
added to the parent's tensors at `join`. With one process at a time that is what shared memory gives; with several the
changes of each are added up, where PyTorch interleaves them.
"""

import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cstorch_compat.torch.tensor_members import is_shared
from lazytensor.core.tensor import Tensor, grad_mode
from lazytensor.functional.creation import tensor
from lazytensor.functional.in_place import copy_
from lazytensor.nn.module import Module

POLL_INTERVAL_SECONDS = 0.2
"""How often a silent process is asked whether it is still there."""


def find_shared_tensors(values: Any) -> Iterator[Tensor]:
    """The tensors among arguments that were shared, in a fixed order."""
    if isinstance(values, Tensor):
        yield from [values] if is_shared(values) else []
    elif isinstance(values, Module):
        for t in (*values.parameters(), *values.buffers()):
            yield from find_shared_tensors(t)
    elif isinstance(values, Mapping):
        for value in values.values():
            yield from find_shared_tensors(value)
    elif isinstance(values, Sequence) and not isinstance(values, str | bytes):
        for value in values:
            yield from find_shared_tensors(value)


def _run_target(target: Callable[..., Any], args: Any, kwargs: Any, pipe: Any) -> None:
    try:
        target(*args, **kwargs)
    finally:
        # After an error too: what was written before it would stand in shared memory.
        pipe.send([np.array(t.array("sharing")) for t in find_shared_tensors([args, kwargs])])
        pipe.close()


class Process(multiprocessing.Process):
    """A process whose changes of shared tensors are added to the parent's when it is joined."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., Any] | None = None,
        name: str | None = None,
        args: Any = (),
        kwargs: Any = None,
        *,
        daemon: bool | None = None,
    ):
        self._given = list(find_shared_tensors([args, kwargs or {}]))
        # Tensors that nobody has shared need no way back.
        if target is None or not self._given:
            self._pipe: Any = None
            super().__init__(group, target, name, args, kwargs or {}, daemon=daemon)
            return
        self._pipe, theirs = multiprocessing.Pipe(duplex=False)
        self._theirs: Any = theirs
        super().__init__(group, _run_target, name, (target, args, kwargs or {}, theirs), {}, daemon=daemon)

    def start(self) -> None:
        """Start it, with copies of the tensors as they are now."""
        if self._pipe is not None:
            self._before = [np.array(t.array("sharing")) for t in self._given]
        pipe, given = self._pipe, self._given
        # The ends of the parent stay with the parent; what is sent is the target's arguments.
        self._pipe, self._given = None, []
        super().start()
        self._pipe, self._given = pipe, given
        if self._pipe is not None:
            self._theirs.close()

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, and add what it has changed."""
        if self._pipe is not None and timeout is None:
            self._receive()
        super().join(timeout)

    def _receive(self) -> None:
        # Before its end is waited for: a full pipe would hold it up for ever.
        while not self._pipe.poll(POLL_INTERVAL_SECONDS):
            if not self.is_alive() and not self._pipe.poll(0):
                self._pipe = None
                return
        try:
            after = self._pipe.recv()
        except EOFError:
            after = []
        self._pipe = None
        with grad_mode(False):
            for t, start, end in zip(self._given, self._before, after, strict=False):
                now = t.array("sharing")
                # Exactly what the process has left, where nobody else has written meanwhile.
                copy_(t, tensor(np.where(now == start, end, now + (end - start)), dtype=t.dtype))
