"""What a script marks: the function that is the body of a step, and the closures that wait for its end."""

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from cstorch_compat.names.builtin_errors import as_builtin
from cstorch_compat.run.closures import ClosureCall
from cstorch_compat.run.process import RUN, current_backend, current_executor
from cstorch_compat.run.warn import warn
from lazytensor import source


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
            with as_builtin():
                return executor.session.call(step_fn, args, kwargs)
        finally:
            owner.tracing -= 1

    # A function keeps its name; anything else gets the one that it has in the original.
    if isinstance(step_fn, FunctionType):
        return functools.update_wrapper(generated_trace_fn, step_fn)
    generated_trace_fn.__qualname__ = "trace.<locals>.generated_trace_fn"
    return generated_trace_fn


def closure(function: Callable[..., Any], needs_checkpoint: bool) -> Callable[..., Any]:
    """A function that is called when the step is over; where no loop runs, at once, or not at all for a checkpoint.

    A call made by a closure waits for the end of the next step, as in the original.
    """

    @functools.wraps(function)
    def queued(*args: Any, **kwargs: Any) -> Any:
        if RUN.executor is not None:
            session = RUN.executor.session
            # The session decides what a closure keeps: copies where values go on changing, handles where they come
            # later.
            operands = session.bind(args), session.bind(kwargs) if kwargs else kwargs
            session.closures.queue.append(ClosureCall(function, *operands, needs_checkpoint, source.where()))
            return None
        if not needs_checkpoint:
            function(*args, **kwargs)  # a closure gives nothing back, wherever it is called
            return None
        warn(f"{function.__name__} was not called: state is fetched in the loop over a cstorch.utils.data.DataExecutor")
        return None

    return queued
