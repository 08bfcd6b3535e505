"""The decorators of steps: traced functions, and step and checkpoint closures."""

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
"""Closure calls that were made outside a loop and are made when the next loop begins."""


def trace_function(step_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function as the body of a step: its operations form the graph that is compiled.

    The returned function raises RuntimeError outside of a loop over a DataExecutor. On CSX the body runs in the first
    step only, and later calls return the same tensors for the new step.

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
        # Look these up at the call, because scripts decorate functions before they make a backend.
        executor, owner = current_executor(), current_backend()
        owner.tracing += 1
        try:
            with reraise_as_builtin():
                return executor.session.call(step_fn, args, kwargs)
        finally:
            owner.tracing -= 1

    # Other callables than functions get the name that they have in the original.
    if isinstance(step_fn, FunctionType):
        return functools.update_wrapper(generated_trace_fn, step_fn)
    generated_trace_fn.__qualname__ = "trace.<locals>.generated_trace_fn"
    return generated_trace_fn


def make_closure(function: Callable[..., Any], needs_checkpoint: bool) -> Callable[..., Any]:
    """Return a function whose calls are made after the step has run. It returns None.

    Outside a loop the call is made immediately if `needs_checkpoint` is False; otherwise it is dropped with a warning.
    A call that is made by a closure waits for the end of the next step, as in the original.
    """

    @functools.wraps(function)
    def queued(*args: Any, **kwargs: Any) -> Any:
        if RUN.executor is not None:
            _queue_call(ClosureCall(function, args, kwargs, needs_checkpoint, source.where()))
            return None
        if not needs_checkpoint:
            function(*args, **kwargs)  # closures never return a value
            return None
        warn(f"{function.__name__} was not called: state can only be fetched in a loop over a DataExecutor")
        return None

    return queued


def make_public_closure(function: Callable[..., Any], needs_checkpoint: bool) -> Callable[..., Any]:
    """Return the closure for a script's function. It is like `make_closure` in a loop.

    Outside a loop the call is made when the next loop has its first batch, or never if no loop follows. Without a
    backend, a step closure is called immediately and a checkpoint closure raises RuntimeError.
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
    """Queue a closure call in the running session, with the arguments that the session keeps."""
    session = RUN.executor.session
    # The eager session binds copies, because values change; the wafer session binds tensors whose values come later.
    kwargs = session.bind(call.kwargs) if call.kwargs else call.kwargs
    session.closures.queue.append(call.with_arguments(session.bind(call.args), kwargs))


def _snapshot_tensor(t: Tensor) -> Tensor:
    """Return a detached tensor with the current value of `t`."""
    return wrap(detach_node(t.node))


def run_waiting_calls() -> None:
    """Make the closure calls from before the loop, in order. Drop them if the backend executes no steps."""
    calls, _waiting_calls.value = _waiting_calls.value, []
    if current_backend().is_e2e_execution:
        for call in calls:
            call.function(*call.args, **call.kwargs)
