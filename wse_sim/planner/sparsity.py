"""Find the tensors of a step that are zero where a sparsity mask is False.

These are sparse weights, prepared copies of them, and gradients whose masked elements are not used. Zeros are derived
from the loops of the kernels. An element is zero if it is computed from zeros only, or if the mask selects a zero.
Streaming mode sends and multiplies only the other elements. Pipelined mode keeps weights on the wafer and does not use
sparsity.
"""

from collections.abc import Mapping
from enum import Enum, auto

from lazytensor.ir.nest import Nest
from lazytensor.ir.program import Density, Instr
from lazytensor.ir.types import Type
from wse_sim.isa.core_program import ITEM_BYTES
from wse_sim.planner.dataflow import BufferVersion, Dataflow, Sparsity, has_no_work, is_elementwise

INDEX_BYTES = 2
"""Bytes of an index in a sparse wavelet: 16 bits of index and 16 bits of value (Hot Chips 34)."""


def streamed_bytes(type: Type, density: Density | None) -> int:
    """Return the bytes of a tensor when streamed: nonzero elements with indices, or the dense tensor if smaller.

    Each value of at most 16 bits comes with an index of 2 bytes, a wider one with 4 bytes. Without a `density` the
    tensor is dense.
    """
    if density is None:
        return type.nbytes
    size = type.dtype.itemsize
    each = size + (INDEX_BYTES if size <= ITEM_BYTES["float16"] else 2 * INDEX_BYTES)
    # A nearly dense tensor is smaller without indices.
    return min(type.nbytes, round(density.share * type.size) * each)


def find_sparsity(dataflow: Dataflow) -> Sparsity:
    """Return the densities of sparse weights, of their views and prepared copies, and of their masked gradients.

    A gradient counts if no reader uses its elements where the mask is False. The result is empty if the program
    declares no density.
    """
    program = dataflow.program
    densities = {start: program.density[name] for name, (start, _) in program.state.items() if name in program.density}
    if not densities:
        return Sparsity()
    masks = {b.name: b.index for b in program.buffers if b.kind == "state"}
    parameters = dict(densities)
    for i, instr in enumerate(program.instrs):
        if has_no_work(instr) and instr.reads and instr.reads[0] in densities:
            densities.update(dict.fromkeys(instr.writes, densities[instr.reads[0]]))
        elif i in dataflow.preparing and instr.nest is not None:
            for buffer in instr.reads:
                if density := densities.get(buffer):
                    zeros = {buffer: _MaskedValue.ZERO, masks.get(density.mask, -1): _MaskedValue.FALSE}
                    outputs = _masked_outputs(instr, instr.nest, zeros)
                    densities.update({w: density for w, value in outputs.items() if value is _MaskedValue.ZERO})
    gradients = {
        version.source: density
        for version, parameter in dataflow.gradients.items()
        if (density := parameters.get(parameter)) and _is_masked(dataflow, version, masks.get(density.mask, -1))
    }
    return Sparsity(densities, gradients)


def _is_masked(dataflow: Dataflow, gradient: BufferVersion, mask: int) -> bool:
    """Return whether no reader of a gradient depends on its elements where the mask is False.

    `mask` is the buffer of the mask, -1 if there is none. Return False if the gradient has no reader, or one that is
    not elementwise.
    """
    readers = dataflow.users.get((gradient.buffer, gradient.source), ())
    for i in readers:
        instr = dataflow.program.instrs[i]
        if instr.nest is None or not is_elementwise(instr):
            return False
        values = _masked_outputs(instr, instr.nest, {gradient.buffer: _MaskedValue.GRADIENT, mask: _MaskedValue.FALSE})
        if _MaskedValue.GRADIENT in values.values():
            return False
    return bool(readers)


class _MaskedValue(Enum):
    """What is known of an element where the mask is False: zero, False, derived from the gradient, or nothing."""

    ZERO = auto()
    FALSE = auto()
    GRADIENT = auto()
    OTHER = auto()


_ZERO_PRESERVING_OPS = ("cast", "neg", "abs", "sqrt", "relu", "sign")
"""Operations that return zero for zero."""


def _masked_outputs(instr: Instr, nest: Nest, known: Mapping[int, _MaskedValue]) -> dict[int, _MaskedValue]:
    """Return, for each buffer that a nest writes, its value where the mask is False, given the `known` operands.

    Other operands, and operands or results at other indices than the first result, have the value OTHER. Gradients keep
    theirs.
    """
    values: list[_MaskedValue] = []
    # A mask applies only where it is read at the same index as the result is written.
    place = nest.writes[0]
    for scalar in nest.body:
        if scalar.op == "load":
            is_here = nest.reads[scalar.attr] == place
            value = known.get(instr.reads[scalar.attr], _MaskedValue.OTHER)
            values.append(value if is_here or value is _MaskedValue.GRADIENT else _MaskedValue.OTHER)
        elif scalar.op == "const":
            values.append(_MaskedValue.OTHER if scalar.attr else _MaskedValue.ZERO)
        else:
            values.append(_masked_result(scalar.op, [values[a] for a in scalar.args]))
    results: dict[int, _MaskedValue] = {}
    for store in nest.stores:
        is_here = nest.writes[store.output] == place
        value = values[store.value]
        results[instr.writes[store.output]] = value if is_here or value is _MaskedValue.GRADIENT else _MaskedValue.OTHER
    return results


def _masked_result(op: str, args: list[_MaskedValue]) -> _MaskedValue:
    """Return what a scalar operation computes where the mask is False, given the kinds of its arguments.

    Products with a zero, and sums and functions of zeros only, are ZERO. `where` with a False condition is its last
    argument. Anything else is GRADIENT if an argument is, else OTHER.
    """
    if op == "where" and args[0] is _MaskedValue.FALSE:
        return args[2]
    none = (_MaskedValue.ZERO, _MaskedValue.FALSE)
    if op == "mul" and any(a in none for a in args):
        return _MaskedValue.ZERO
    if op in (*_ZERO_PRESERVING_OPS, "add", "sub") and all(a in none for a in args):
        return _MaskedValue.ZERO
    return _MaskedValue.GRADIENT if _MaskedValue.GRADIENT in args else _MaskedValue.OTHER
