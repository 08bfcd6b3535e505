"""Loss functions. Each returns its elementwise losses, their sum or their mean.

If a docstring states no shapes, input and target have one shape or broadcast, and so do the elementwise losses; sum and
mean are 0-d. `reduction` is "none", "mean" or "sum"; any other raises OptionInvalid (a ValueError). `size_average` and
`reduce` are PyTorch's deprecated forms of `reduction` and override it if given.
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
from lazytensor.functional.half_precision import host_half_dtype, round_once
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
"""The lower bound of the logarithm of a probability, as in PyTorch, so that a loss stays finite."""


def resolve_reduction(reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> str:
    """Return the reduction, "none", "mean" or "sum", from `reduction` or PyTorch's two deprecated arguments.

    If `size_average` or `reduce` is given, `reduction` is ignored: `reduce=False` gives "none", else
    `size_average=False` gives "sum", else "mean". Raises OptionInvalid (a ValueError) for an unknown `reduction`.
    """
    if size_average is not None or reduce is not None:
        # As in PyTorch, reduce=False takes precedence over size_average.
        mean = size_average is None or size_average
        return "none" if reduce is False else "mean" if mean else "sum"
    if reduction not in _REDUCTIONS:
        raise OptionInvalid(
            f"{reduction} is not a valid value for reduction",
            where=source.where(),
            hint='Pass "none", "mean" or "sum".',
        )
    return reduction


def apply_reduction(x: Tensor, reduction: str) -> Tensor:
    """Return the losses `x`, their mean or their sum.

    `reduction` is "mean", "sum" or "none" (the elementwise losses). Raises OptionInvalid (a ValueError) for an unknown
    `reduction`.
    """
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
    """Return the cross entropy between class scores and targets.

    - `input`: unnormalized scores [N, C, ...] or [C].
    - `target`: class indices [N, ...] (int64), or class probabilities in the shape of `input`.
    - `weight`: a weight for each class, [C]. A mean over class indices is divided by the sum of the weights of the
      targets, a mean over probabilities by the number of samples.
    - `ignore_index`: targets with this class index do not count. It has no effect on probabilities.
    - `label_smoothing`: between 0 and 1, the share of a uniform distribution that is mixed into the target.
    - `size_average`, `reduce`: PyTorch's deprecated forms of `reduction`.

    `reduction` "mean" and "sum" give a 0-d tensor, "none" gives [N, ...]. Half types are computed in float32 while
    automatic casts are on. Raises ShapeError if shapes, dtypes or `label_smoothing` do not fit. Raises IndexInvalid for
    an index that is no class; inside a step it is not checked.

    >>> import lazytensor as lt
    >>> float(lt.nn.functional.cross_entropy(lt.zeros(2, 10), lt.tensor([1, 7])))
    2.3025851249694824
    """
    reduction = resolve_reduction(reduction, size_average, reduce)
    if not 0 <= label_smoothing <= 1:
        raise ShapeError(
            f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}",
            where=source.where(),
            hint="Pass a label_smoothing between 0 and 1.",
        )
    if target.dtype.kind == "f" and input.spec.shape == target.spec.shape:
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    target = prepare_labels(input, target)
    # PyTorch rounds log-probabilities of half types. The single operation does not, except on the wafer.
    if weight is None and not label_smoothing and host_half_dtype(input) is None:
        check_range(input, target, ignore_index)
        (logits,) = cast_to_float32(operand_node(input))
        labels = target.node
        # CIRH has one operation for [N, C] and [N]; other shapes are reshaped to that.
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
    # Smoothed labels are (1 - s) * onehot + s / C, and the loss is linear in them.
    share = label_smoothing / input.spec.shape[1 if input.ndim > 1 else 0]
    smooth = _label_smoothing_loss(logp, target, weight, ignore_index, reduction)
    return loss * (1 - label_smoothing) + smooth * share


def flatten_to_rows(x: Tensor) -> Tensor:
    """Return class scores [N, C, ...] as rows [N * ..., C], and [C] as [1, C]."""
    if x.ndim == 1:
        return unsqueeze(x, 0)
    if x.ndim == 2:
        return x
    return reshape(permute(x, (0, *range(2, x.ndim), 1)), (-1 if x.spec.size else 0, x.spec.shape[1]))


def _soft_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: float
) -> Tensor:
    """Return the cross entropy of class scores and class probabilities of the same shape.

    `weight` multiplies the term of each class. A mean divides by the number of samples, not by the weights.
    """
    dim = 1 if input.ndim > 1 else 0
    classes = input.spec.shape[dim]
    if label_smoothing:
        # Probabilities are mixed with the uniform distribution first.
        target = target * (1 - label_smoothing) + label_smoothing / classes
    part = red.log_softmax(tensor_of(*cast_to_float32(operand_node(input)), input), dim) * target
    if weight is not None:
        weight = class_weights(input, weight, of_labels=False)
        part = part * view(weight, (classes, *(1,) * max(input.ndim - 2, 0)))
    if reduction == "none":
        return -red.sum(part, dim)
    total = -red.sum(part)
    # The mean divides by the number of samples, not by the sum of class weights.
    return total / float(input.spec.size // max(classes, 1)) if reduction == "mean" else total


def _label_weights(target: Tensor, weight: Tensor | None, ignore_index: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return flat int64 labels that are safe to look up, and the weight of each in the dtype of `like`.

    The weight is that of the class in `weight` [C], or 1 if it is None. An ignored label becomes class 0 with weight 0.
    """
    flat = view(pw.cast_to(target, int64), -1)
    keep = flat != ignore_index
    # An ignored label may be out of range, so class 0 is looked up instead.
    safe = pw.where(keep, flat, 0)
    counts = pw.cast_to(keep, like.dtype)
    if weight is not None:
        of_labels = _gather_labels(expand(unsqueeze(weight, 0), (safe.spec.shape[0], -1)), unsqueeze(safe, 1))
        counts = pw.where(keep, view(of_labels, -1), 0.0)
    return safe, counts


def _gather_labels(rows: Tensor, places: Tensor) -> Tensor:
    """Return one element of each row: `rows` [N, C] at `places` [N, 1] gives [N, 1]."""
    if half_type() is None:
        return tensor_of(call("at_places", operand_node(rows), places.node), rows)
    # The vendor's front end cannot print the gradient of a gather in rows, but it can print a selection by comparison.
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
    """Return the negative log-likelihood loss of log-probabilities [N, C, ...] or [C] at class indices [N, ...].

    - `weight`: a weight for each class, [C]. The mean is divided by the sum of the weights.
    - `ignore_index`: targets with this class index do not count.

    `reduction` "none" gives [N, ...]. `size_average` and `reduce` are deprecated forms of `reduction`. Raises
    ShapeError if shapes or dtypes do not fit. Raises IndexInvalid for an index that is no class; inside a step it is
    not checked.

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
    # 0 * log(0) would be NaN.
    loss = pw.where(counts == 0.0, 0.0, loss)
    if reduction == "none":
        return view(loss, target.spec.shape)
    total = red.sum(loss)
    return total / red.sum(counts) if reduction == "mean" else total


def _label_smoothing_loss(
    logp: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str
) -> Tensor:
    """Return the loss against the uniform distribution over classes, summed over C, for label smoothing.

    `logp` are log-probabilities [N, C, ...]. Ignored labels do not count.
    """
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
    """Return `cross_entropy` of the scores linear(input, linear_weight, linear_bias) and `target`.

    `input` is [..., in], `linear_weight` [C, in] and `linear_bias` [C]. `options` is ignored; `ignore_index` None
    stands for -100. The other parameters are those of `cross_entropy`. Raises ShapeError if shapes do not fit.

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
    """Return `loss` * `weight`, reduced; the mean is divided by the sum of the broadcast weights.

    If `weight` is None, it is the plain reduction, "mean", "sum" or "none".
    """
    if weight is None:
        return apply_reduction(loss, reduction)
    product = loss * weight
    if reduction == "mean":
        # The weights are broadcast to the losses, so that each counts as often as it is used.
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
    """Return the squared error (input - target)**2: its mean, sum or elements. The shapes broadcast.

    If `weight` is given, the elements are multiplied by it, and the mean is divided by the sum of the weights.
    `reduction` is "mean", "sum" or "none" (the elementwise losses). `size_average` and `reduce` are its deprecated
    forms.

    >>> import lazytensor as lt
    >>> lt.nn.functional.mse_loss(lt.tensor([1.0, 2.0]), lt.tensor([1.0, 4.0]))
    tensor(2.)
    """
    reduction = resolve_reduction(reduction, size_average, reduce)
    if weight is not None:
        d = input - target
        return _reduce_weighted(d * d, weight, reduction)
    # While automatic casts are on, the vendor computes in float32.
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
    """Return the absolute error |input - target|: its mean, sum or elements. The shapes broadcast.

    If `weight` is given, the elements are multiplied by it, and the mean is divided by the sum of the weights.
    `reduction` is "mean", "sum" or "none" (the elementwise losses). `size_average` and `reduce` are its deprecated
    forms.

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
    """Return the smooth L1 loss of d = |input - target|: d**2 / (2 * beta) if d < `beta`, else d - beta / 2.

    The shapes broadcast, and `reduction` is "mean", "sum" or "none". If `beta` is 0, it is `l1_loss`. `size_average`
    and `reduce` are deprecated forms of `reduction`. Raises ShapeError if `beta` is negative, and TypeUnsupported if
    the promoted dtype is not floating-point.

    >>> import lazytensor as lt
    >>> lt.nn.functional.smooth_l1_loss(lt.tensor([1.0, 2.0]), lt.tensor([1.0, 4.0]))
    tensor(0.7500)
    """
    reduction = resolve_reduction(reduction, size_average, reduce)
    if beta < 0:
        raise ShapeError(
            f"smooth_l1_loss does not support negative values for beta. Got {beta}.",
            where=source.where(),
            hint="Pass a beta of at least 0.",
        )
    if beta == 0:
        # The limit for beta = 0, where the formula would divide by 0.
        return l1_loss(input, target, reduction=reduction)
    d = _absolute_difference(input, target)
    return apply_reduction(_smooth_l1(d, float(beta)), reduction)


@round_once
def _smooth_l1(d: Tensor, beta: float) -> Tensor:
    # An infinite d must not be squared: the gradient of the branch that is not selected would be 0 times infinity. NaN
    # counts as near, so that its gradient is NaN.
    is_far = d >= beta
    near = pw.where(is_far, 0.0, d)
    return pw.where(is_far, d - 0.5 * beta, near * near * (0.5 / beta))


def _absolute_difference(input: Tensor, target: Tensor) -> Tensor:
    """Return |input - target| in the promoted dtype. Raises TypeUnsupported if that is not floating-point."""
    dtype = result_type(input, target)
    x = pw.cast_to(input, dtype)
    require_elements(x, "f", "a loss")
    return pw.abs(x - pw.cast_to(target, dtype))


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Return the Huber loss of d = |input - target|: d**2 / 2 if d <= `delta`, else delta * (d - delta / 2).

    If `weight` is given, the elements are multiplied by it, and the mean is divided by the sum of the weights.
    `reduction` is "mean", "sum" or "none" (the elementwise losses). Raises ShapeError if `delta` is not positive, and
    TypeUnsupported if the promoted dtype is not floating-point.

    >>> import lazytensor as lt
    >>> lt.nn.functional.huber_loss(lt.tensor([1.0, 2.0]), lt.tensor([1.0, 4.0]))
    tensor(0.7500)
    """
    if delta <= 0:
        raise ShapeError(
            f"huber_loss does not support non-positive values for delta. Got {delta}.",
            where=source.where(),
            hint="Pass a delta above 0.",
        )
    d = _absolute_difference(input, target)
    return _reduce_weighted(_huber(d, float(delta)), weight, resolve_reduction(reduction))


@round_once
def _huber(d: Tensor, delta: float) -> Tensor:
    is_far = d > delta
    near = pw.where(is_far, 0.0, d)  # see `_smooth_l1`
    return pw.where(is_far, (d - 0.5 * delta) * delta, near * near * 0.5)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the binary cross entropy -(t * log(x) + (1 - t) * log(1 - x)).

    x are probabilities (`input`) and t targets of the same shape. Logarithms are at least -100. `weight` multiplies the
    elements. `reduction` is "mean", "sum" or "none" (the elementwise losses). `size_average` and `reduce` are its
    deprecated forms. Raises OptionInvalid (a ValueError) if the shapes differ, and TypeUnsupported for integers. On the
    host, ShapeError is raised if the dtypes differ, or when a probability outside 0 to 1 is computed.

    >>> import lazytensor as lt
    >>> lt.nn.functional.binary_cross_entropy(lt.tensor([0.5, 0.5]), lt.tensor([0.0, 1.0]))
    tensor(0.6931)
    """
    if input.spec.shape != target.spec.shape:
        raise OptionInvalid(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. "
            "Please ensure they have the same size.",
            where=source.where(),
            hint="Reshape the target to the size of the input.",
        )
    for x in (input, target):
        require_elements(x, "f", "binary_cross_entropy")
    loss = _probability_entropy(input, target)
    if loss is None:
        # (t - 1) log(1 - x) - t log x rounds in PyTorch's order.
        yes, no = _clamped_log(input), _clamped_log(1.0 - input)
        loss = (target - 1.0) * no - target * yes
    loss = loss if weight is None else loss * weight
    return apply_reduction(loss, resolve_reduction(reduction, size_average, reduce))


def _probability_entropy(x: Tensor, target: Tensor) -> Tensor | None:
    """Return elementwise binary cross entropies with PyTorch's gradient and range checks; None on the wafer.

    Raises ShapeError if the dtypes differ.
    """
    if half_type() is not None or x.device is not CPU or target.device is not CPU:
        return None
    if x.dtype is not target.dtype:
        name = {"float64": "Double", "float32": "Float", "float16": "Half", "bfloat16": "BFloat16"}
        text = f"Found dtype {name.get(target.dtype.name)} but expected {name.get(x.dtype.name)}"
        raise mixed_dtypes_error(x.dtype, target.dtype, text)
    return tensor_of(call("probability_entropy", _check_probability(x, "input"), _check_probability(target, "target")))


def _check_probability(x: Tensor, what: str) -> Node:
    """Return the node of `x` with a check that its values are between 0 and 1.

    The check runs at once if the value is known, else when it is computed. `what` is the parameter's name in the error.
    """
    n = operand_node(x)
    checked = call("probability", n, what=what)
    if n.value is not None:
        check_probabilities(n.value, what=what)
    return checked


def _clamped_log(x: Tensor) -> Tensor:
    """Return log(x), at least -100. The gradient is zero where the bound applies."""
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
    """Return the binary cross entropy of sigmoid(input) and `target`, computed without overflow.

    Both have one shape. `weight` multiplies the elements, and `pos_weight` the positive term t * log(sigmoid(x)).
    `reduction` is "mean", "sum" or "none" (the elementwise losses). `size_average` and `reduce` are its deprecated
    forms. Raises OptionInvalid (a ValueError) if the shapes differ, and TypeUnsupported if `target` is not
    floating-point.

    >>> import lazytensor as lt
    >>> lt.nn.functional.binary_cross_entropy_with_logits(lt.zeros(2), lt.tensor([0.0, 1.0]))
    tensor(0.6931)
    """
    reduction = resolve_reduction(reduction, size_average, reduce) if isinstance(reduction, str) else "mean"
    if input.spec.shape != target.spec.shape:
        raise OptionInvalid(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})",
            where=source.where(),
            hint="Reshape the target to the size of the input.",
        )
    require_elements(target, "f", "the target of binary_cross_entropy_with_logits")
    # CIRH has one operation for the case without `pos_weight`.
    if pos_weight is None and input.dtype is target.dtype:
        # On the wafer the mean is part of the operation. PyTorch takes it of the elements, which rounds differently.
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
    """Return the Kullback-Leibler divergence t * (log(t) - x) of log-probabilities x (`input`) and probabilities t.

    If `log_target` is true, `target` holds log(t). `reduction` "mean" divides by the number of elements; "batchmean"
    divides the sum by the first extent. The shapes broadcast. `size_average` and `reduce` are deprecated forms of
    `reduction`. Raises TypeUnsupported for integers.

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
        # t log t is 0 at t = 0, where the logarithm is -inf; the gradient must not contain that infinity.
        safe = pw.where(is_zero, 1.0, target) if target.requires_grad else target
        own = pw.where(is_zero, 0.0, target * pw.log(safe))
        loss = own - target * input
    # The mathematical definition: the mean over the batch only.
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
    """Return the Poisson negative log-likelihood: exp(x) - t * x, or x - t * log(x + eps) if `log_input` is false.

    x is `input` and t is `target`; the shapes broadcast. If `full` is true, Stirling's approximation of log(t!) is
    added where t > 1. `reduction` is "mean", "sum" or "none" (the elementwise losses). `size_average` and `reduce` are
    its deprecated forms.

    >>> import lazytensor as lt
    >>> lt.nn.functional.poisson_nll_loss(lt.zeros(2), lt.tensor([1.0, 2.0]))
    tensor(1.)
    """
    loss = pw.exp(input) - target * input if log_input else input - target * pw.log(input + float(eps))
    if full:
        many = target > 1.0
        t = pw.where(many, target, 1.0)
        # log(t!) is about t log t - t + log(2 pi t) / 2, which is accurate for t > 1 only.
        stirling = t * pw.log(t) - t + pw.log(t * (2 * math.pi)) * 0.5
        loss = loss + pw.where(many, stirling, 0.0)
    return apply_reduction(loss, resolve_reduction(reduction, size_average, reduce))


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Return the Gaussian negative log-likelihood (log(var) + (input - target)**2 / var) / 2, with var >= `eps`.

    `var` is a number, or a tensor in the shape of `input`, or one whose last dimension is missing or has extent 1. If
    `full` is true, log(2 * pi) / 2 is added. The gradient ignores the lower bound `eps`. `reduction` is "mean", "sum"
    or "none" (the elementwise losses). Raises OptionInvalid (a ValueError) for another shape of `var` and for a
    negative number; negative elements of a tensor become `eps`.

    >>> import lazytensor as lt
    >>> lt.nn.functional.gaussian_nll_loss(lt.zeros(2), lt.tensor([1.0, 2.0]), lt.ones(2))
    tensor(1.2500)
    """
    spread = var if isinstance(var, Tensor) else input.detach() * 0.0 + float(var)
    if isinstance(var, Tensor) and var.spec.shape != input.spec.shape:
        if input.spec.shape[:-1] == var.spec.shape:
            spread = unsqueeze(var, -1)
        elif input.spec.shape[:-1] != var.spec.shape[:-1] or var.spec.shape[-1:] != (1,):
            raise OptionInvalid(
                f"var is of incorrect size: {list(var.spec.shape)} for an input of size {list(input.spec.shape)}",
                where=source.where(),
                hint="Pass a var in the shape of the input, or with 1 as its last extent.",
            )
    if resolve_reduction(reduction) and not isinstance(var, Tensor) and var < 0:
        raise OptionInvalid(
            "var has negative entry/entries",
            where=source.where(),
            hint="Pass variances of at least 0, for example with clamp(min=0).",
        )
    # The gradient ignores the lower bound of the variance.
    lifted = pw.maximum(spread.detach(), float(eps)) - spread.detach()
    safe = spread + lifted
    d = input - target
    loss = (pw.log(safe) + d * d / safe) * 0.5
    return apply_reduction(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)
