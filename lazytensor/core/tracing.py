"""Trace a function of tensors into a graph (`trace_graph`) or a compiled program (`trace`) without computing it."""

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
    """Return the program that computes `step(*examples)`: its inputs, instructions, state and results.

    Nothing is computed. Tensors and NumPy arrays in `examples`, also in nested lists and dicts, become inputs: only
    their shapes and types are used. Other values are passed to `step` unchanged and become part of the program. Tensors
    that existed before, such as parameters and optimizer state, are the program's state; their values and gradients are
    unchanged afterwards. `half` is the type for matrix products, as in `autocast`; None means no automatic casts.
    Raises TraceError, with the user's line, if `step` reads a value, and CompileError if `examples` has no tensor.

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
    """Return the graph of `step(*examples)` as recorded, before any compiler pass, with function calls inlined.

    See `trace` for the arguments and errors.

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
        raise CompileError(
            "no example is a tensor", hint="Pass the batch of the step as an example: trace(step, lt.ones(4))."
        )
    # The capture restores storages, but not `.grad` attributes, which would refer to tensors of the step. Iterate over
    # a copy of the references, because another thread may create a leaf meanwhile.
    gradients = [(t, t.grad) for weak in leaf_tensors.valuerefs() if (t := weak()) is not None]
    try:
        return inline_calls(graph_of_step(lambda: step(*arguments), {str(i): t for i, t in enumerate(inputs)}, half))
    finally:
        for t, gradient in gradients:
            t.grad = gradient
