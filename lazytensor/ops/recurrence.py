"""Recurrent layers as one operation over all time steps, so that the graph does not grow with their number.

`recurrent` takes the product of the input for all time steps, and runs the cell through them. Its gradient runs
backward through them, and leaves the gradients of the weights to products over all time steps. The values that the
gradient needs are a further result. Only the host uses this operation: a step traced for the wafer records unrolled
layers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node, topological
from lazytensor.ir.operation import illegal_with_hint, legal_by_decomposition
from lazytensor.ir.types import Type, Work
from lazytensor.ops.elementwise import sigmoid_values
from lazytensor.ops.formula import Gradients, ResultGradients, differentiate_formula, pullback
from lazytensor.ops.op import call, full, op
from lazytensor.ops.products import matmul
from lazytensor.ops.recurrent_cells import CELLS, CellFunctions
from lazytensor.ops.shape import broadcast_to, reshape, slice_, sum_to

Types = tuple[Type, ...]


def _split_last_dim(x: Node, count: int) -> list[Node]:
    *lead, last = x.type.shape
    each, zeros = last // count, (0,) * len(lead)
    return [slice_(x, (*zeros, k * each), (*lead, (k + 1) * each)) for k in range(count)]


ARRAY_FUNCTIONS = CellFunctions(
    sigmoid=sigmoid_values,
    tanh=np.tanh,
    relu=lambda x: np.maximum(x, 0),
    parts=lambda x, count: np.split(x, count, -1),
)
NODE_FUNCTIONS = CellFunctions(
    sigmoid=lambda x: call("sigmoid", x),
    tanh=lambda x: call("tanh", x),
    relu=lambda x: call("relu", x),
    parts=_split_last_dim,
)


def _time_order(count: int, reverse: bool) -> Sequence[int]:
    """Return the time steps in the order in which a layer processes them."""
    return range(count)[::-1] if reverse else range(count)


def _layer_type(gates: Type, weight: Type, bias: Type, *state: Type, mode: str, reverse: bool) -> Types:
    cell = CELLS[mode]
    hidden = weight.shape[-1]
    rows = cell.gates * hidden
    if weight.shape != (rows, hidden) or bias.shape != (rows,) or gates.shape[2:] != (rows,) or not gates.shape[0]:
        raise ShapeError(
            f"the gates {gates}, the weight {weight} and the bias {bias} do not match a layer {mode} of {hidden} units",
            hint="Create the parameters for this mode and hidden size.",
        )
    steps, batch = gates.shape[:2]
    if len(state) != cell.parts or any(s.shape != (batch, hidden) for s in state):
        raise ShapeError(
            f"the state {list(map(str, state))} does not match {batch} sequences and {hidden} units",
            hint="Pass a state of shape [batch, hidden].",
        )
    kept = (Type((steps, batch, cell.kept * hidden), gates.dtype),) if cell.kept else ()
    return Type((steps, batch, hidden), gates.dtype), *state[1:], *kept


def _layer_work(out: Types | Type, gates: Type, weight: Type, *rest: Type, **attrs: Any) -> Work:
    # The products, and about twenty flops per element of a gate.
    flops = gates.size * (2 * weight.shape[-1] + 20)
    # A single result is a Type, not a tuple.
    return Work(flops, gates.nbytes + weight.nbytes, sum(t.nbytes for t in ((out,) if isinstance(out, Type) else out)))


def _layer_eval(
    gates: np.ndarray, weight: np.ndarray, bias: np.ndarray, *state: np.ndarray, mode: str, reverse: bool
) -> tuple[np.ndarray, ...]:
    """Run a layer through all time steps; return the outputs, the other parts of the last state, and the saved values.

    `gates` is the product of the input, [steps, batch, gates * hidden], and `state` the first state, [batch, hidden]
    each. Saved values, [steps, batch, kept * hidden], are left out for cells without them. With `reverse` the last time
    step is processed first; all results are in order of time.
    """
    cell = CELLS[mode]
    outputs = np.empty((*gates.shape[:2], weight.shape[1]), gates.dtype)
    kept = np.empty((*gates.shape[:2], cell.kept * weight.shape[1]), gates.dtype)
    for t in _time_order(len(gates), reverse):
        state, values = cell.step(ARRAY_FUNCTIONS, gates[t], state[0] @ weight.T + bias, state)
        outputs[t] = state[0]
        if cell.kept:
            np.concatenate(values, -1, out=kept[t])
    return outputs, *state[1:], *((kept,) if cell.kept else ())


def _unroll_layer(
    gates: Node, weight: Node, bias: Node, *state: Node, mode: str, reverse: bool
) -> tuple[tuple[Node, ...], list[tuple[Node, Node]]]:
    """Return the results of a layer as a graph, and a list of the products of each time step, in order of time.

    The results are those of `_layer_eval`. The products are a pair: those of the input and of the state.
    """
    cell = CELLS[mode]
    steps, batch, rows = gates.type.shape
    outputs, kept, products = [], [], []
    for t in _time_order(steps, reverse):
        now = reshape(slice_(gates, (t, 0, 0), (t + 1, batch, rows)), (batch, rows))
        own = matmul(state[0], weight, False, True) + broadcast_to(bias, (batch, rows))
        state, values = cell.step(NODE_FUNCTIONS, now, own, state)
        products.append((now, own))
        outputs.append(reshape(state[0], (1, *state[0].type.shape)))
        kept += [call("concat", *(reshape(v, (1, *v.type.shape)) for v in values), dim=2)] if values else []
    order = slice(None, None, -1 if reverse else 1)
    whole = [call("concat", *column[order], dim=0) for column in (outputs, kept) if column]
    return (whole[0], *state[1:], *whole[1:]), products[order]


def _results(*operands: Node, **attrs: Any) -> tuple[Node, ...]:
    return _unroll_layer(*operands, **attrs)[0]


def _unpack_results(of: Node) -> list[Node]:
    return [call("result", of, index=k) for k in range(len(of.type))]


def _rows(x: Node) -> Node:
    return reshape(x, (x.type.shape[0] * x.type.shape[1], x.type.shape[2]))


def _previous_outputs(outputs: Node, start: Node, reverse: bool) -> Node:
    """Return for each time step, in order of time, the output of the step processed before; `start` for the first one.

    The shape is that of `outputs`, [steps, batch, hidden]. With `reverse` the last time step is processed first.
    """
    steps, batch, hidden = outputs.type.shape
    first = reshape(start, (1, batch, hidden))
    if steps == 1:
        return first
    if reverse:
        return call("concat", slice_(outputs, (1, 0, 0), (steps, batch, hidden)), first, dim=0)
    return call("concat", first, slice_(outputs, (0, 0, 0), (steps - 1, batch, hidden)), dim=0)


def _layer_vjp(g: ResultGradients, y: Node, *operands: Node, mode: str, reverse: bool) -> tuple[Node | None, ...]:
    """Gradient rule of a layer: run "recurrent_grad", then compute the weight's gradient by one product.

    The gradients are those of the input's product, the weight, the bias and the first state. If a gradient of the saved
    values is given (second derivatives), differentiate the unrolled layer instead.
    """
    cell = CELLS[mode]
    results = _unpack_results(y)
    gradients = [g.get(k) for k in range(len(results))]
    # Only gradients read the saved values, so they have a gradient only in a second derivative.
    if cell.kept and gradients[-1] is not None:
        return differentiate_formula(_results)(g, y, *operands, mode=mode, reverse=reverse)
    wanted = gradients[: cell.parts]
    seeds = [full(0, r.type) if d is None else d for d, r in zip(wanted, results, strict=False)]
    values = (results[0], *results[cell.parts :])
    back = _unpack_results(call("recurrent_grad", *seeds, *values, *operands, mode=mode, reverse=reverse))
    products, own = back[0], back[1 if _has_two_gradients(mode) else 0]
    states = back[len(back) - cell.parts :]
    # One product over all time steps.
    weight = matmul(_rows(own), _rows(_previous_outputs(results[0], operands[3], reverse)), True, False)
    return products, weight, sum_to(_rows(own), own.type.shape[2:], (1,)), *states


def _has_two_gradients(mode: str) -> bool:
    """Return whether the gradients of the input's product and the state's product differ. They do for a GRU."""
    return mode == "GRU"


def _backward_type(*types: Type, mode: str, reverse: bool) -> Types:
    cell = CELLS[mode]
    seed, *_ = types
    weight, *state = types[-1 - cell.parts :]
    products = Type((*seed.shape[:2], weight.shape[0]), seed.dtype)
    return products, *((products,) if _has_two_gradients(mode) else ()), *state


def _backward_eval(*arrays: np.ndarray, mode: str, reverse: bool) -> tuple[np.ndarray, ...]:
    """Run the backward pass of a layer through the time steps, last processed first.

    Operands are the gradients of outputs and last state, the outputs, the saved values, the weight, and the first
    state. Results are the gradient of the input's product, that of the state's product if it differs (GRU), and those
    of the first state.
    """
    cell = CELLS[mode]
    seeds, values = arrays[: cell.parts], arrays[cell.parts : -1 - cell.parts]
    weight, *start = arrays[-1 - cell.parts :]
    outputs, kept = values[0], values[-1]
    times = list(_time_order(len(outputs), reverse))
    products = np.empty((*outputs.shape[:2], len(weight)), outputs.dtype)
    own = np.empty_like(products) if _has_two_gradients(mode) else products
    gradient: tuple[np.ndarray, ...] = (np.zeros_like(start[0]), *seeds[1:])

    def after(t: int) -> tuple[np.ndarray, ...]:
        parts = np.split(kept[t], cell.kept, -1) if cell.kept else []
        return (outputs[t], *parts[cell.kept + 1 - cell.parts :])

    for place in reversed(range(len(times))):
        t = times[place]
        before = after(times[place - 1]) if place else tuple(start)
        values_now = tuple(np.split(kept[t], cell.kept, -1)) if cell.kept else ()
        step = cell.back((gradient[0] + seeds[0][t], *gradient[1:]), values_now, before, outputs[t])
        np.concatenate(step.gates, -1, out=products[t])
        if _has_two_gradients(mode):
            np.concatenate(step.own, -1, out=own[t])
        gradient = (step.before[0] + own[t] @ weight, *step.before[1:])
    return products, *((own,) if _has_two_gradients(mode) else ()), *gradient


def _backward_work(out: Types, seed: Type, *types: Type, **attrs: Any) -> Work:
    flops = out[0].size * (2 * seed.shape[-1] + 20)
    return Work(flops, seed.nbytes + sum(t.nbytes for t in types), sum(t.nbytes for t in out))


def _layer_operand_range(mode: str) -> tuple[int, int]:
    """Return the number of the layer's first operand among those of its gradient, and the number of its operands."""
    cell = CELLS[mode]
    return cell.parts + (2 if cell.kept else 1), 3 + cell.parts


def _backward_operands(*operands: Any, mode: str) -> tuple[Any, ...]:
    """Return the operands of the gradient without the input's products and the bias, whose values the gradient does
    not read.
    """
    first, _ = _layer_operand_range(mode)
    return *operands[:first], operands[first + 1], *operands[first + 3 :]


def _grad_type(*types: Type, mode: str, reverse: bool) -> Types:
    return _backward_type(*_backward_operands(*types, mode=mode), mode=mode, reverse=reverse)


def _grad_unrolled(*operands: Node, mode: str, reverse: bool) -> tuple[Node, ...]:
    """Return the results of "recurrent_grad" by differentiating the unrolled layer.

    They are the gradients of the products of all time steps, in order of time, and of the first state. Missing
    gradients are zeros.
    """
    cell = CELLS[mode]
    first, _ = _layer_operand_range(mode)
    seeds, (gates, weight, bias, *state) = operands[: cell.parts], operands[first:]
    results, products = _unroll_layer(gates, weight, bias, *state, mode=mode, reverse=reverse)
    ends = {gates, weight, bias, *state}
    order = [n for n in topological(results, ends.__contains__) if n not in ends]
    wanted = [*(n for pair in products for n in pair), *state]
    seeded: Gradients = dict(zip(results[: cell.parts], seeds, strict=True))
    gradients = pullback(order, seeded, wanted)

    def column(*names: int) -> Node:
        # A product that does not track has no gradient: use zeros. The two products of a sum have the same gradient.
        column = [next((gradients[p[k]] for k in names if p[k] in gradients), full(0, p[0].type)) for p in products]
        return call("concat", *(reshape(n, (1, *n.type.shape)) for n in column), dim=0)

    both = (column(0), column(1)) if _has_two_gradients(mode) else (column(0, 1),)
    return *both, *(gradients.get(s, full(0, s.type)) for s in state)


def _grad_lowered(*operands: Node, mode: str, reverse: bool) -> tuple[Node, ...]:
    """Return `_grad_unrolled` in a graph that does not track gradients, as in lowering to CIRH."""
    stand_ins = []
    for n in operands:
        # uid 0 belongs to no tensor. Lowering replaces the "variable" by its operand.
        stand_in = call("variable", n, uid=0)
        stand_in.tracks = True
        stand_ins.append(stand_in)
    return _grad_unrolled(*stand_ins, mode=mode, reverse=reverse)


op(
    "recurrent",
    _layer_type,
    _layer_eval,
    vjp=_layer_vjp,
    work=_layer_work,
    cirh=legal_by_decomposition(_results),
)
op(
    "recurrent_sweep",
    _backward_type,
    _backward_eval,
    work=_backward_work,
    cirh=illegal_with_hint("Keep the gradient in the graph as one operation: only the host splits it into sweeps."),
)
op(
    # The host needs only some of the layer's operands; the others would be kept alive without use.
    "recurrent_grad",
    _grad_type,
    lambda *arrays, mode, reverse: _backward_eval(*_backward_operands(*arrays, mode=mode), mode=mode, reverse=reverse),
    vjp=differentiate_formula(_grad_unrolled),
    composite=lambda *nodes, mode, reverse: call(
        "recurrent_sweep", *_backward_operands(*nodes, mode=mode), mode=mode, reverse=reverse
    ),
    work=lambda out, *types, mode, reverse: _backward_work(out, *_backward_operands(*types, mode=mode)),
    cirh=legal_by_decomposition(_grad_lowered),
)
