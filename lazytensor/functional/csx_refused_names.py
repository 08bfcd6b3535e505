"""A table of the public functions that the vendor's front end refuses although this package can compute them.

The table was observed with cerebras_pytorch 2.10.0 on its CSX backend with validate_only=True, for float32 and half
operands, forward and backward. `csx_refusals` applies it. Operations that CIRH does not have at all are refused by
their rows in `lazytensor.ops`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal
from weakref import WeakSet

from lazytensor.core.autocast import half_type
from lazytensor.core.dtype import bfloat16, bool_, int64
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import DEFAULT_HINT
from lazytensor.ops import OPS

Stage = Literal["trace", "lowering", "backward", "gradient", "remember"]
Condition = Callable[[Mapping[str, Any]], bool]


remembered_results: WeakSet[Node] = WeakSet()
"""Results of calls with a row of the stage "remember". A later call may be refused because it has
one as its operand.
"""


@dataclass(frozen=True)
class Refusal:
    """A refusal of one function.

    - `operation`: the ATen or Torch-MLIR operation that the front end names, or its whole message if it has a space.
    - `stage`: one of the stages of `csx_refusals`.
    - `hint`: what the user can do instead.
    - `when`: a function of the call's arguments by name that returns whether the row applies; None applies to all
      calls.
    - `rule`: the rule name of `lazywafer check`, if it is not that of the stage.
    """

    operation: str
    stage: Stage = "trace"
    hint: str = ""
    when: Condition | None = None
    rule: str = ""

    @property
    def message(self) -> str:
        """Return the front end's error message."""
        if " " in self.operation:
            return self.operation
        if self.stage in ("trace", "backward"):
            return f"The Cerebras backend does not yet support `{self.operation}`"
        return f"failed to legalize operation '{self.operation}'"


def _trace(operation: str, hint: str = "", when: Condition | None = None, rule: str = "") -> Refusal:
    return Refusal(operation, "trace", hint, when, rule)


def _lowering(operation: str, hint: str = "", when: Condition | None = None) -> Refusal:
    return Refusal(operation, "lowering", hint, when)


def _backward(operation: str, when: Condition | None = None) -> Refusal:
    return Refusal(operation, "backward", "", when)


def _gradient(operation: str, when: Condition | None = None) -> Refusal:
    return Refusal(operation, "gradient", "", when)


def _first_operand(arguments: Mapping[str, Any]) -> Any:
    """Return the first argument, whatever its name is; None if there is none."""
    return next(iter(arguments.values()), None)


def _rank(arguments: Mapping[str, Any]) -> int:
    return int(getattr(_first_operand(arguments), "ndim", 0))


def _is_half(arguments: Mapping[str, Any]) -> bool:
    return any(getattr(getattr(v, "dtype", None), "is_half", False) for v in arguments.values())


def _mixes_types(arguments: Mapping[str, Any]) -> bool:
    """Return whether the tensors among the arguments have different dtypes."""
    return len({v.dtype for v in arguments.values() if hasattr(v, "dtype")}) > 1


def _has_scalar_of_other_type(arguments: Mapping[str, Any]) -> bool:
    """Return whether there are exactly two floating-point tensors, of different dtypes, and one of them is 0-d."""
    tensors = [v for v in arguments.values() if getattr(getattr(v, "dtype", None), "kind", "") == "f"]
    return len(tensors) == 2 and _mixes_types(arguments) and any(t.ndim == 0 for t in tensors)


def _is_in_place(arguments: Mapping[str, Any]) -> bool:
    return bool(arguments.get("inplace"))


def _mixes_types_or_numbers(arguments: Mapping[str, Any]) -> bool:
    """Return whether the tensors have different dtypes, or an argument is not a tensor."""
    return len({getattr(v, "dtype", None) for v in arguments.values()}) > 1


def _is_past_first(dims: Any, rank: int) -> bool:
    """Return whether `dims`, or one of several, is not dimension 0 of a tensor with `rank` dimensions."""
    several = dims if isinstance(dims, tuple | list) else (dims,)
    return any(isinstance(d, int) and d % max(rank, 1) != 0 for d in several)


def _is_along_other_dims(arguments: Mapping[str, Any]) -> bool:
    dims = arguments.get("dims", arguments.get("dim"))
    return dims is not None and _is_past_first(dims, _rank(arguments))


def _has_other_order(arguments: Mapping[str, Any]) -> bool:
    """Return whether the order of a norm is given (as `p`, `ord` or `n`) and is not the Euclidean one ("fro" or 2)."""
    order = arguments.get("p", arguments.get("ord", arguments.get("n")))
    return order is not None and order not in ("fro", 2, 2.0)


def _is_outside_bfloat16(arguments: Mapping[str, Any]) -> bool:
    """Return whether an operand has a half type while the half type of the run is not bfloat16."""
    return _is_half(arguments) and half_type() is not bfloat16


def _pads(mode: str, *ranks: int) -> Condition:
    return lambda a: a.get("mode") == mode and _rank(a) in ranks


def _resizes(mode: str, *ranks: int) -> Condition:
    return lambda a: a.get("mode", "nearest") == mode and _rank(a) in ranks


def _has_groups(arguments: Mapping[str, Any]) -> bool:
    return bool(arguments.get("groups", 1) != 1)


def _needs_input_gradient(arguments: Mapping[str, Any]) -> bool:
    return bool(_first_operand(arguments).requires_grad)


def _is_wider_than_index(arguments: Mapping[str, Any]) -> bool:
    """Return whether the scattered tensor requires a gradient and has another shape than the index."""
    source, index = arguments.get("src", arguments.get("value")), arguments.get("index")
    return bool(getattr(source, "requires_grad", False) and source.shape != getattr(index, "shape", None))


def _picks_by_number(arguments: Mapping[str, Any]) -> bool:
    """Return whether the second argument, an index or a tuple of them, is or contains a 0-d tensor that is not bool."""
    index = list(arguments.values())[1] if len(arguments) > 1 else None
    parts = index if isinstance(index, tuple) else (index,)
    return any(hasattr(p, "dtype") and not p.ndim and p.dtype is not bool_ for p in parts)


_HUBER = "Write torch.where(d < delta, 0.5 * d * d, delta * (d - 0.5 * delta)).mean() with d = torch.abs(x - y)."
_SMOOTH_L1 = "Write torch.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta).mean() with d = torch.abs(x - y)."
_UPSAMPLE = "Repeat the elements: x[..., :, None, :, None].expand(..., h, 2, w, 2).reshape(..., 2 * h, 2 * w)."
_RESIZE = "Resize on the client, use mode='area', or multiply by an interpolation matrix for each dimension."
_CELL = "Write the cell with nn.Linear for its gates, torch.sigmoid and torch.tanh."
_MV = "Multiply by a column: (a @ v.unsqueeze(1)).squeeze(1)."
_SELU = "Write 1.0507 * torch.where(x > 0, x, 1.6733 * (torch.exp(x) - 1))."
_TRUNC = "Write torch.sign(x) * torch.floor(torch.abs(x))."
_FLOAT = "Convert the operands to one type, with .float() for example."
_COUNT = "Compare instead: (index.unsqueeze(-1) == torch.arange(classes, device=index.device))."
_GROUPS = "'cirh.Convolution' op convolutions with groups != 1 are not supported"
_NO_1D = "'cirh.Convolution' op 1D backward convolutions are not supported"
_MASKING = "Keep the shape and mask instead: torch.where(mask, x, 0), and divide by mask.sum()."
_AMP = "amp does not work out-of-the-box with `F.binary_cross_entropy` or `torch.nn.BCELoss`"
_LAYER_TYPE = "input must have the type torch.float32, got type torch.float16"
# The gradient of a gather along another dimension than the first is an index_put with an incomplete index list.
_LIST_CONSTRUCT = "torch.prim.ListConstruct"
_STORAGE = "aten::set_.source_Storage_storage_offset"

_NEAREST_UPSAMPLING = (
    _trace("aten::upsample_nearest1d", _UPSAMPLE, _resizes("nearest", 3)),
    _lowering("torch.aten.upsample_nearest2d", _UPSAMPLE, _resizes("nearest", 4)),
    _trace("aten::upsample_nearest3d", _UPSAMPLE, _resizes("nearest", 5)),
    _trace("aten::_upsample_nearest_exact2d", _UPSAMPLE, _resizes("nearest-exact", 3, 4, 5)),
    _trace("aten::upsample_linear1d", _RESIZE, _resizes("linear", 3)),
    _trace("aten::upsample_bilinear2d", _RESIZE, _resizes("bilinear", 4)),
    _trace("aten::upsample_bicubic2d", _RESIZE, _resizes("bicubic", 4)),
    _trace("aten::upsample_trilinear3d", _RESIZE, _resizes("trilinear", 5)),
)
_MATRIX_TIMES_VECTOR = _lowering(
    "torch.aten.mv", _MV, lambda a: [getattr(t, "ndim", 0) for t in a.values()][:2] == [2, 1]
)
# With tensors on both sides, int32 is lowered and int64 is refused because of its dtype.
_SCALAR_BITWISE_AND = _trace("aten::bitwise_and.Scalar", when=lambda a: any(type(v) is int for v in a.values()))
_MIXED_CLAMP = _lowering(
    "'cirh.Clamp' op requires the same type for all operands and results",
    "Convert the scalar, with .to(x.dtype).",
    _has_scalar_of_other_type,
)
_NONZERO = Refusal("torch.aten.nonzero", "lowering", _MASKING, rule="shape from data")
_SCALAR_INDEX = _trace(
    "aten::_local_scalar_dense",
    "Write torch.index_select(x, dim, index.reshape(1)).squeeze(dim).",
    _picks_by_number,
)
_NOT = _lowering(
    "'cirh.Not' op has unsupported dtype: 'i64'. Supported dtypes are: 'i1', 'i16', 'i32'",
    "Convert the operand with .int().",
    lambda a: getattr(_first_operand(a), "dtype", None) is int64,
)
_FLOOR_DIVIDE = _backward("derivative for aten::floor_divide is not implemented")
_INDEX_GRADIENT_MESSAGE = "Function {} returned an invalid gradient at index 1: the index does not cover the source"

_ROWS: Mapping[str, tuple[Refusal, ...]] = {
    # Arithmetic and elementwise functions.
    "bitwise_and": (_SCALAR_BITWISE_AND,),
    "__and__": (_SCALAR_BITWISE_AND,),
    "bitwise_left_shift": (_trace("aten::__lshift__.Scalar"),),
    "bitwise_right_shift": (_trace("aten::__rshift__.Scalar"),),
    "__lshift__": (_trace("aten::__lshift__.Scalar", "Multiply by 2 ** n."),),
    "__rshift__": (_trace("aten::__rshift__.Scalar", "Divide by 2 ** n with rounding_mode='floor'."),),
    "celu": (_trace("aten::celu", "Write alpha * F.elu(x / alpha) for alpha > 0."),),
    "complex": (_trace("aten::complex.out"),),
    "copysign": (_trace("aten::copysign.Tensor"),),
    "digamma": (_trace("aten::digamma"),),
    "entr": (_trace("aten::special_entr"),),
    "erfc": (_trace("aten::erfc", "Write 1 - torch.erf(x)."),),
    "erfinv": (_lowering("torch.aten.erfinv"),),
    "asinh": (_lowering("torch.aten.asinh"),),
    "atanh": (_lowering("torch.aten.atanh"),),
    "exp2": (_trace("aten::exp2", "Write 2.0 ** x."),),
    "floor_divide": (_FLOOR_DIVIDE,),
    "__floordiv__": (_FLOOR_DIVIDE,),
    "__rfloordiv__": (_FLOOR_DIVIDE,),
    "fmax": (_lowering("custom op 'torch.aten.fmax' is unknown", OPS["fmax"].cirh.hint),),
    "fmin": (_lowering("custom op 'torch.aten.fmin' is unknown", OPS["fmin"].cirh.hint),),
    "frac": (_trace("aten::frac", "Write x - torch.sign(x) * torch.floor(torch.abs(x))."),),
    "frexp": (_trace("aten::frexp.Tensor_out"),),
    "gcd": (_trace("aten::gcd"),),
    "lcm": (_trace("aten::lcm"),),
    "hardshrink": (
        _lowering("custom op 'torch.aten.hardshrink' is unknown", "Write torch.where(torch.abs(x) > lambd, x, 0.0)."),
        _backward("aten::hardshrink_backward"),
    ),
    "softshrink": (
        _lowering(
            "custom op 'torch.aten.softshrink' is unknown",
            "Write torch.sign(x) * torch.relu(torch.abs(x) - lambd).",
        ),
        _backward("aten::softshrink_backward"),
    ),
    "hardsigmoid": (_backward("aten::hardsigmoid_backward"),),
    "heaviside": (_trace("aten::heaviside"),),
    "hypot": (_trace("aten::hypot"),),
    "i0": (_trace("aten::i0"),),
    "i0e": (_trace("aten::special_i0e"),),
    "i1": (_trace("aten::special_i1"),),
    "i1e": (_trace("aten::special_i1e"),),
    "igamma": (_trace("aten::igamma"),),
    "igammac": (_trace("aten::igammac"),),
    "isneginf": (_lowering("torch.aten.isneginf"),),
    "isposinf": (_lowering("torch.aten.isposinf"),),
    "lerp": (
        _trace("expected one dtype for `input` and `end`", _FLOAT, _mixes_types),
        _lowering("torch.aten.lerp.Tensor", "Write a + w * (b - a)."),
    ),
    "lgamma": (_trace("aten::lgamma"),),
    "mvlgamma": (_trace("aten::lgamma_"),),
    "log_ndtr": (_trace("aten::special_log_ndtr"),),
    "logaddexp": (_trace("aten::logaddexp"),),
    "logaddexp2": (_trace("aten::logaddexp2"),),
    "logit": (_trace("aten::logit", "Write torch.log(p / (1 - p))."),),
    "nextafter": (_trace("aten::nextafter"),),
    "polar": (_trace("aten::polar.out"),),
    "polygamma": (_trace("aten::polygamma"),),
    "prelu": (_trace("aten::_prelu_kernel", "Write torch.where(x > 0, x, weight * x)."),),
    "rrelu": (_trace("aten::rrelu_with_noise"),),
    "rrelu_": (_trace("aten::rrelu_with_noise"),),
    "maximum": (_MIXED_CLAMP,),
    "minimum": (_MIXED_CLAMP,),
    "nonzero": (_NONZERO,),
    "argwhere": (_NONZERO,),
    "where": (replace(_NONZERO, when=lambda a: a.get("input") is None),),
    "hardswish": (
        _lowering("torch.aten.hardswish", "Leave out inplace=True.", _is_in_place),
        _backward("aten::hardswish_backward", _is_in_place),
    ),
    "elu": (_gradient("torch.aten.elu_backward", _is_in_place),),
    "elu_": (_lowering("torch.aten.elu", "Write F.elu(x)."), _gradient("torch.aten.elu_backward")),
    "selu_": (_lowering("torch.aten.elu", _SELU), _gradient("torch.aten.elu_backward")),
    "selu": (
        _lowering("torch.aten.elu", _SELU),
        _gradient("torch.aten.elu_backward"),
    ),
    "round": (
        _trace(
            "aten::round.decimals",
            "Multiply by 10 ** decimals, round, and divide.",
            lambda a: a.get("decimals") is not None,
        ),
    ),
    "special_round": (_trace("aten::round.decimals", "Write torch.round(x)."),),
    "sgn": (_backward("aten::_efficientzerotensor"),),
    "signbit": (_trace("aten::signbit"),),
    "sinc": (_trace("aten::sinc", "Write torch.sin(torch.pi * x) / (torch.pi * x), with 1 where x is 0."),),
    "trunc": (_lowering("custom op 'torch.aten.trunc' is unknown", _TRUNC),),
    "xlogy": (
        _lowering("'cirh.Mul' op requires the same type for all operands and result", _FLOAT, _mixes_types_or_numbers),
    ),
    "xlog1py": (_trace("aten::special_xlog1py"),),
    # Reductions and scans.
    "aminmax": (
        _lowering("custom op 'torch.aten.aminmax' is unknown", "Use torch.amin and torch.amax."),
        _backward("derivative for aten::aminmax is not implemented"),
    ),
    "bincount": (_trace("aten::bincount", _COUNT, rule="counting"),),
    "one_hot": (_trace("aten::_local_scalar_dense", _COUNT, rule="counting"),),
    "count_nonzero": (_trace("aten::count_nonzero.dim_IntList", "Write (x != 0).sum(dim)."),),
    "cummax": (_trace("aten::_cummax_helper"),),
    "cummin": (_trace("aten::_cummin_helper"),),
    "logcumsumexp": (_trace("aten::_logcumsumexp", "Write torch.log(torch.cumsum(torch.exp(x - m), dim)) + m."),),
    "dist": (_trace("aten::norm", "Write torch.sqrt(((x - y) ** 2).sum())."),),
    "histc": (_trace("aten::histc"),),
    "kthvalue": (_trace("aten::kthvalue", "Write x.sort(dim)[0].select(dim, k - 1)."),),
    "median": (_trace("aten::median.dim_values"),),
    "nanmedian": (_trace("aten::nanmedian"),),
    "mode": (_trace("aten::mode"),),
    "nanmean": (_trace("aten::nansum"),),
    "nansum": (_trace("aten::nansum", "Write torch.where(x != x, torch.zeros_like(x), x).sum(dim)."),),
    "norm": (_lowering("torch.aten.norm.ScalarOpt_dim", "Write the sum of powers explicitly.", _has_other_order),),
    "normalize": (_lowering("torch.aten.norm.ScalarOpt_dim", "Divide by a sum of powers.", _has_other_order),),
    "vector_norm": (
        _lowering("torch.aten.linalg_vector_norm", "Write the sum of powers explicitly.", _has_other_order),
    ),
    "matrix_norm": (
        _lowering("torch.aten.linalg_vector_norm", "Write the sum of powers explicitly.", _has_other_order),
    ),
    "nanquantile": (_lowering("torch.aten.lerp.Tensor"),),
    "quantile": (
        _trace("quantile() input tensor must be either float or double dtype", _FLOAT, _is_half),
        _lowering("torch.aten.lerp.Tensor"),
    ),
    "renorm": (_lowering("custom op 'torch.aten.renorm' is unknown"),),
    "std_mean": (_trace("aten::std_mean.correction", "Use torch.std and torch.mean."),),
    "var_mean": (_trace("aten::var_mean", "Use torch.var and torch.mean."),),
    "trace": (
        _lowering("torch.aten.trace", "Multiply by an identity matrix and sum."),
        _backward("aten::index_fill_.int_Tensor"),
    ),
    # Shapes, indexing and creation.
    "as_strided": (_lowering("torch.aten.as_strided_copy"),),
    "as_strided_copy": (_lowering("torch.aten.as_strided_copy"),),
    "channel_shuffle": (_trace("aten::channel_shuffle", "Use view, transpose and reshape."),),
    "combinations": (_trace("aten::masked_select"),),
    "diag": (
        _trace("aten::diag_embed", "Multiply by an identity matrix.", lambda a: _rank(a) == 1),
        _gradient("torch.aten.diagonal_scatter"),
    ),
    "diag_embed": (_trace("aten::diag_embed", "Multiply by an identity matrix."),),
    "diagflat": (_trace("aten::diag_embed", "Multiply by an identity matrix."),),
    "diagonal": (_gradient("torch.aten.diagonal_scatter"),),
    "diagonal_scatter": (_lowering("torch.aten.diagonal_scatter"),),
    "flip": (_gradient(_LIST_CONSTRUCT, _is_along_other_dims),),
    "fliplr": (_gradient(_LIST_CONSTRUCT),),
    "roll": (_gradient(_LIST_CONSTRUCT, _is_along_other_dims),),
    "rot90": (_trace("aten::as_strided_", "Write x.transpose(0, 1).flip(0)."),),
    "index_select": (_gradient(_LIST_CONSTRUCT, _is_along_other_dims),),
    "getitem": (_SCALAR_INDEX,),
    "setitem": (_SCALAR_INDEX,),
    "bitwise_not": (_NOT,),
    "__invert__": (_NOT,),
    "index_copy": (_trace("aten::index_copy"),),
    "index_fill": (_trace("aten::index_fill_.int_Scalar"),),
    "index_put": (_lowering(_LIST_CONSTRUCT),),
    "isin": (_trace("aten::isin.Tensor_Tensor"),),
    "masked_scatter": (_trace("aten::masked_scatter"),),
    "put": (_trace("aten::put_"),),
    "bucketize": (_lowering("torch.aten.bucketize.Tensor"),),
    "searchsorted": (_trace("aten::searchsorted.Tensor"),),
    "scatter": (_backward(_INDEX_GRADIENT_MESSAGE.format("ScatterBackward0"), _is_wider_than_index),),
    "scatter_add": (_backward(_INDEX_GRADIENT_MESSAGE.format("ScatterAddBackward0"), _is_wider_than_index),),
    "scatter_reduce": (
        _lowering("torch.aten.scatter_reduce.two"),
        _backward(_INDEX_GRADIENT_MESSAGE.format("ScatterReduceBackward0"), _is_wider_than_index),
    ),
    "take": (_trace("aten::take"),),
    "triu": (
        _trace(
            "Subtraction, the `-` operator, with two bool tensors is not supported",
            "Build the mask by comparing: torch.arange(n)[:, None] < torch.arange(n).",
            lambda a: getattr(_first_operand(a), "dtype", None) is bool_,
            rule="triangle of bool",
        ),
    ),
    "tril_indices": (_trace("aten::tril_indices"),),
    "triu_indices": (_trace("aten::triu_indices"),),
    "unfold": (_lowering("torch.aten.unfold_copy"), _backward("aten::unfold_backward")),
    "unfold_copy": (_lowering("torch.aten.unfold_copy"), _backward("aten::unfold_backward")),
    "im2col": (_lowering("torch.aten.im2col"), _backward("aten::col2im")),
    "fold": (_trace("aten::col2im"),),
    "pad": (
        _trace("aten::replication_pad1d", when=_pads("replicate", 2, 3)),
        _lowering("torch.aten.replication_pad2d", when=_pads("replicate", 4)),
        _trace("aten::replication_pad3d", when=_pads("replicate", 5)),
        _gradient(_LIST_CONSTRUCT, _pads("reflect", 2, 3)),
        _lowering(_LIST_CONSTRUCT, when=_pads("reflect", 4, 5)),
    ),
    # The vendor's front end computes zeros, silently if a gradient keeps the input in the step.
    "pixel_shuffle": (_lowering("No input tensors found", "Write view, permute and reshape."),),
    "interpolate": _NEAREST_UPSAMPLING,
    "upsample": _NEAREST_UPSAMPLING,
    "upsample_nearest": (_lowering("torch.aten.upsample_nearest2d", _UPSAMPLE),),
    "upsample_bilinear": (_trace("aten::upsample_bilinear2d", _RESIZE),),
    "grid_sample": (_trace("aten::grid_sampler_2d"),),
    "affine_grid": (_trace("aten::as_strided_"),),
    "log_softmax": (Refusal("", "remember", when=lambda a: a["dim"] is not None and a["dim"] < 0),),
    "linspace": (
        _lowering(
            "torch-to-cirh lowering failed: aten.linspace.Tensor_Tensor",
            "Multiply torch.arange by the step, and add the start.",
        ),
    ),
    "logspace": (_trace("aten::logspace.out", "Raise the base to a scaled torch.arange."),),
    "randperm": (_trace("aten::randperm.generator_out"),),
    "exponential_": (_trace("aten::exponential", "Write -torch.log(1 - torch.rand_like(x))."),),
    "normal": (
        _trace("aten::normal.Tensor_float", "Write mean + std * torch.randn_like(mean).", lambda a: _rank(a) > 0),
    ),
    "poisson": (_trace("aten::poisson"),),
    # Products and linear algebra.
    "addbmm": (_trace("aten::addbmm", "Write x + torch.bmm(a, b).sum(0)."),),
    "addmv": (_trace("aten::addmv", "Multiply by a column: x + (a @ v.unsqueeze(1)).squeeze(1)."),),
    "addr": (_trace("aten::view", "Write x + torch.outer(a, b)."),),
    "baddbmm": (_trace("Input dtypes must be the same", _FLOAT, _mixes_types),),
    "bilinear": (_trace("All tensors must have the same dtype", _FLOAT, _mixes_types),),
    "matmul": (_MATRIX_TIMES_VECTOR,),
    "__matmul__": (_MATRIX_TIMES_VECTOR,),
    "mv": (_lowering("torch.aten.mv", _MV),),
    "vdot": (_trace("aten::vdot", "Write (a * b).sum()."),),
    "cross": (_lowering("torch.aten.linalg_cross"),),
    "vander": (_lowering("'cirh.Cast' op all non-scalar operands/results must have the same shape and base type"),),
    "pdist": (_trace("aten::_pdist_forward", "Write torch.cdist(x, x)."),),
    "cov": (_trace("aten::equal"),),
    "corrcoef": (_trace("aten::equal"),),
    "cholesky": (_trace("aten::linalg_cholesky_ex"),),
    "cond": (_trace("aten::_linalg_svd"),),
    "det": (_lowering("custom op 'torch.aten._linalg_det' is unknown"),),
    "eig": (_trace("aten::linalg_eig"),),
    "eigh": (_trace("aten::_linalg_eigh"),),
    "eigvalsh": (_trace("aten::_linalg_eigh"),),
    "inv": (_trace("aten::linalg_inv_ex"),),
    "logdet": (_trace("aten::_linalg_slogdet"),),
    "slogdet": (_trace("aten::_linalg_slogdet"),),
    "lstsq": (_trace("aten::linalg_lstsq.out"),),
    "lu": (_trace("aten::linalg_lu"),),
    "matrix_exp": (_trace("aten::linalg_matrix_exp"),),
    "matrix_rank": (_trace("aten::linalg_svdvals"),),
    "pinv": (_trace("aten::linalg_pinv"),),
    "pinverse": (_trace("aten::linalg_pinv"),),
    "qr": (_lowering("torch.aten.linalg_qr"), _backward("aten::linalg_solve_triangular")),
    "solve": (_trace("aten::_linalg_solve_ex"),),
    "solve_triangular": (_trace("aten::linalg_solve_triangular"),),
    "svd": (_trace("aten::_linalg_svd"),),
    "svdvals": (_trace("aten::_linalg_svd"),),
    # Layers.
    "adaptive_max_pool1d": (
        _lowering("torch.aten.adaptive_max_pool2d"),
        _backward("aten::adaptive_max_pool2d_backward"),
    ),
    "adaptive_max_pool2d": (
        _lowering("torch.aten.adaptive_max_pool2d"),
        _backward("aten::adaptive_max_pool2d_backward"),
    ),
    "batch_norm": (
        _lowering(
            "unsupported type",
            "Set track_running_stats=True, or pass running_mean and running_var.",
            lambda a: a.get("running_mean") is None,
        ),
    ),
    "instance_norm": (
        _lowering(
            "unsupported type",
            "Write the layer with mean, variance and rsqrt.",
            lambda a: a.get("running_mean") is None or a.get("use_input_stats", True),
        ),
    ),
    "group_norm": (
        _lowering(
            "torch.aten.native_group_norm", "Add a dimension, so that the input has four.", lambda a: _rank(a) < 4
        ),
    ),
    "conv1d": (_lowering(_GROUPS, when=_has_groups), _gradient(_NO_1D, _needs_input_gradient)),
    "conv2d": (_lowering(_GROUPS, when=_has_groups),),
    "conv3d": (_lowering(_GROUPS, when=_has_groups),),
    "conv_transpose1d": (_gradient(_NO_1D, _needs_input_gradient),),
    "embedding_bag": (_trace("aten::_embedding_bag", "Sum or average F.embedding over each bag."),),
    "fractional_max_pool2d": (_trace("aten::fractional_max_pool2d"),),
    "max_unpool2d": (_trace("aten::max_unpool2d"),),
    "rnn": (_trace(_LAYER_TYPE, "Convert the input with .float().", _is_half),),
    "lstm": (_trace(_LAYER_TYPE, "Convert the input with .float().", _is_half), _trace(_STORAGE, _CELL)),
    "gru": (_trace(_LAYER_TYPE, "Convert the input with .float().", _is_half), _trace(_STORAGE, _CELL)),
    "gru_cell": (_lowering("custom op 'torch.aten.as_strided' is unknown", _CELL),),
    "lstm_cell": (_lowering("custom op 'torch.aten.as_strided' is unknown", _CELL),),
    # Losses.
    "binary_cross_entropy": (
        _trace(_AMP, "Use F.binary_cross_entropy_with_logits on the logits.", _is_outside_bfloat16),
        _lowering("'cirh.Sub' op requires the same type for all operands and result", _FLOAT, _mixes_types),
    ),
    "ctc_loss": (_trace("aten::_ctc_loss.Tensor"),),
    "gaussian_nll_loss": (_trace("aten::_local_scalar_dense", "Write 0.5 * (torch.log(v) + (x - y) ** 2 / v)."),),
    "huber_loss": (_trace("aten::huber_loss", _HUBER),),
    "multi_margin_loss": (_trace("aten::multi_margin_loss"),),
    "multilabel_margin_loss": (_trace("aten::multilabel_margin_loss_forward"),),
    "nll_loss": (
        _lowering(
            "torch-to-cirh lowering failed: a loss of log_softmax over a dimension that is counted from the end",
            "Write the dimension of log_softmax as a positive number, or use F.cross_entropy.",
            lambda a: (
                getattr(_first_operand(a), "node", None) in remembered_results and a.get("ignore_index", -100) == -100
            ),
        ),
    ),
    "smooth_l1_loss": (_trace("aten::smooth_l1_loss", _SMOOTH_L1),),
    "soft_margin_loss": (_lowering("torch.aten.log1p", "Write torch.log(1 + torch.exp(-y * x)).mean()."),),
}


def _with_hint(name: str, row: Refusal) -> Refusal:
    """Return `row`. If it has no hint, it gets the one of the operation `name`, or the default hint."""
    return replace(row, hint=row.hint or (OPS[name].cirh.hint if name in OPS else DEFAULT_HINT))


REFUSALS = {name: tuple(_with_hint(name, row) for row in rows) for name, rows in _ROWS.items() if rows}
"""The refusals by the name under which `publish` offers a function. All rows that apply to a call act."""
