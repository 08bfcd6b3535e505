"""Loss functions as modules. `forward` of each takes the tensors of the function in `nn.functional`."""

from collections.abc import Callable
from typing import Any

from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionInvalid
from lazytensor.functional import loss as F
from lazytensor.functional import margin_loss
from lazytensor.functional.autocast_rules import publish
from lazytensor.functional.ctc_loss import ctc_loss
from lazytensor.functional.distance import pairwise_distance
from lazytensor.nn.module import Module


class _Loss(Module):
    """The base of loss modules. `options` names the attributes that become keyword arguments of `function`.

    `reduction` is "none", "mean" or "sum". `size_average` and `reduce` are its deprecated forms and override it if
    given.
    """

    function: Callable[..., Tensor]
    options: tuple[str, ...] = ()

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        # Options of PyTorch before 0.4.1, which override `reduction` if they are given.
        older = size_average is not None or reduce is not None
        self.reduction = F.resolve_reduction("mean", size_average, reduce) if older else reduction

    def forward(self, *inputs: Any) -> Tensor:
        """Return the loss: a 0-d tensor, or the elementwise losses for `reduction="none"`."""
        # Read at each call, since attributes may be changed.
        options = {name: getattr(self, name) for name in self.options}
        # Read from the class, where it is not bound as a method. Published, since PyTorch's modules call the public
        # functions.
        function = type(self).function
        return publish(function)(*inputs, **options, reduction=self.reduction)


class _WeightedLoss(_Loss):
    """The base of losses that multiply classes or elements by the buffer `weight`."""

    options: tuple[str, ...] = ("weight",)

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        # A buffer, so that it moves with the module. None is not in the state dict.
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """A loss module for |input - target|. `reduction` is "mean", "sum" or "none" (the elements).

    >>> import lazytensor as lt
    >>> lt.nn.L1Loss()(lt.tensor([1.0, 2.0]), lt.tensor([1.0, 4.0]))
    tensor(1.)
    """

    function = staticmethod(F.l1_loss)


class MSELoss(_Loss):
    """A loss module for (input - target)**2. `reduction` is "mean", "sum" or "none" (the elements).

    >>> import lazytensor as lt
    >>> lt.nn.MSELoss()(lt.tensor([1.0, 2.0]), lt.tensor([1.0, 4.0]))
    tensor(2.)
    """

    function = staticmethod(F.mse_loss)


class CrossEntropyLoss(_WeightedLoss):
    """A loss module for the cross entropy of class scores [N, C, ...] and class indices [N, ...] or probabilities.

    `weight` [C] multiplies the losses of a class. Targets equal to `ignore_index` do not count. `label_smoothing` is
    the share of a uniform distribution that is mixed into the target. `reduction` is "mean", "sum" or "none".

    >>> import lazytensor as lt
    >>> lt.nn.CrossEntropyLoss()(lt.zeros(2, 4), lt.tensor([0, 3]))
    tensor(1.3863)
    """

    function = staticmethod(F.cross_entropy)
    # -100 is not a class, so nothing is ignored by default. A weighted mean is divided by the sum of the weights.
    options = ("weight", "ignore_index", "label_smoothing")

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing


class NLLLoss(_WeightedLoss):
    """A loss module for the negative log-likelihood of log-probabilities [N, C, ...] at class indices [N, ...].

    `weight` [C] multiplies the losses of a class. Targets equal to `ignore_index` do not count. `reduction` is "mean",
    "sum" or "none".

    >>> import lazytensor as lt
    >>> lt.nn.NLLLoss()(lt.zeros(2, 3), lt.tensor([0, 2]))
    tensor(0.)
    """

    function = staticmethod(F.nll_loss)
    options = ("weight", "ignore_index")

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index


class BCELoss(_WeightedLoss):
    """A loss module for the binary cross entropy of probabilities and targets of the same shape.

    `weight` multiplies the elements. `reduction` is "mean", "sum" or "none".

    >>> import lazytensor as lt
    >>> lt.nn.BCELoss()(lt.tensor([0.5, 0.5]), lt.tensor([0.0, 1.0]))
    tensor(0.6931)
    """

    function = staticmethod(F.binary_cross_entropy)


class BCEWithLogitsLoss(_WeightedLoss):
    """A loss module for the binary cross entropy of sigmoid(scores) and targets of the same shape.

    `weight` multiplies the elements, and `pos_weight` the positive term. `reduction` is "mean", "sum" or "none".

    >>> import lazytensor as lt
    >>> lt.nn.BCEWithLogitsLoss()(lt.zeros(2), lt.tensor([0.0, 1.0]))
    tensor(0.6931)
    """

    function = staticmethod(F.binary_cross_entropy_with_logits)
    options = ("weight", "pos_weight")

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """A loss module for binary cross entropies of scores [N, C], averaged over the classes.

    `weight` [C] multiplies the classes. `reduction` is "mean", "sum" or "none".

    >>> import lazytensor as lt
    >>> lt.nn.MultiLabelSoftMarginLoss()(lt.tensor([[0.0, 0.0]]), lt.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """

    function = staticmethod(margin_loss.multilabel_soft_margin_loss)


class SoftMarginLoss(_Loss):
    """A loss module for log(1 + exp(-target * input)), with targets 1 or -1. `reduction` is "mean", "sum" or "none".

    >>> import lazytensor as lt
    >>> lt.nn.SoftMarginLoss()(lt.zeros(2), lt.tensor([1.0, -1.0]))
    tensor(0.6931)
    """

    function = staticmethod(margin_loss.soft_margin_loss)


# PyTorch's "mean" averages over all elements; "batchmean" is the mathematical definition.
class KLDivLoss(_Loss):
    """A loss module for t * (log(t) - x) of log-probabilities x and target probabilities t.

    The target is log(t) if `log_target` is true. `reduction` is "mean", "sum", "none", or "batchmean": the sum divided
    by the first extent.

    >>> import lazytensor as lt
    >>> lt.nn.KLDivLoss(reduction="sum")(lt.tensor([0.5, 0.5]).log(), lt.tensor([0.25, 0.75]))
    tensor(0.1308)
    """

    function = staticmethod(F.kl_div)
    options = ("log_target",)

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target


class SmoothL1Loss(_Loss):
    """A loss module for d = |input - target|: d**2 / (2 * beta) if d < `beta`, else d - beta / 2.

    `reduction` is "mean", "sum" or "none".

    >>> import lazytensor as lt
    >>> lt.nn.SmoothL1Loss()(lt.tensor([1.0, 2.0]), lt.tensor([1.0, 4.0]))
    tensor(0.7500)
    """

    function = staticmethod(F.smooth_l1_loss)
    options = ("beta",)

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta


# This is delta times SmoothL1Loss with beta = delta. PyTorch added it without `size_average` and `reduce`.
class HuberLoss(_Loss):
    """A loss module for d = |input - target|: d**2 / 2 if d <= `delta`, else delta * (d - delta / 2).

    `reduction` is "mean", "sum" or "none".

    >>> import lazytensor as lt
    >>> lt.nn.HuberLoss()(lt.tensor([1.0, 2.0]), lt.tensor([1.0, 4.0]))
    tensor(0.7500)
    """

    function = staticmethod(F.huber_loss)
    options = ("delta",)

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta


class _MarginLoss(_Loss):
    """The base of losses with the option `margin`."""

    options: tuple[str, ...] = ("margin",)

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class HingeEmbeddingLoss(_MarginLoss):
    """A loss module for x where the target is 1, and max(0, `margin` - x) where it is -1.

    `reduction` is "mean", "sum" or "none".

    >>> import lazytensor as lt
    >>> lt.nn.HingeEmbeddingLoss()(lt.tensor([0.5]), lt.tensor([-1.0]))
    tensor(0.5000)
    """

    function = staticmethod(margin_loss.hinge_embedding_loss)

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(margin, size_average, reduce, reduction)


class MarginRankingLoss(_MarginLoss):
    """A loss module for max(0, `margin` - target * (input1 - input2)), with targets 1 or -1.

    `reduction` is "mean", "sum" or "none".

    >>> import lazytensor as lt
    >>> lt.nn.MarginRankingLoss()(lt.tensor([1.0]), lt.tensor([3.0]), lt.tensor([1.0]))
    tensor(2.)
    """

    function = staticmethod(margin_loss.margin_ranking_loss)


class CosineEmbeddingLoss(_MarginLoss):
    """A loss module for 1 - cos(input1, input2) where the target is 1, and max(0, cos - `margin`) where it is -1.

    `reduction` is "mean", "sum" or "none".

    >>> import lazytensor as lt
    >>> lt.nn.CosineEmbeddingLoss()(lt.ones(1, 2), lt.ones(1, 2), lt.tensor([-1.0]))
    tensor(1.)
    """

    function = staticmethod(margin_loss.cosine_embedding_loss)


class MultiMarginLoss(_WeightedLoss):
    """A loss module for multi-class classification with a margin.

    The loss is the sum over classes j != y of max(0, `margin` - x_y + x_j)**p, divided by the number of classes. Scores
    x are [N, C] and class indices y [N]. `weight` [C] multiplies the loss of class y. Raises ValueError unless `p` is 1
    or 2.

    >>> import lazytensor as lt
    >>> lt.nn.MultiMarginLoss()(lt.tensor([[0.0, 2.0]]), lt.tensor([1]))
    tensor(0.)
    """

    function = staticmethod(margin_loss.multi_margin_loss)
    options = ("weight", "p", "margin")

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise OptionInvalid(
                f"only p == 1 and p == 2 supported, but got {p}", where=source.where(), hint="Pass p=1 or p=2."
            )
        self.p, self.margin = p, margin


class MultiLabelMarginLoss(_Loss):
    """A loss module for multi-label classification with a margin.

    The loss is the sum over labels y and other classes j of max(0, 1 - x_y + x_j), divided by the number of classes.
    The target lists the labels of each sample, up to the first -1. `reduction` is "mean", "sum" or "none".

    >>> import lazytensor as lt
    >>> lt.nn.MultiLabelMarginLoss()(lt.tensor([0.1, 0.8]), lt.tensor([1, -1]))
    tensor(0.1500)
    """

    function = staticmethod(margin_loss.multilabel_margin_loss)


class TripletMarginLoss(_Loss):
    """A loss module for max(0, d(anchor, positive) - d(anchor, negative) + margin) with `p`-norm distances d.

    If `swap` is true, d(positive, negative) replaces d(anchor, negative) where it is smaller. `eps` is added to
    differences.

    >>> import lazytensor as lt
    >>> a, b, c = lt.tensor([[0.0]]), lt.tensor([[1.0]]), lt.tensor([[3.0]])
    >>> lt.nn.TripletMarginLoss()(a, c, b)
    tensor(3.)
    """

    function = staticmethod(margin_loss.triplet_margin_loss)
    options = ("margin", "p", "eps", "swap")

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with the distance `distance_function`, by default `pairwise_distance`.

    >>> import lazytensor as lt
    >>> a, b, c = lt.tensor([[0.0]]), lt.tensor([[1.0]]), lt.tensor([[3.0]])
    >>> lt.nn.TripletMarginWithDistanceLoss()(a, c, b)
    tensor(3.)
    """

    function = staticmethod(margin_loss.triplet_margin_with_distance_loss)
    options = ("distance_function", "margin", "swap")

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        self.distance_function, self.margin, self.swap = distance_function or pairwise_distance, margin, swap


class PoissonNLLLoss(_Loss):
    """A loss module for the negative log-likelihood of a Poisson distribution.

    The input is the logarithm of the rate, or the rate if `log_input` is false; then `eps` is added before the
    logarithm. `full` adds Stirling's approximation of log(target!).

    >>> import lazytensor as lt
    >>> lt.nn.PoissonNLLLoss()(lt.zeros(2), lt.tensor([1.0, 2.0]))
    tensor(1.)
    """

    function = staticmethod(F.poisson_nll_loss)
    options = ("log_input", "full", "eps")

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        # eps keeps the logarithm of an input of 0 finite; it is not used if the input is a logarithm.
        self.log_input, self.full, self.eps = log_input, full, eps


class GaussianNLLLoss(_Loss):
    """A loss module for the negative log-likelihood of a normal distribution, called with input, target and variance.

    The variance is at least `eps`. `full` adds the constant log(2 * pi) / 2.

    >>> import lazytensor as lt
    >>> lt.nn.GaussianNLLLoss()(lt.zeros(2), lt.tensor([1.0, 2.0]), lt.ones(2))
    tensor(1.2500)
    """

    function = staticmethod(F.gaussian_nll_loss)
    options = ("full", "eps")

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        # eps is the lower bound of the variance. The constant term is added only if `full` is true.
        self.full, self.eps = full, eps


class CTCLoss(_Loss):
    """A loss module for the negative log-probability of a label sequence over all alignments.

    It is called with log_probs, targets, input_lengths and target_lengths. `blank` is the blank class. `zero_infinity`
    replaces infinite losses by 0.

    >>> import lazytensor as lt
    >>> scores = lt.zeros(3, 1, 2).log_softmax(-1)
    >>> lt.nn.CTCLoss()(scores, lt.tensor([[1]]), lt.tensor([3]), lt.tensor([1]))
    tensor(0.2877)
    """

    function = staticmethod(ctc_loss)
    options = ("blank", "zero_infinity")

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        # A target longer than its input has no alignment; its loss is infinite and its gradient NaN.
        self.blank, self.zero_infinity = blank, zero_infinity
