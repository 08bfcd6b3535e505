"""Which operations the host runs as routines, in place of their NumPy meaning."""

from collections.abc import Callable, Mapping

from lazytensor.ir.program import Instr
from lazytensor.ir.types import Type
from lazytensor.kernels import convolution, embedding, panel_products, pooling, recurrent
from lazytensor.kernels.kernel import Attrs
from lazytensor.kernels.routine import Routine

Types = tuple[Type, ...]
_WRITTEN: tuple[Callable[[Attrs, Types, Types], Routine | None], ...] = (
    convolution.conv,
    convolution.conv_input,
    convolution.conv_weight,
    pooling.window_argmax,
    pooling.at_places,
    pooling.put_places,
    pooling.window_sum,
    pooling.window_spread,
    embedding.index_get,
    embedding.index_put,
    recurrent.recurrent,
    recurrent.recurrent_sweep,
    panel_products.matmul,
)
ROUTINES: Mapping[str, Callable[[Attrs, Types, Types], Routine | None]] = {f.__name__: f for f in _WRITTEN}
"""By operation, whose name it has: the routine for attributes, types of results, types of operands.

It gives None where it does not apply.
"""


def routine_of(instr: Instr, outs: Types, ins: Types) -> Routine | None:
    """The routine that runs an instruction, if there is one."""
    is_call = instr.kernel == "call"
    name = instr.attrs["op"] if is_call else instr.kernel
    return (
        ROUTINES[name](instr.attrs.get("attrs", {}) if is_call else instr.attrs, outs, ins)
        if name in ROUTINES
        else None
    )
