"""Margin losses and losses of similarities between vectors.

If a docstring states no shapes, all operands have one shape or broadcast, and so do the elementwise losses; sum and
mean are 0-d. `reduction` is "none", "mean" or "sum"; any other raises OptionInvalid (a ValueError). `size_average` and
`reduce` are PyTorch's deprecated forms of `reduction` and override it if given.
"""

from collections.abc import Callable

from lazytensor.core import source
from lazytensor.core.dtype import int64
from lazytensor.core.tensor import Tensor, is_grad_enabled, operand_node
from lazytensor.errors import AutogradError, OptionInvalid, ShapeError
from lazytensor.functional import cumulative
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction as red
from lazytensor.functional.activation import logsigmoid
from lazytensor.functional.distance import pairwise_distance
from lazytensor.functional.gather_scatter import gather
from lazytensor.functional.half_precision import uses_host_kernels
from lazytensor.functional.loss import apply_reduction, flatten_to_rows, resolve_reduction
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.type_promotion import default_dtype
from lazytensor.functional.views import unsqueeze, view
from lazytensor.ir.types import Type
from lazytensor.ops import call, full_like
from lazytensor.ops.index import scatter

COSINE_EPSILON = 1e-12
"""Added to squared lengths, as in PyTorch, so that the gradient exists at zero."""


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return x where `target` is 1 and max(0, `margin` - x) where it is -1, for the elements x of `input`.

    A target that is neither counts the sum of both. `reduction` is "mean", "sum" or "none" (the elementwise losses).
    `size_average` and `reduce` are its deprecated forms.

    >>> import lazytensor as lt
    >>> lt.nn.functional.hinge_embedding_loss(lt.tensor([0.5]), lt.tensor([-1.0]))
    tensor(0.5000)
    """
    # Two masks, since a target that is neither 1 nor -1 counts both parts, as in PyTorch.
    far = pw.where(target != 1, pw.relu(float(margin) - input), 0.0)
    near = pw.where(target != -1, input, 0.0)
    return apply_reduction(far + near, resolve_reduction(reduction, size_average, reduce))


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return max(0, `margin` - target * (input1 - input2)). The target is 1 if `input1` should be larger, else -1.

    `reduction` is "mean", "sum" or "none" (the elementwise losses). `size_average` and `reduce` are its deprecated
    forms. Raises ShapeError unless all three tensors have the same number of dimensions.

    >>> import lazytensor as lt
    >>> lt.nn.functional.margin_ranking_loss(lt.tensor([1.0]), lt.tensor([3.0]), lt.tensor([1.0]))
    tensor(2.)
    """
    if not input1.ndim == input2.ndim == target.ndim:
        raise ShapeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: {input1.shape}, "
            f"{input2.shape}, {target.shape}",
            where=source.where(),
            hint="Reshape the inputs to one number of dimensions.",
        )
    # Computed as ATen does; the gradient at the margin itself is that of clamp.
    loss = pw.clamp(-target * (input1 - input2) + margin, min=0)
    return apply_reduction(loss, resolve_reduction(reduction, size_average, reduce))


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return 1 - cos(input1, input2) where `target` is 1, and max(0, cos - `margin`) where it is -1.

    The inputs are [N, D] with targets [N], or [D] with a 0-d target. The elementwise losses have the shape of `target`.
    `reduction` is "mean", "sum" or "none" (the elementwise losses). `size_average` and `reduce` are its deprecated
    forms.

    >>> import lazytensor as lt
    >>> lt.nn.functional.cosine_embedding_loss(lt.ones(1, 2), lt.ones(1, 2), lt.tensor([-1.0]))
    tensor(1.)
    """
    a, b = (x if x.dtype.kind == "f" else pw.cast_to(x, default_dtype()) for x in (input1, input2))
    # Inputs [N, D] are reduced over dimension 1, inputs [D] over dimension 0.
    dim = target.ndim
    # One square root of the product, as PyTorch rounds it.
    first, second = (red.sum(x * x, dim) + COSINE_EPSILON for x in (a, b))
    cosine = red.sum(a * b, dim) / pw.sqrt(first * second)
    near = pw.where(target == 1, 1.0 - cosine, 0.0)
    far = pw.where(target == -1, pw.relu(cosine - float(margin)), 0.0)
    return apply_reduction(near + far, resolve_reduction(reduction, size_average, reduce))


def _positive_part(x: Tensor) -> Tensor:
    """Return max(0, x). On the host it is 0 for NaN, as in the loops of PyTorch's margin losses."""
    return pw.where(x > 0, x, 0.0) if uses_host_kernels(x) else pw.relu(x)


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the sum over classes j != y of max(0, `margin` - x_y + x_j)**p, divided by the number of classes.

    `input` holds scores x, [N, C] or [C], and `target` the class index y, [N] or []. `weight` [C] multiplies the loss
    by the weight of class y. `reduction` is "mean", "sum" or "none" (the elementwise losses). `size_average` and
    `reduce` are its deprecated forms. Raises OptionInvalid (a ValueError) unless `p` is 1 or 2.

    >>> import lazytensor as lt
    >>> lt.nn.functional.multi_margin_loss(lt.tensor([[0.0, 2.0]]), lt.tensor([1]))
    tensor(0.)
    """
    if p not in (1, 2):
        raise OptionInvalid(
            f"only p == 1 and p == 2 supported, but got {p}", where=source.where(), hint="Pass p=1 or p=2."
        )
    rows, labels = flatten_to_rows(input), view(target, (-1, 1))
    classes = rows.spec.shape[1]
    own = tensor_of(call("at_places", operand_node(rows), labels.node), input)
    # Class y itself contributes the margin, and is masked below.
    over = _positive_part(float(margin) - own + rows)
    over = over * over if p == 2 else over
    numbers = tensor_of(call("arange", start=0, step=1, type=Type((classes,), int64)), input)
    loss = pw.where(numbers == labels, 0.0, over)
    if weight is not None:
        # Each row is multiplied by the weight of its label.
        label_weights = call("at_places", operand_node(unsqueeze(weight, 0)), view(target, (1, -1)).node)
        loss = loss * view(tensor_of(label_weights, weight), (-1, 1))
    return apply_reduction(
        view(red.sum(loss, 1) / float(classes), target.spec.shape), resolve_reduction(reduction, size_average, reduce)
    )


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the binary cross entropy of sigmoid(input) and `target`, averaged over the last dimension.

    Both are [..., C], and the elementwise losses [...]. `weight` multiplies the elements before the average.
    `reduction` is "mean", "sum" or "none" (the elementwise losses). `size_average` and `reduce` are its deprecated
    forms.

    >>> import lazytensor as lt
    >>> lt.nn.functional.multilabel_soft_margin_loss(lt.zeros(1, 2), lt.tensor([[0.0, 1.0]]))
    tensor(0.6931)
    """
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    loss = loss if weight is None else loss * weight
    return apply_reduction(red.mean(loss, -1), resolve_reduction(reduction, size_average, reduce))


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return log(1 + exp(-target * input)). Targets are 1 or -1.

    `reduction` is "mean", "sum" or "none" (the elementwise losses). `size_average` and `reduce` are its deprecated
    forms. Raises AutogradError if `target` requires a gradient, since there is none for it.

    >>> import lazytensor as lt
    >>> lt.nn.functional.soft_margin_loss(lt.zeros(2), lt.tensor([1.0, -1.0]))
    tensor(0.6931)
    """
    if target.requires_grad and is_grad_enabled():
        raise AutogradError(
            "The function 'soft_margin_loss' is not differentiable with respect to argument 'target'. This input "
            "cannot have requires_grad True.",
            where=source.where(),
            hint="Pass target.detach().",
        )
    loss = pw.log1p(pw.exp(-(target * input)))
    return apply_reduction(loss, resolve_reduction(reduction, size_average, reduce))


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return max(0, d(anchor, positive) - d(anchor, negative) + margin), where d is the `p`-norm distance.

    The tensors are [..., D] and the elementwise losses [...]. `eps` is added to the differences. If `swap` is true,
    d(positive, negative) replaces d(anchor, negative) where it is smaller. `reduction` is "mean", "sum" or "none" (the
    elementwise losses). `size_average` and `reduce` are its deprecated forms.

    >>> import lazytensor as lt
    >>> lt.nn.functional.triplet_margin_loss(lt.zeros(1, 2), lt.zeros(1, 2), lt.tensor([[3.0, 4.0]]), margin=6.0)
    tensor(1.0000)
    """
    kept = resolve_reduction(reduction, size_average, reduce)

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return pairwise_distance(a, b, p, eps)

    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=distance, margin=margin, swap=swap, reduction=kept
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Return max(0, d(anchor, positive) - d(anchor, negative) + margin), where d is `distance_function`.

    `distance_function` defaults to `pairwise_distance`, which maps two tensors [..., D] to [...]. If `swap` is true,
    d(positive, negative) replaces d(anchor, negative) where it is smaller. `reduction` is "mean", "sum" or "none" (the
    elementwise losses).

    >>> import lazytensor as lt
    >>> a, b, c = lt.tensor([[0.0]]), lt.tensor([[1.0]]), lt.tensor([[3.0]])
    >>> lt.nn.functional.triplet_margin_with_distance_loss(a, c, b)
    tensor(3.)
    """
    distance = distance_function or pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = pw.minimum(far, distance(positive, negative))
    return apply_reduction(pw.relu(near + float(margin) - far), reduction)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the sum over labels y and other classes j of max(0, 1 - x_y + x_j), divided by the number of classes.

    `input` holds scores x, [N, C] or [C]. `target` has the same shape and lists the labels of a sample, up to the first
    -1. The elementwise losses are [N] or []. `reduction` is "mean", "sum" or "none" (the elementwise losses).
    `size_average` and `reduce` are its deprecated forms.

    >>> import lazytensor as lt
    >>> lt.nn.functional.multilabel_margin_loss(lt.tensor([0.1, 0.8]), lt.tensor([1, -1]))
    tensor(0.1500)
    """
    rows, labels = flatten_to_rows(input), flatten_to_rows(target)
    classes = rows.spec.shape[1]
    # The cumulative product becomes 0 at the first -1 and stays 0.
    listed = cumulative.cumprod(pw.cast_to(labels >= 0, int64), 1) > 0
    # Missing labels have the index 0; what is read there does not count.
    places = pw.where(listed, labels, 0)
    own = unsqueeze(gather(rows, 1, places), 2)
    # Pairs of a label and a class that is no label of the sample.
    marks = operand_node(pw.cast_to(listed, rows.dtype))
    hot = tensor_of(scatter(full_like(0, operand_node(rows)), operand_node(places), marks, 1, "maximum"), input)
    counts = pw.logical_and(unsqueeze(listed, 2), unsqueeze(hot == 0.0, 1))
    over = pw.where(counts, _positive_part(1.0 - own + unsqueeze(rows, 1)), 0.0)
    loss = red.sum(over, (1, 2)) / float(classes)
    return apply_reduction(
        view(loss, ()) if input.ndim < 2 else loss, resolve_reduction(reduction, size_average, reduce)
    )
