"""What a script marks: the function that is the body of a step, and the closures that wait for its end."""

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from cstorch_compat.files.tree import map_tensors
from cstorch_compat.names.builtin_errors import reraise_as_builtin
from cstorch_compat.run.closures import ClosureCall
from cstorch_compat.run.process import RUN, RunLocal, current_backend, current_executor
from cstorch_compat.run.warnings_at_line import warn
from lazytensor.core import source
from lazytensor.core.tensor import Tensor, detach_node, wrap

_waiting_calls = RunLocal[list[ClosureCall]](list)
"""Calls of closures that were made outside a loop, and wait for the next one."""


def trace_function(step_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function as the body of a step: everything in it belongs to the graph that is compiled.

    >>> import torch, cerebras.pytorch as cstorch
    >>> model = cstorch.compile(torch.nn.Linear(2, 1), cstorch.backend("CPU"))
    >>> optimizer = cstorch.optim.SGD(model.parameters(), lr=0.1)
    >>> @cstorch.trace
    ... def step(batch):
    ...     loss = model(batch).square().mean()
    ...     optimizer.zero_grad()
    ...     loss.backward()
    ...     optimizer.step()
    ...     return loss
    ...
    >>> batches = cstorch.utils.data.DataLoader(lambda: [torch.ones(4, 2)] * 2)
    >>> losses = [step(batch).item() for batch in cstorch.utils.data.DataExecutor(batches, num_steps=2)]
    >>> losses[1] < losses[0]
    True
    """

    def generated_trace_fn(*args: Any, **kwargs: Any) -> Any:
        # Looked up at the call: scripts decorate functions before they make a backend.
        executor, owner = current_executor(), current_backend()
        owner.tracing += 1
        try:
            with reraise_as_builtin():
                return executor.session.call(step_fn, args, kwargs)
        finally:
            owner.tracing -= 1

    # A function keeps its name; anything else gets the one that it has in the original.
    if isinstance(step_fn, FunctionType):
        return functools.update_wrapper(generated_trace_fn, step_fn)
    generated_trace_fn.__qualname__ = "trace.<locals>.generated_trace_fn"
    return generated_trace_fn


def make_closure(function: Callable[..., Any], needs_checkpoint: bool) -> Callable[..., Any]:
    """Return a function whose calls are made when the step is over; outside a loop they are made at once.

    A closure that needs a checkpoint is not called outside a loop. A call made by a closure waits for the end of the
    next step, as in the original.
    """

    @functools.wraps(function)
    def queued(*args: Any, **kwargs: Any) -> Any:
        if RUN.executor is not None:
            _queue_call(ClosureCall(function, args, kwargs, needs_checkpoint, source.where()))
            return None
        if not needs_checkpoint:
            function(*args, **kwargs)  # a closure gives nothing back, wherever it is called
            return None
        warn(f"{function.__name__} was not called: state is fetched in the loop over a cstorch.utils.data.DataExecutor")
        return None

    return queued


def make_public_closure(function: Callable[..., Any], needs_checkpoint: bool) -> Callable[..., Any]:
    """Return what a script's closure becomes: as `make_closure`, but outside a loop its calls wait for the next loop.

    The calls are made when that loop has its first batch, or never if no loop follows. Without a backend a step closure
    is called at once, and a checkpoint closure raises RuntimeError.
    """

    @functools.wraps(function)
    def queued(*args: Any, **kwargs: Any) -> None:
        call = ClosureCall(function, args, kwargs, needs_checkpoint, source.where())
        if RUN.executor is not None:
            _queue_call(call)
        elif current_backend(raise_exception=needs_checkpoint) is None:
            function(*args, **kwargs)
        else:
            _waiting_calls.value.append(
                call.with_arguments(map_tensors(args, _snapshot_tensor), map_tensors(kwargs, _snapshot_tensor))
            )

    return queued


def _queue_call(call: ClosureCall) -> None:
    session = RUN.executor.session
    # The session decides what a closure keeps: copies where values go on changing, handles where they come later.
    kwargs = session.bind(call.kwargs) if call.kwargs else call.kwargs
    session.closures.queue.append(call.with_arguments(session.bind(call.args), kwargs))


def _snapshot_tensor(t: Tensor) -> Tensor:
    return wrap(detach_node(t.node))


def run_waiting_calls() -> None:
    """Make the calls of closures that were made before the loop, in their order; drop them if no step is executed."""
    calls, _waiting_calls.value = _waiting_calls.value, []
    if current_backend().is_e2e_execution:
        for call in calls:
            call.function(*call.args, **call.kwargs)
