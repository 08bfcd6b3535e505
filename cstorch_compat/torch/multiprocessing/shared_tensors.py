"""The class `torch.multiprocessing.Process`, which returns changes of shared tensors when it is joined.

Processes do not share memory here. A process gets copies of the tensors, and `join` adds its changes to the parent's
tensors. With one process at a time the result equals that of shared memory. With several, the changes of all are added,
where PyTorch interleaves them.
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
"""The interval at which `join` checks whether a process is still alive."""


def find_shared_tensors(values: Any) -> Iterator[Tensor]:
    """Yield the tensors marked as shared in nested arguments, in a fixed order.

    The arguments may be tensors, modules (their parameters and buffers), mappings (their values) and sequences. Other
    objects are ignored. A tensor that occurs twice is yielded twice.
    """
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
    """Call the target in the child process, and send the final values of the shared tensors through `pipe`.

    They are a list of arrays in the order of `find_shared_tensors`. They are also sent if the target raises an error.
    """
    try:
        target(*args, **kwargs)
    finally:
        # Also after an error: earlier writes would remain in shared memory.
        pipe.send([np.array(t.array("sharing")) for t in find_shared_tensors([args, kwargs])])
        pipe.close()


class Process(multiprocessing.Process):
    """A process whose changes of shared tensors are added to the parent's tensors when it is joined.

    Without shared tensors among its arguments it is a `multiprocessing.Process`.
    """

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
        # Without shared tensors no pipe is needed.
        if target is None or not self._given:
            self._pipe: Any = None
            super().__init__(group, target, name, args, kwargs or {}, daemon=daemon)
            return
        self._pipe, theirs = multiprocessing.Pipe(duplex=False)
        self._theirs: Any = theirs
        super().__init__(group, _run_target, name, (target, args, kwargs or {}, theirs), {}, daemon=daemon)

    def start(self) -> None:
        """Start the process with copies of the current tensors.

        The present values of the shared tensors are stored for `join`.
        """
        if self._pipe is not None:
            self._before = [np.array(t.array("sharing")) for t in self._given]
        pipe, given = self._pipe, self._given
        # The parent's end of the pipe and its tensors must not be pickled.
        self._pipe, self._given = None, []
        super().start()
        self._pipe, self._given = pipe, given
        if self._pipe is not None:
            self._theirs.close()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end of the process, and add its changes to the shared tensors.

        With a `timeout`, in seconds, the changes are not added. A later call without it adds them.
        """
        if self._pipe is not None and timeout is None:
            self._receive()
        super().join(timeout)

    def _receive(self) -> None:
        """Wait for the final values of the process, and add its changes to the parent's tensors in place.

        An element that the parent did not change since `start` gets the process's value; otherwise the difference is
        added. A process that ended without sending values changes nothing.
        """
        # Receive before waiting, because a full pipe would block the process forever.
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
                # Take the process's value exactly where the parent's value has not changed meanwhile.
                copy_(t, tensor(np.where(now == start, end, now + (end - start)), dtype=t.dtype))
