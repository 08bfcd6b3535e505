"""The table of operations that the host runs as routines instead of by NumPy."""

from collections.abc import Callable, Mapping

from lazytensor.ir.program import Instr
from lazytensor.ir.types import Type
from lazytensor.kernels import (
    convolution,
    ctc,
    distance,
    embedding,
    factorizations,
    panel_products,
    pooling,
    recurrent,
    sampling,
    scan,
    strided,
)
from lazytensor.kernels.kernel import Attrs
from lazytensor.kernels.routine import Routine

Types = tuple[Type, ...]
_BY_INDEX: tuple[Callable[[Attrs, Types, Types], Routine | None], ...] = (
    embedding.index_get,
    embedding.index_put,
    embedding.gather,
    embedding.scatter,
    embedding.add_rows,
    embedding.pick_along,
    embedding.place_along,
    strided.strided_sum,
    scan.scan,
)
_REORDERED: tuple[Callable[[Attrs, Types, Types], Routine | None], ...] = (
    distance.pair_distances,
    distance.pair_pull,
    sampling.grid_sample,
    sampling.grid_sample_image_grad,
    sampling.grid_sample_grid_grad,
    factorizations.triangular_solve,
    ctc.ctc_loss,
    ctc.ctc_loss_grad,
)
_WRITTEN: tuple[Callable[[Attrs, Types, Types], Routine | None], ...] = (
    convolution.conv,
    convolution.conv_input,
    convolution.conv_weight,
    pooling.window_argmax,
    pooling.at_places,
    pooling.put_places,
    pooling.window_sum,
    pooling.window_spread,
    *_BY_INDEX,
    *_REORDERED,
    embedding.flat_index,
    scan.arg_scan,
    recurrent.recurrent,
    recurrent.recurrent_sweep,
    panel_products.matmul,
)
ROUTINES: Mapping[str, Callable[[Attrs, Types, Types], Routine | None]] = {f.__name__: f for f in _WRITTEN}
"""By operation name: a function from attributes, result types and operand types to the routine.

It returns None if the routine does not apply.
"""


BY_INDEX = frozenset(f.__name__ for f in (*_BY_INDEX, *_REORDERED))
"""Operations such as reads and writes by index, of which also a single one is faster as a routine than in NumPy."""

REORDERED = frozenset(f.__name__ for f in _REORDERED)
"""Those of `BY_INDEX` whose sums have another order in NumPy, and therefore other last bits."""


def routine_of(instr: Instr, outs: Types, ins: Types) -> Routine | None:
    """Return the routine that runs an instruction, or None if there is none for the operation or its types.

    A "call" instruction is looked up by the operation it calls.
    """
    is_call = instr.kernel == "call"
    name = instr.attrs["op"] if is_call else instr.kernel
    return (
        ROUTINES[name](instr.attrs.get("attrs", {}) if is_call else instr.attrs, outs, ins)
        if name in ROUTINES
        else None
    )
