"""`trace`: a function of tensors as the program that a backend or a simulator is given."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lazytensor.core.abstract_step import graph_of_step, program_of, tensor
from lazytensor.core.dtype import DType, dtype_of_array
from lazytensor.core.pytree import tree_map
from lazytensor.core.tensor import Tensor, leaf_tensors
from lazytensor.errors import CompileError
from lazytensor.ir.graph import Graph
from lazytensor.ir.graph_function import inline_calls
from lazytensor.ir.program import Program


def trace(step: Callable[..., Any], *examples: Any, half: DType | None = None) -> Program:
    """The program of `step(*examples)`: what it reads, computes, changes and returns. Nothing is computed.

    Of the examples, tensors or NumPy arrays, also in lists and dicts, the types alone are used; what else they hold is
    given to the step as it is and becomes a part of the program. Tensors that were there before, parameters and states
    of optimizers, are its state, and are afterwards as they were. `half` is the type that products run in.
    Raises TraceError, with the user's line, where the step asks for a value, and CompileError without any tensor.

    >>> import lazytensor as lt
    >>> layer = lt.nn.Linear(8, 4)
    >>> program = lt.trace(lambda x: layer(x).relu().sum(), lt.ones(16, 8))
    >>> [program.buffers[i].type.shape for i, _ in program.state.values()]
    [(4, 8), (4,)]
    >>> [instr.label for instr in program.instrs]
    ['matmul', 'add_relu_reduce_add']
    """
    return program_of(trace_graph(step, *examples, half=half))


def trace_graph(step: Callable[..., Any], *examples: Any, half: DType | None = None) -> Graph:
    """The graph of `step(*examples)` as it is recorded, before any pass; for the rest see `trace`.

    >>> import lazytensor as lt
    >>> [node.op for node in lt.trace_graph(lambda x: (x + x).tanh(), lt.ones(3)).nodes()]
    ['batch', 'add', 'tanh']
    """
    inputs: list[Tensor] = []

    def without_value(example: Any) -> Any:
        if isinstance(example, np.ndarray):
            inputs.append(tensor(example.shape, dtype_of_array(example)))
        elif isinstance(example, Tensor):
            inputs.append(tensor(example.spec.shape, example.dtype))
        else:
            return example
        return inputs[-1]

    arguments = tree_map(without_value, list(examples))
    if not inputs:
        raise CompileError("none of the examples is a tensor", hint="Give the step its batch: trace(step, lt.ones(4))")
    # Cells go back by themselves; a gradient is a new tensor, which nothing outside of the step could compute.
    # Taken as references: another thread may make a leaf meanwhile.
    gradients = [(t, t.grad) for weak in leaf_tensors.valuerefs() if (t := weak()) is not None]
    try:
        return inline_calls(graph_of_step(lambda: step(*arguments), {str(i): t for i, t in enumerate(inputs)}, half))
    finally:
        for t, gradient in gradients:
            t.grad = gradient
