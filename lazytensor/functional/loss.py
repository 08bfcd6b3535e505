"""Losses. Each gives its elements, their sum or their mean; targets are read as they are, without classes for them.

Where nothing else is said, input and target have one shape [...] (or shapes that broadcast), and so have the elements;
the sum and the mean are numbers, []. All raise ValueError for another `reduction` than none, mean and sum.
"""

import math
from typing import Any

from lazytensor.core import source
from lazytensor.core.autocast import cast_to_float32, half_type
from lazytensor.core.dtype import int64
from lazytensor.core.tensor import CPU, Tensor, operand_node
from lazytensor.errors import OptionInvalid, ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction as red
from lazytensor.functional.activation import logsigmoid
from lazytensor.functional.creation import arange
from lazytensor.functional.loss_targets import check_range, class_weights, prepare_labels
from lazytensor.functional.matmul import linear
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.type_promotion import (
    common_shape,
    mixed_dtypes_error,
    prepare_operand,
    require_elements,
    result_type,
)
from lazytensor.functional.views import expand, permute, reshape, unsqueeze, view
from lazytensor.ir.graph import Node
from lazytensor.ops import call
from lazytensor.ops.probability import check_probabilities

_REDUCTIONS = ("none", "mean", "sum")
MIN_LOG = -100.0
"""Where PyTorch cuts the logarithm of a probability, so that a loss stays finite."""


def resolve_reduction(reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> str:
    """The reduction, also from the two older arguments. Raises ValueError for an unknown one."""
    if size_average is not None or reduce is not None:
        # PyTorch's table of the two: reduce=False wins over everything, size_average=False sums.
        mean = size_average is None or size_average
        return "none" if reduce is False else "mean" if mean else "sum"
    if reduction not in _REDUCTIONS:
        raise OptionInvalid(f"{reduction} is not a valid value for reduction", where=source.where())
    return reduction


def apply_reduction(x: Tensor, reduction: str) -> Tensor:
    """The elements x [...], their mean or their sum []. Raises ValueError for another reduction."""
    return x if resolve_reduction(reduction) == "none" else red.mean(x) if reduction == "mean" else red.sum(x)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy of class scores [N, C, ...] and labels [N, ...], or probabilities in the shape of the scores.

    Labels of `ignore_index` do not count; `weight` [C] weighs classes. Raises ShapeError if shapes do not fit.

    >>> import lazytensor as lt
    >>> float(lt.nn.functional.cross_entropy(lt.zeros(2, 10), lt.tensor([1, 7])))
    2.3025851249694824
    """
    reduction = resolve_reduction(reduction, size_average, reduce)
    if not 0 <= label_smoothing <= 1:
        raise ShapeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}", where=source.where())
    if target.dtype.kind == "f" and input.spec.shape == target.spec.shape:
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    target = prepare_labels(input, target)
    if weight is None and not label_smoothing:
        check_range(input, target, ignore_index)
        (logits,) = cast_to_float32(operand_node(input))
        labels = target.node
        # The operation, which CIRH knows whole, takes [N, C] and [N]; other shapes are laid out that way.
        if logits.type.shape[1:] == () or len(logits.type.shape) > 2:
            rows = flatten_to_rows(tensor_of(logits, input))
            logits, labels = operand_node(rows), view(target, -1).node
        attrs = {"ignore_index": ignore_index, "reduction": reduction}
        out = tensor_of(call("cross_entropy", logits, labels, **attrs), input)
        return out if reduction != "none" else view(out, target.spec.shape)
    logp = red.log_softmax(tensor_of(*cast_to_float32(operand_node(input)), input), 1 if input.ndim > 1 else 0)
    if weight is not None:
        weight = class_weights(logp, weight, of_labels=True)
    loss = nll_loss(logp, target, weight, ignore_index=ignore_index, reduction=reduction)
    if not label_smoothing:
        return loss
    # Smoothed labels are (1 - s) onehot + s / C, and the loss is linear in them.
    share = label_smoothing / input.spec.shape[1 if input.ndim > 1 else 0]
    smooth = _label_smoothing_loss(logp, target, weight, ignore_index, reduction)
    return loss * (1 - label_smoothing) + smooth * share


def flatten_to_rows(x: Tensor) -> Tensor:
    """[N, C, ...] as [places, C]; [C] as [1, C]."""
    if x.ndim == 1:
        return unsqueeze(x, 0)
    if x.ndim == 2:
        return x
    return reshape(permute(x, (0, *range(2, x.ndim), 1)), (-1 if x.spec.size else 0, x.spec.shape[1]))


def _soft_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: float
) -> Tensor:
    dim = 1 if input.ndim > 1 else 0
    classes = input.spec.shape[dim]
    if label_smoothing:
        # Probabilities are smoothed towards the uniform distribution before they are compared.
        target = target * (1 - label_smoothing) + label_smoothing / classes
    part = red.log_softmax(tensor_of(*cast_to_float32(operand_node(input)), input), dim) * target
    if weight is not None:
        weight = class_weights(input, weight, of_labels=False)
        part = part * view(weight, (classes, *(1,) * max(input.ndim - 2, 0)))
    if reduction == "none":
        return -red.sum(part, dim)
    total = -red.sum(part)
    # The mean is over places, without the weights of classes that labels would count by.
    return total / float(input.spec.size // max(classes, 1)) if reduction == "mean" else total


def _label_weights(target: Tensor, weight: Tensor | None, ignore_index: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Labels that are safe to look up, flat, and what each one counts: 0 if it is ignored."""
    flat = view(pw.cast_to(target, int64), -1)
    keep = flat != ignore_index
    # An ignored label may be any number, also one that no class has; class 0 is looked up instead.
    safe = pw.where(keep, flat, 0)
    counts = pw.cast_to(keep, like.dtype)
    if weight is not None:
        of_labels = _gather_labels(expand(unsqueeze(weight, 0), (safe.spec.shape[0], -1)), unsqueeze(safe, 1))
        counts = pw.where(keep, view(of_labels, -1), 0.0)
    return safe, counts


def _gather_labels(rows: Tensor, places: Tensor) -> Tensor:
    """One element of each row: [N, C] and [N, 1] to [N, 1]."""
    if half_type() is None:
        return tensor_of(call("at_places", operand_node(rows), places.node), rows)
    # The front end has no word for the gradient of a look-up in rows; a choice by comparison it prints both ways.
    classes = unsqueeze(arange(rows.spec.shape[1], device=rows.device), 0)
    return red.sum(pw.where(classes == places, rows, 0.0), 1, keepdim=True)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the logarithm of the probability of the label: log-probabilities [N, C, ...] and labels [N, ...].

    `weight` [C] weighs classes, and the mean is by the sum of the weights. Labels of `ignore_index` do not count.
    Raises ShapeError if shapes do not fit.

    >>> import lazytensor as lt
    >>> lt.nn.functional.nll_loss(lt.zeros(2, 3), lt.tensor([0, 2]))
    tensor(0.)
    """
    reduction = resolve_reduction(reduction, size_average, reduce)
    target = prepare_labels(input, target)
    if weight is not None:
        weight = class_weights(input, weight, of_labels=True)
    check_range(input, target, ignore_index)
    if weight is None and input.dtype.kind == "f":
        attrs = {"reduction": reduction, "ignore_index": ignore_index}
        labels = operand_node(view(pw.cast_to(target, int64), -1))
        loss = tensor_of(call("nll_loss", operand_node(flatten_to_rows(input)), labels, **attrs), input)
        return loss if reduction != "none" else view(loss, target.spec.shape)
    safe, counts = _label_weights(target, weight, ignore_index, input)
    loss = -(view(_gather_labels(flatten_to_rows(input), unsqueeze(safe, 1)), -1) * counts)
    # 0 times a probability of 0 would be NaN.
    loss = pw.where(counts == 0.0, 0.0, loss)
    if reduction == "none":
        return view(loss, target.spec.shape)
    total = red.sum(loss)
    return total / red.sum(counts) if reduction == "mean" else total


def _label_smoothing_loss(
    logp: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str
) -> Tensor:
    """The loss against all classes alike, for label smoothing."""
    rows = flatten_to_rows(logp)
    loss = -red.sum(rows if weight is None else rows * weight, 1)
    is_ignored = view(target, -1) == ignore_index
    loss = pw.where(is_ignored, 0.0, loss)
    if reduction == "none":
        return view(loss, target.spec.shape)
    total = red.sum(loss)
    if reduction == "sum":
        return total
    if weight is None:
        return total / red.sum(pw.logical_not(is_ignored))
    return total / red.sum(_label_weights(target, weight, ignore_index, logp)[1])


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """`cross_entropy` of linear(input [..., in], linear_weight [C, in], linear_bias [C]) and labels [...].

    Raises ShapeError if shapes do not fit.

    >>> import lazytensor as lt
    >>> lt.nn.functional.linear_cross_entropy(lt.eye(2), lt.eye(2), lt.tensor([0, 1]))
    tensor(0.3133)
    """
    classes = linear_weight.spec.shape[:-1]
    flat = reshape(linear_weight, (-1, linear_weight.spec.shape[-1]))
    scores = linear(input, flat, linear_bias if linear_bias is None else reshape(linear_bias, -1))
    scores = reshape(scores, (*input.spec.shape[:-1], *classes))
    return cross_entropy(
        scores,
        target,
        weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def _reduce_weighted(loss: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """Weighted elements; the mean is by the sum of the weights."""
    if weight is None:
        return apply_reduction(loss, reduction)
    product = loss * weight
    if reduction == "mean":
        # The weights broadcast to the elements, so that each counts as often as it is used.
        spread = (loss.detach() * 0.0 + 1.0) * weight
        return red.sum(product) / red.sum(spread)
    return apply_reduction(product, reduction)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The mean, sum or elements of (input - target)^2, broadcast; `weight` weighs them.

    >>> import lazytensor as lt
    >>> lt.nn.functional.mse_loss(lt.tensor([1.0, 2.0]), lt.tensor([1.0, 4.0]))
    tensor(2.)
    """
    reduction = resolve_reduction(reduction, size_average, reduce)
    if weight is not None:
        d = input - target
        return _reduce_weighted(d * d, weight, reduction)
    # Under automatic casts the vendor compares in float32.
    x, y = cast_to_float32(operand_node(input), operand_node(target))
    if x.type != y.type:
        shape = common_shape(input, target)
        dtype = result_type(tensor_of(x, input), tensor_of(y, target))
        x, y = (prepare_operand(v, dtype, shape) for v in (input, target))
    return tensor_of(call("mse_loss", x, y, reduction=reduction), input, target)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The mean, sum or elements of |input - target|, broadcast; `weight` weighs them.

    >>> import lazytensor as lt
    >>> lt.nn.functional.l1_loss(lt.tensor([1.0, 2.0]), lt.tensor([1.0, 4.0]))
    tensor(1.)
    """
    return _reduce_weighted(pw.abs(input - target), weight, resolve_reduction(reduction, size_average, reduce))


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """|d| - beta / 2 for differences of beta and more, d^2 / (2 beta) below. Raises ShapeError for a negative beta.

    >>> import lazytensor as lt
    >>> lt.nn.functional.smooth_l1_loss(lt.tensor([1.0, 2.0]), lt.tensor([1.0, 4.0]))
    tensor(0.7500)
    """
    reduction = resolve_reduction(reduction, size_average, reduce)
    if beta < 0:
        raise ShapeError("smooth_l1_loss does not support negative values for beta.", where=source.where())
    if beta == 0:
        # The limit; the formula would divide by 0.
        return l1_loss(input, target, reduction=reduction)
    d = _absolute_difference(input, target)
    near = d * d * (0.5 / beta)
    return apply_reduction(pw.where(d < float(beta), near, d - 0.5 * beta), reduction)


def _absolute_difference(input: Tensor, target: Tensor) -> Tensor:
    """|input - target| in their common type, which truth values take before they are subtracted."""
    dtype = result_type(input, target)
    x = pw.cast_to(input, dtype)
    require_elements(x, "f", "a loss")
    return pw.abs(x - pw.cast_to(target, dtype))


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """d^2 / 2 for differences up to delta, delta * (|d| - delta / 2) above. Raises ShapeError for delta <= 0.

    >>> import lazytensor as lt
    >>> lt.nn.functional.huber_loss(lt.tensor([1.0, 2.0]), lt.tensor([1.0, 4.0]))
    tensor(0.7500)
    """
    if delta <= 0:
        raise ShapeError("huber_loss does not support non-positive values for delta.", where=source.where())
    d = _absolute_difference(input, target)
    far = (d - 0.5 * delta) * float(delta)
    return _reduce_weighted(pw.where(d <= float(delta), d * d * 0.5, far), weight, resolve_reduction(reduction))


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(t log x + (1 - t) log(1 - x)) of probabilities x [...] and targets of the same shape.

    Raises ValueError for different shapes.

    >>> import lazytensor as lt
    >>> lt.nn.functional.binary_cross_entropy(lt.tensor([0.5, 0.5]), lt.tensor([0.0, 1.0]))
    tensor(0.6931)
    """
    if input.spec.shape != target.spec.shape:
        raise OptionInvalid(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. "
            "Please ensure they have the same size.",
            where=source.where(),
        )
    for x in (input, target):
        require_elements(x, "f", "binary_cross_entropy")
    loss = _probability_entropy(input, target)
    if loss is None:
        # (t - 1) log(1 - x) - t log x: the sign is taken into the factors, in PyTorch's order of rounding.
        yes, no = _clamped_log(input), _clamped_log(1.0 - input)
        loss = (target - 1.0) * no - target * yes
    loss = loss if weight is None else loss * weight
    return apply_reduction(loss, resolve_reduction(reduction, size_average, reduce))


def _probability_entropy(x: Tensor, target: Tensor) -> Tensor | None:
    """The losses of probabilities on the host, with PyTorch's gradient and checks; None on the wafer."""
    if half_type() is not None or x.device is not CPU or target.device is not CPU:
        return None
    if x.dtype is not target.dtype:
        name = {"float64": "Double", "float32": "Float", "float16": "Half", "bfloat16": "BFloat16"}
        text = f"Found dtype {name.get(target.dtype.name)} but expected {name.get(x.dtype.name)}"
        raise mixed_dtypes_error(x.dtype, target.dtype, text)
    return tensor_of(call("probability_entropy", _check_probability(x, "input"), _check_probability(target, "target")))


def _check_probability(x: Tensor, what: str) -> Node:
    """The node of x, checked to be in 0..1: at once if its value is known, else when it is computed."""
    n = operand_node(x)
    checked = call("probability", n, what=what)
    if n.value is not None:
        check_probabilities(n.value, what=what)
    return checked


def _clamped_log(x: Tensor) -> Tensor:
    """The logarithm, cut at -100 where no gradient flows either."""
    tiny = x <= math.exp(MIN_LOG)
    return pw.where(tiny, MIN_LOG, pw.log(pw.where(tiny, 1.0, x)))


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Cross entropy of a yes-or-no score and its probability, without overflow; both [...].

    `pos_weight` weighs the yes. Raises ValueError for different shapes.

    >>> import lazytensor as lt
    >>> lt.nn.functional.binary_cross_entropy_with_logits(lt.zeros(2), lt.tensor([0.0, 1.0]))
    tensor(0.6931)
    """
    reduction = resolve_reduction(reduction, size_average, reduce) if isinstance(reduction, str) else "mean"
    if input.spec.shape != target.spec.shape:
        raise OptionInvalid(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})", where=source.where()
        )
    require_elements(target, "f", "the target of binary_cross_entropy_with_logits")
    # CIRH knows the plain case as one operation.
    if pos_weight is None and input.dtype is target.dtype:
        # The wafer's mean is a part of the operation; PyTorch takes it of the elements, in another order of roundings.
        own = reduction if weight is None and half_type() is not None else "none"
        loss = tensor_of(
            call("binary_entropy", operand_node(input), operand_node(target), reduction=own), input, target
        )
        if own != "none":
            return loss
    else:
        log, weights = logsigmoid(input), 1.0 if pos_weight is None else pos_weight
        log = log * ((weights - 1.0) * target + 1.0)
        loss = (1.0 - target) * input - log
    return apply_reduction(loss if weight is None else loss * weight, reduction)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """t (log t - x) of log-probabilities x, broadcast; "batchmean" divides the sum by the first extent.

    Raises ValueError for another reduction.

    >>> import lazytensor as lt
    >>> lt.nn.functional.kl_div(lt.tensor([0.5, 0.5]).log(), lt.tensor([0.25, 0.75]), reduction="sum")
    tensor(0.1308)
    """
    for x in (input, target):
        require_elements(x, "f", "kl_div")
    elements = resolve_reduction("none" if reduction == "batchmean" else reduction, size_average, reduce)
    if log_target:
        loss = pw.exp(target) * (target - input)
    else:
        is_zero = target == 0.0
        # t log t is 0 at 0, where the logarithm is not; its gradient, if it has one, must not see infinity either.
        safe = pw.where(is_zero, 1.0, target) if target.requires_grad else target
        own = pw.where(is_zero, 0.0, target * pw.log(safe))
        loss = own - target * input
    # The mean of the mathematics: over the batch alone, not over every element.
    if reduction == "batchmean":
        return red.sum(loss) / float(input.spec.shape[0]) if input.ndim else red.sum(loss)
    return apply_reduction(loss, elements)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """x - t log x, or exp(x) - t x with log_input, broadcast; `full` adds Stirling's term for t > 1.

    Raises ValueError for another reduction.

    >>> import lazytensor as lt
    >>> lt.nn.functional.poisson_nll_loss(lt.zeros(2), lt.tensor([1.0, 2.0]))
    tensor(1.)
    """
    loss = pw.exp(input) - target * input if log_input else input - target * pw.log(input + float(eps))
    if full:
        many = target > 1.0
        t = pw.where(many, target, 1.0)
        # log t! is about t log t - t + log(2 pi t) / 2, which is good for t > 1 only.
        stirling = t * pw.log(t) - t + pw.log(t * (2 * math.pi)) * 0.5
        loss = loss + pw.where(many, stirling, 0.0)
    return apply_reduction(loss, resolve_reduction(reduction, size_average, reduce))


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """(log var + (x - t)^2 / var) / 2, with var at least eps; `full` adds log(2 pi) / 2.

    `var` has the shape of x, or 1 or nothing in its last dimension. Raises ValueError for another shape, and for a
    negative number.

    >>> import lazytensor as lt
    >>> lt.nn.functional.gaussian_nll_loss(lt.zeros(2), lt.tensor([1.0, 2.0]), lt.ones(2))
    tensor(1.2500)
    """
    spread = var if isinstance(var, Tensor) else input.detach() * 0.0 + float(var)
    if isinstance(var, Tensor) and var.spec.shape != input.spec.shape:
        if input.spec.shape[:-1] == var.spec.shape:
            spread = unsqueeze(var, -1)
        elif input.spec.shape[:-1] != var.spec.shape[:-1] or var.spec.shape[-1:] != (1,):
            raise OptionInvalid("var is of incorrect size", where=source.where())
    if resolve_reduction(reduction) and not isinstance(var, Tensor) and var < 0:
        raise OptionInvalid("var has negative entry/entries", where=source.where())
    # The floor under the variance is not seen by the gradient.
    lifted = pw.maximum(spread.detach(), float(eps)) - spread.detach()
    safe = spread + lifted
    d = input - target
    loss = (pw.log(safe) + d * d / safe) * 0.5
    return apply_reduction(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)
