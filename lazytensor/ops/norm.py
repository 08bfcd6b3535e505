"""Normalizations that are operations in CIRH: layer norm, group norm and batch norm.

They always have a weight and a bias. A backward pass has one operation with three results for CIRH, and one operation
that gives one of them, which autograd can differentiate again.
"""

import math
from typing import Any

from lazytensor.cirh.layers import (
    CHANNEL_GRADIENTS,
    batch_norm,
    batch_norm_gradient_attributes,
    epsilon_attribute,
    group_norm_attributes,
    group_norm_gradient_attributes,
)
from lazytensor.cirh.spelling import typed_operation
from lazytensor.core.dtype import DType, float32
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import Formula, Legality, elementwise_work, legal_by_decomposition
from lazytensor.ir.types import Type
from lazytensor.ops.elementwise import cast
from lazytensor.ops.formula import composite, differentiate_formula, evaluate_formula
from lazytensor.ops.op import call, full, op
from lazytensor.ops.reduce import reduce
from lazytensor.ops.shape import Dims, broadcast_to, reshape


def center(x: Node, dims: Dims) -> tuple[Node, Node]:
    """Return x minus its mean over `dims`, and its variance (without Bessel's correction).

    The first has the shape of x. The variance has `dims` as 1.
    """
    mean = call("mean", x, dims=dims, keepdim=True)
    rest = x - broadcast_to(mean, x.type.shape)
    # mean(x**2) - mean(x)**2 would lose digits for values far from 0.
    return rest, call("mean", rest * rest, dims=dims, keepdim=True)


def inverse_deviation(variance: Node, eps: float) -> Node:
    """Return 1 / sqrt(variance + eps)."""
    return call("rsqrt", variance + eps)


def _standardize(x: Node, dims: Dims, eps: float, saved: DType | None = None) -> tuple[Node, Node]:
    """Return x scaled to mean 0 and variance 1 over `dims`, and the factor 1 / sqrt(variance + eps), both in the
    shape of x.

    If `saved` is given, the mean and the factor are rounded to that dtype first, as PyTorch's backward pass has them.
    """
    rest, variance = center(x, dims)
    inverse = inverse_deviation(variance, eps)
    if saved is not None:
        mean, inverse = (
            cast(cast(n, saved), n.type.dtype) for n in (call("mean", x, dims=dims, keepdim=True), inverse)
        )
        rest = x - broadcast_to(mean, x.type.shape)
    factor = broadcast_to(inverse, x.type.shape)
    return rest * factor, factor


def _standardize_vjp(g: Node, unit: Node, factor: Node, dims: Dims) -> Node:
    """Return the gradient of x from the gradient `g` of `unit`, the standardized x."""
    shape = g.type.shape
    # x also changes the mean and the deviation, so the components of g along both are removed.
    mean, along = (call("mean", n, dims=dims, keepdim=True) for n in (g, g * unit))
    return factor * (g - broadcast_to(mean, shape) - unit * broadcast_to(along, shape))


def _register_backward(name: str, formula: Formula, spelling: Legality, parts: Formula | None = None) -> None:
    """Register `name`, which gives one result by `index`, and `{name}_all`, which gives all three by `formula`.

    CIRH has the latter, spelled by `spelling`. `parts(name_all, index, ...)` is the CIRH decomposition of `name`, if
    the operands or results need reshaping.
    """

    def results(g: Type, x: Type, *params: Type, **attrs: Any) -> tuple[Type, Type, Type]:
        return x, params[-1], params[-1]

    def one(*inputs: Node, index: int, **attrs: Any) -> Node:
        # PyTorch's kernels round the gradients of half types once.
        wide = (cast(n, float32) if n.type.dtype.is_half else n for n in inputs)
        gradient: Node = formula(*wide, **attrs)[index]
        return cast(gradient, results(*(n.type for n in inputs))[index].dtype)

    # CIRH's backward pass is one operation with three results; autograd needs them one by one. The three operations
    # lower to the same node, because nodes are interned.
    op(f"{name}_all", results, evaluate_formula(formula), work=_all_work, cirh=spelling)
    op(
        name,
        lambda g, x, *params, index, **attrs: results(g, x, *params)[index],
        evaluate_formula(one),
        vjp=differentiate_formula(one),
        composite=one,
        cirh=legal_by_decomposition(
            lambda *inputs, index, **attrs: (parts or _result_of_all)(f"{name}_all", index, *inputs, **attrs)
        ),
        work=elementwise_work(10),
    )


def _result_of_all(name: str, index: int, *inputs: Node, **attrs: Any) -> Node:
    return call("result", call(name, *inputs, **attrs), index=index)


def _all_work(out: tuple[Type, ...], *types: Type, **attrs: Any) -> Any:
    return elementwise_work(10)(out[0], *types, **attrs)


def _gradients(name: str, g: Node, *inputs: Node, **attrs: Any) -> tuple[Node, Node, Node]:
    first, second, third = (call(name, g, *inputs, index=i, **attrs) for i in range(3))
    return first, second, third


def _trailing_dims(x: Node, param: Node) -> Dims:
    rank = len(x.type.shape)
    return tuple(range(rank - len(param.type.shape), rank))


def _leading_dims(x: Node, param: Node) -> Dims:
    return tuple(range(len(x.type.shape) - len(param.type.shape)))


def _layer_norm(x: Node, bias: Node, weight: Node, *, eps: float, saved: DType | None = None) -> Node:
    unit, _ = _standardize(x, _trailing_dims(x, weight), eps)
    return unit * broadcast_to(weight, x.type.shape) + broadcast_to(bias, x.type.shape)


def _layer_norm_type(x: Type, bias: Type, weight: Type, *, eps: float, saved: DType | None = None) -> Type:
    if not weight.shape or x.shape[-len(weight.shape) :] != weight.shape or bias != weight:
        raise ShapeError(
            f"weight {weight} and bias {bias} do not have the shape of the last dimensions of {x}",
            hint="Create weight and bias in the shape of the normalized dimensions.",
        )
    return x


def _layer_norm_backward(
    g: Node, x: Node, bias: Node, weight: Node, *, eps: float, saved: DType | None = None
) -> tuple[Node, Node, Node]:
    dims, lead = _trailing_dims(x, weight), _leading_dims(x, weight)
    unit, factor = _standardize(x, dims, eps, saved)
    dx = _standardize_vjp(g * broadcast_to(weight, x.type.shape), unit, factor, dims)
    # The bias comes first: CIRH's LayerNorm takes beta before gamma, and gives their gradients in that order.
    return dx, reduce(g, "add", lead), reduce(g * unit, "add", lead)


composite(
    "layer_norm",
    _layer_norm,
    _layer_norm_type,
    10,
    vjp=lambda g, y, x, b, w, **attrs: _gradients("layer_norm_grad", g, x, b, w, **attrs),
    cirh=typed_operation("LayerNorm", epsilon_attribute),
    elements="f",
    gradient_name="NativeLayerNorm",
)
_register_backward(
    "layer_norm_grad",
    _layer_norm_backward,
    typed_operation("LayerNormGrad", epsilon_attribute, results=("result", "beta_grad", "gamma_grad")),
)


def _reshape_to_groups(x: Node, groups: int) -> Node:
    shape = x.type.shape
    return reshape(x, (shape[0], groups, math.prod(shape[1:]) // groups))


def _broadcast_channels(param: Node, x: Node) -> Node:
    """Return one number per channel, broadcast to the shape of x."""
    return call("broadcast_in_dim", param, shape=x.type.shape, dims=(1,))


def _group_norm(x: Node, weight: Node, bias: Node, *, groups: int, eps: float) -> Node:
    unit = reshape(_standardize(_reshape_to_groups(x, groups), (2,), eps)[0], x.type.shape)
    return unit * _broadcast_channels(weight, x) + _broadcast_channels(bias, x)


def _channel_type(x: Type, weight: Type, *params: Type, **attrs: Any) -> Type:
    # The constants in place of a missing weight and bias are float32, whatever the dtype of the input.
    if any(p.shape != x.shape[1:2] or p.dtype not in (x.dtype, float32) for p in (weight, *params)):
        raise ShapeError(
            f"the parameters {weight} do not have one number for each channel of {x}",
            hint="Create the parameters with one number for each channel.",
        )
    return x


def _dims_except_channels(x: Node) -> Dims:
    """Return all dimensions except 1, that of the channels."""
    return (0, *range(2, len(x.type.shape)))


def _group_norm_rows(x: Node, weight: Node, bias: Node, *, groups: int, eps: float) -> Node:
    flat = (reshape(p, (x.type.shape[1],)) for p in (weight, bias))
    return _group_norm(x, *flat, groups=groups, eps=eps)


def _decompose_group_norm(x: Node, weight: Node, bias: Node, *, groups: int, eps: float) -> Node:
    # CIRH's GroupNorm has parameters of shape [groups, channels per group]; PyTorch has a vector.
    rows = (_reshape_param_to_groups(p, groups) for p in (weight, bias))
    return call("group_norm_rows", x, *rows, groups=groups, eps=eps)


def _reshape_param_to_groups(param: Node, groups: int) -> Node:
    shape = (groups, param.type.size // groups)
    return full(param.attrs["value"], Type(shape, param.type.dtype)) if param.op == "full" else reshape(param, shape)


def _group_norm_backward(g: Node, x: Node, weight: Node, *, groups: int, eps: float) -> tuple[Node, Node, Node]:
    flat = reshape(weight, (x.type.shape[1],))
    unit, factor = _standardize(_reshape_to_groups(x, groups), (2,), eps)
    dx = _standardize_vjp(_reshape_to_groups(g * _broadcast_channels(flat, x), groups), unit, factor, (2,))
    along = g * reshape(unit, x.type.shape)
    scale, offset = (reshape(reduce(n, "add", _dims_except_channels(x)), weight.type.shape) for n in (along, g))
    return reshape(dx, x.type.shape), scale, offset


def _grouped_gradient(name: str, index: int, g: Node, x: Node, weight: Node, *, groups: int, eps: float) -> Node:
    if index == 0 and weight.op == "full":
        return call("group_norm_input_grad", g, x, groups=groups, eps=eps)
    gradient = _result_of_all(name, index, g, x, _reshape_param_to_groups(weight, groups), groups=groups, eps=eps)
    return gradient if index == 0 else _cast_through_float32(reshape(gradient, weight.type.shape))


def _cast_through_float32(gradient: Node) -> Node:
    """Return the gradient of a half parameter cast to float32 and back, as the front end does."""
    return cast(cast(gradient, float32), gradient.type.dtype) if gradient.type.dtype.is_half else gradient


composite(
    "group_norm",
    _group_norm,
    _channel_type,
    10,
    vjp=lambda g, y, x, w, b, **attrs: _gradients("group_norm_grad", g, x, w, **attrs),
    cirh=legal_by_decomposition(_decompose_group_norm),
    elements="f",
    gradient_name="NativeGroupNorm",
)
_register_backward(
    "group_norm_grad",
    _group_norm_backward,
    typed_operation("GroupNormGrad", group_norm_gradient_attributes(True), results=CHANNEL_GRADIENTS),
    _grouped_gradient,
)


def _group_norm_input_grad(g: Node, x: Node, *, groups: int, eps: float) -> Node:
    ones = full(1, Type(x.type.shape[1:2], x.type.dtype))
    return _group_norm_backward(g, x, ones, groups=groups, eps=eps)[0]


# The gradient of a layer without weight and bias has no weight operand, and only the gradient of x as a result.
op(
    "group_norm_input_grad",
    lambda g, x, **attrs: x,
    evaluate_formula(_group_norm_input_grad),
    work=elementwise_work(10),
    cirh=typed_operation("GroupNormGrad", group_norm_gradient_attributes(False), results=("x_backprop",)),
)
op(
    "group_norm_rows",
    lambda x, *params, **attrs: x,
    evaluate_formula(_group_norm_rows),
    work=elementwise_work(10),
    cirh=typed_operation("GroupNorm", group_norm_attributes),
)


def _batch_norm(x: Node, weight: Node, bias: Node, mean: Node, variance: Node, *, eps: float, **attrs: Any) -> Node:
    unit = (x - _broadcast_channels(mean, x)) * _broadcast_channels(inverse_deviation(variance, eps), x)
    return _apply_affine(unit, weight, bias)


def _apply_affine(unit: Node, weight: Node, bias: Node) -> Node:
    weight, bias = (cast(p, unit.type.dtype) for p in (weight, bias))
    return unit * _broadcast_channels(weight, unit) + _broadcast_channels(bias, unit)


def _batch_norm_training(x: Node, weight: Node, bias: Node, *running: Node, eps: float, **attrs: Any) -> Node:
    unit, _ = _standardize(x, _dims_except_channels(x), eps)
    return _apply_affine(unit, weight, bias)


def _batch_norm_backward(g: Node, x: Node, weight: Node, *, eps: float) -> tuple[Node, Node, Node]:
    dims, dtype = _dims_except_channels(x), weight.type.dtype
    unit, factor = _standardize(x, dims, eps)
    dx = _standardize_vjp(g * _broadcast_channels(cast(weight, x.type.dtype), x), unit, factor, dims)
    return dx, cast(reduce(g * unit, "add", dims), dtype), cast(reduce(g, "add", dims), dtype)


def _training_vjp(
    g: Node, y: Node, x: Node, weight: Node, bias: Node, *running: Node, eps: float, **attrs: Any
) -> tuple[Node | None, ...]:
    # In training the statistics of the batch are used, so the running ones get no gradient.
    return *_gradients("batch_norm_grad", g, x, weight, eps=eps), *(None for _ in running)


def _return_statistics(formula: Formula, from_batch: bool) -> Formula:
    """Return a formula of (result of `formula`, mean, variance).

    The statistics are those of the batch (variance without Bessel's correction) if `from_batch`, else the running ones,
    which are operands.
    """

    def all(x: Node, weight: Node, bias: Node, *running: Node, **attrs: Any) -> tuple[Node, ...]:
        result = formula(x, weight, bias, *running, **attrs)
        if not from_batch:
            return result, *running
        # The variance without Bessel's correction, as the normalization uses it. The layer corrects the running one.
        variance = reshape(center(x, _dims_except_channels(x))[1], weight.type.shape)
        return result, call("mean", x, dims=_dims_except_channels(x), keepdim=False), variance

    return all


def _reshape_to_image(x: Node) -> Node:
    """Return x [N, C, ...] as [N, C, H, W], the shape that CIRH normalizes.

    A single spatial dimension becomes W, and other missing ones are 1 at the end. More than two are kept.
    """
    n, channels, *rest = x.type.shape
    return reshape(
        x, (n, channels, 1, *rest) if len(rest) == 1 else (n, channels, *rest, 1, 1)[: max(4, len(rest) + 2)]
    )


def _compute_as_image(name: str) -> Formula:
    def parts(x: Node, *params: Node, **attrs: Any) -> Node:
        return reshape(
            call("result", call(f"{name}_all", _reshape_to_image(x), *params, **attrs), index=0), x.type.shape
        )

    return parts


def _image_gradient(name: str, index: int, g: Node, x: Node, weight: Node, **attrs: Any) -> Node:
    gradient = _result_of_all(name, index, _reshape_to_image(g), _reshape_to_image(x), weight, **attrs)
    if index == 0:
        return reshape(gradient, x.type.shape)
    return _cast_through_float32(gradient)


for _name, _formula, _vjp, _is_training in (
    ("batch_norm", _batch_norm, differentiate_formula(_batch_norm), False),
    ("batch_norm_training", _batch_norm_training, _training_vjp, True),
):
    composite(
        _name,
        _formula,
        _channel_type,
        10,
        vjp=_vjp,
        cirh=legal_by_decomposition(_compute_as_image(_name)),
        gradient_name="NativeBatchNorm",
    )
    op(
        f"{_name}_all",
        lambda x, weight, bias, mean, variance, **attrs: (x, mean, variance),
        evaluate_formula(_return_statistics(_formula, _is_training)),
        work=_all_work,
        cirh=typed_operation("FusedBatchNorm", batch_norm(_is_training), results=("y", "batch_mean", "batch_variance")),
    )
_register_backward(
    "batch_norm_grad",
    _batch_norm_backward,
    typed_operation("FusedBatchNormGrad", batch_norm_gradient_attributes, results=CHANNEL_GRADIENTS),
    _image_gradient,
)
