"""Tables of the functions that convert their operands to float32 or to the half type while automatic casts are on.

`publish` applies the tables to the public functions. They reproduce what the vendor's front end was observed to do with
calls of a script; einsum, for example, uses its operands unconverted. Layers of `nn` convert their operands themselves.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar
from typing import cast as typed

from lazytensor.core.autocast import cast_to_half, convert_operand, half_type, host_half_type
from lazytensor.core.dtype import float32
from lazytensor.core.tensor import Tensor, operand_node
from lazytensor.functional.argument_errors import guard_arguments
from lazytensor.functional.csx_refusals import with_refusals
from lazytensor.functional.gradient_names import with_gradient_name
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.remembered_calls import remember_calls
from lazytensor.functional.vendor_formulas import FORMULAS
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import OPS
from lazytensor.ops.elementwise import cast

F = TypeVar("F", bound=Callable[..., Any])

# As in PyTorch's autocast, sums and logarithms need the range and precision of float32, while matrix products benefit
# from half types.
FLOAT32_FUNCTIONS = {name for name, op in OPS.items() if op.autocast == "float32" and name != "log1p"} | set(
    """sum prod cumsum cumprod __rtruediv__ __pow__ __rpow__ __ipow__ pow_ median norm normalize var std var_mean
    std_mean dist pdist cdist renorm nll_loss l1_loss smooth_l1_loss huber_loss kl_div
    binary_cross_entropy_with_logits poisson_nll_loss gaussian_nll_loss cosine_embedding_loss hinge_embedding_loss
    margin_ranking_loss multilabel_margin_loss multilabel_soft_margin_loss multi_margin_loss soft_margin_loss
    triplet_margin_loss triplet_margin_with_distance_loss ctc_loss""".split()
)
HALF_FUNCTIONS = {name for name, op in OPS.items() if op.autocast == "half"} | set(
    "__matmul__ __rmatmul__ mm addmm".split()
)
"""Functions that convert float32 operands to the half type.

Rows of the op table state the cast of their operation. The names listed here record several operations or have another
name.
"""
FLOAT32_IN_FUNCTIONAL = {"log_softmax", "softmin", "cosine_similarity"}
"""Functions that convert to float32 in torch.nn.functional only. The function of the same name elsewhere does not."""
FLOAT32_INSIDE_FUNCTIONS = {"glu", "hardswish"}
"""Functions that compute half operands in float32 and return the half type."""
CAST_ONCE_FUNCTIONS = set("var std var_mean std_mean".split())
"""Functions that read their operand several times. One cast before the call is shared, so gradients are added in
float32.
"""
HOST_FLOAT32_FUNCTIONS = {
    name for name in FLOAT32_FUNCTIONS if name.endswith("_loss") and name != "gaussian_nll_loss"
} | set(
    "prod cdist kl_div binary_cross_entropy binary_cross_entropy_with_logits avg_pool3d quantile nanquantile".split()
)
"""Functions that PyTorch's autocast on a CPU computes in float32."""


def _cast_arg_to_float32(value: Any) -> Any:
    if isinstance(value, Tensor) and value.dtype.is_half:
        return tensor_of(convert_operand(operand_node(value), float32), value)
    return value


def _cast_arg_once_to_float32(value: Any) -> Any:
    if isinstance(value, Tensor) and value.dtype.is_half:
        return tensor_of(cast(operand_node(value), float32), value)
    return value


def _cast_arg_to_half(value: Any) -> Any:
    return tensor_of(cast_to_half(operand_node(value))[0], value) if isinstance(value, Tensor) else value


def _first_parameter(function: Callable[..., Any]) -> str:
    """Return the name of the first parameter of a function."""
    return next(iter(inspect.signature(function).parameters))


def _compute_in_float32(function: F) -> F:
    """Return `function` wrapped to compute in float32 and to round the result to the dtype of its first operand.

    The wrapper converts only if the first operand is a half tensor and automatic casts are on.
    """

    operand = _first_parameter(function)

    @functools.wraps(function)
    def converting(*args: Any, **kwargs: Any) -> Any:
        x, *args = args or (kwargs.pop(operand),)  # type: ignore[assignment]
        if half_type() is None or not isinstance(x, Tensor) or not x.dtype.is_half:
            return function(x, *args, **kwargs)
        # The cast is shared by all uses inside the function, so gradients are added in float32.
        out = function(tensor_of(cast(operand_node(x), float32), x), *args, **kwargs)
        return tensor_of(cast(operand_node(out), x.dtype), out)

    return typed(F, converting)


def _record_formula(function: F, formula: Callable[[Node], Node]) -> F:
    """Return `function` wrapped to record `formula` of the operand's node instead, while automatic casts are on.

    The wrapper uses `formula` only for a floating-point tensor without further arguments.
    """

    operand = _first_parameter(function)

    @functools.wraps(function)
    def recording(*args: Any, **kwargs: Any) -> Any:
        x, *args = args or (kwargs.pop(operand),)  # type: ignore[assignment]
        if half_type() is None or not isinstance(x, Tensor) or x.dtype.kind != "f" or args or kwargs:
            return function(x, *args, **kwargs)
        return tensor_of(formula(operand_node(x)), x)

    return typed(F, recording)


def publish(function: F, name: str = "", place: str | None = "F.") -> F:
    """Return `function` as scripts call it: with argument checks, wafer refusals and automatic casts.

    `name` selects the rows of the refusal and cast tables; it defaults to the name of the function. `place` is the
    prefix of the function in PyTorch, as in `argument_errors.guard_arguments`. If no table has the name, nothing but
    the argument checks is added.
    """
    name = name or function.__name__
    return remember_calls(_with_casts(function, name, place), name)


def _with_casts(function: F, name: str, place: str | None) -> F:
    """Return `function` with argument checks, wafer refusals and automatic casts; see `publish`."""
    function = typed(F, with_gradient_name(name, with_refusals(name, guard_arguments(function, place))))
    if name in FORMULAS:
        function = _record_formula(function, FORMULAS[name])
    on_wafer = name in FLOAT32_FUNCTIONS | HALF_FUNCTIONS or (place == "F." and name in FLOAT32_IN_FUNCTIONAL)
    on_host, is_within = name in HOST_FLOAT32_FUNCTIONS, name in FLOAT32_INSIDE_FUNCTIONS
    if is_within:
        return _compute_in_float32(function)
    if not (on_wafer or on_host):
        return function
    convert = (
        _cast_arg_to_half
        if name in HALF_FUNCTIONS
        else _cast_arg_once_to_float32
        if name in CAST_ONCE_FUNCTIONS
        else _cast_arg_to_float32
    )

    @functools.wraps(function)
    def converting(*args: Any, **kwargs: Any) -> Any:
        # The cast state is read at each call, since one function serves steps for the wafer and the host.
        if (half_type() is None or not on_wafer) and (host_half_type() is None or not on_host):
            return function(*args, **kwargs)
        return function(*map(convert, args), **{k: convert(v) for k, v in kwargs.items()})

    return typed(F, converting)
