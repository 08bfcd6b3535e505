"""Which operations the host runs as routines, in place of their NumPy meaning."""

from collections.abc import Callable, Mapping

from lazytensor.ir.program import Instr
from lazytensor.ir.types import Type
from lazytensor.kernels import correlation, panel_products, pooled_places, recurrent, table_rows
from lazytensor.kernels.kernel import Attrs
from lazytensor.kernels.routine import Routine

Types = tuple[Type, ...]
_WRITTEN: tuple[Callable[[Attrs, Types, Types], Routine | None], ...] = (
    correlation.conv,
    correlation.conv_input,
    correlation.conv_weight,
    pooled_places.window_argmax,
    pooled_places.at_places,
    pooled_places.put_places,
    pooled_places.window_sum,
    pooled_places.window_spread,
    table_rows.index_get,
    table_rows.index_put,
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
