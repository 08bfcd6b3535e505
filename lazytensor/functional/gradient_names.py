"""PyTorch's names of gradient functions, for functions that this package computes by other operations.

The rows of `lazytensor.ops` have the names of single operations. A function that is a formula, such as `std`, ends in
an operation with another name, and PyTorch numbers the overloads of a function. `with_gradient_name` corrects both.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lazytensor.core.storage import is_pinned, thread_state
from lazytensor.core.tensor import Tensor, is_grad_enabled
from lazytensor.ir.operation import set_gradient_name

Rule = Callable[[Sequence[Any], Mapping[str, Any]], str]
"""A function of the positional and keyword arguments of a call that returns the name."""


def _has_argument(at: int, keyword: str, name: str, absent: str) -> Rule:
    """Return the rule that gives `name` if the argument `keyword` at position `at` is given, else `absent`."""
    return lambda args, kwargs: name if len(args) > at or kwargs.get(keyword) is not None else absent


def _is_tensor(at: int, keyword: str, name: str, number: str) -> Rule:
    """Return the rule that gives `name` if the argument `keyword` at position `at` is a tensor, else `number`."""

    def rule(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        value = args[at] if len(args) > at else kwargs.get(keyword)
        return name if isinstance(value, Tensor) else number

    return rule


def _extreme(word: str) -> Rule:
    def rule(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        if len(args) > 1 and isinstance(args[1], Tensor):
            return f"{word}imumBackward0"
        return f"{word}Backward{0 if len(args) > 1 or kwargs else 1}"

    return rule


def _squeeze(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    dims = [*args[1:], *kwargs.values()]
    return f"SqueezeBackward{0 if not dims else 1 if len(dims) == 1 and isinstance(dims[0], int) else 2}"


def _divide(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    return "DivBackward2" if len(args) > 2 or kwargs.get("rounding_mode") is not None else "DivBackward0"


def _power(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    if args and not isinstance(args[0], Tensor):
        return "PowBackward2"
    return "PowBackward1" if len(args) > 1 and isinstance(args[1], Tensor) else "PowBackward0"


def _split(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    size = args[1] if len(args) > 1 else next(iter(kwargs.values()), 1)
    return "SplitBackward0" if isinstance(size, int) else "SplitWithSizesBackward0"


def _pad(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    mode = args[2] if len(args) > 2 else kwargs.get("mode", "constant")
    word = {"reflect": "ReflectionPad", "replicate": "ReplicationPad"}.get(mode)
    pad = args[1] if len(args) > 1 else kwargs.get("pad", ())
    if mode == "circular":
        return "torch::autograd::CopySlices"
    return "ConstantPadNdBackward0" if word is None else f"{word}{len(pad) // 2}DBackward0"


def _interpolate(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    mode = args[3] if len(args) > 3 else kwargs.get("mode", "nearest")
    rank = args[0].ndim - 2 if args else 2
    if mode == "area":
        return "SqueezeBackward1" if rank == 1 else f"AdaptiveAvgPool{rank}DBackward0"
    word = "".join(w.capitalize() for w in mode.split("-"))
    return f"Upsample{word}{rank}DBackward0"


def _matmul(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    ranks = (args[0].ndim, args[1].ndim) if len(args) > 1 else (2, 2)
    known = {(1, 1): "DotBackward0", (2, 2): "MmBackward0", (2, 1): "MvBackward0", (1, 2): "SqueezeBackward4"}
    return known.get(ranks, "UnsafeViewBackward0")


def _clamp(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    return f"ClampBackward{0 if any(isinstance(v, Tensor) for v in (*args[1:], *kwargs.values())) else 1}"


def _nll_loss(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    return "NllLoss2DBackward0" if args and args[0].ndim > 2 else "NllLossBackward0"


_SPLIT = "SplitBackward0"
_VECTOR_NORM = "LinalgVectorNormBackward0"


def _convolution(rank: int) -> Rule:
    """Return the rule of a convolution of `rank` dimensions; an input without a batch is unsqueezed and squeezed."""
    return lambda args, kwargs: "SqueezeBackward1" if args and args[0].ndim == rank + 1 else "ConvolutionBackward0"


def _adaptive_average(rank: int) -> Rule:
    """Return the rule of adaptive average pooling of `rank` dimensions; with one window it is a mean."""

    def rule(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        size = args[1] if len(args) > 1 else kwargs.get("output_size")
        is_mean = set(size if isinstance(size, tuple | list) else (size,)) == {1}
        return "MeanBackward1" if is_mean else f"AdaptiveAvgPool{rank}DBackward0"

    return rule


def _cross_entropy(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    target = args[1] if len(args) > 1 else kwargs.get("target")
    if isinstance(target, Tensor) and target.dtype.kind == "f":
        return "DivBackward1" if kwargs.get("reduction", "mean") == "mean" else "NegBackward0"
    if kwargs.get("label_smoothing"):
        return "AddBackward0"
    return _nll_loss(args, kwargs)


GRADIENT_NAMES: Mapping[str, str | Rule] = {
    "H": "TransposeBackward0",
    "T": "PermuteBackward0",
    "__matmul__": _matmul,
    "__mod__": _is_tensor(1, "other", "RemainderBackward1", "RemainderBackward0"),
    "__pow__": _power,
    "__rpow__": "PowBackward2",
    "__rsub__": "RsubBackward1",
    "adaptive_avg_pool1d": "SqueezeBackward1",
    "adaptive_avg_pool2d": _adaptive_average(2),
    "adaptive_avg_pool3d": _adaptive_average(3),
    "adaptive_max_pool1d": "SqueezeBackward1",
    "adaptive_max_pool1d_with_indices": "SqueezeBackward1",
    "adaptive_max_pool2d": "AdaptiveMaxPool2DBackward0",
    "adaptive_max_pool2d_with_indices": "AdaptiveMaxPool2DBackward0",
    "adaptive_max_pool3d": "AdaptiveMaxPool3DBackward0",
    "adaptive_max_pool3d_with_indices": "AdaptiveMaxPool3DBackward0",
    "addbmm": "AddbmmBackward0",
    "addcdiv": "AddcdivBackward0",
    "addcmul": "AddcmulBackward0",
    "addmm": "AddmmBackward0",
    "addmv": "AddmvBackward0",
    "addr": "AddrBackward0",
    "affine_grid": "AffineGridGeneratorBackward0",
    "amax": "AmaxBackward0",
    "amin": "AminBackward0",
    "aminmax": "AminmaxBackward0",
    "angle": "AngleBackward0",
    "as_strided_scatter": "AsStridedScatterBackward0",
    "atleast_3d": "UnsqueezeBackward0",
    "avg_pool1d": "SqueezeBackward1",
    "avg_pool2d": "AvgPool2DBackward0",
    "avg_pool3d": "AvgPool3DBackward0",
    "baddbmm": "BaddbmmBackward0",
    "binary_cross_entropy": "BinaryCrossEntropyBackward0",
    "binary_cross_entropy_with_logits": "BinaryCrossEntropyWithLogitsBackward0",
    "block_diag": "BlockDiagBackward0",
    "bmm": "BmmBackward0",
    "cdist": "CdistBackward0",
    "celu": "CeluBackward0",
    "channel_shuffle": "ChannelShuffleBackward0",
    "cholesky_inverse": "CholeskyInverseBackward0",
    "cholesky_solve": "CholeskySolveBackward0",
    "chunk": _SPLIT,
    "clamp": _clamp,
    "clamp_max": _is_tensor(1, "max", "ClampMaxBackward1", "ClampMaxBackward0"),
    "clamp_min": _is_tensor(1, "min", "ClampMinBackward1", "ClampMinBackward0"),
    "clip": _clamp,
    "conv1d": _convolution(1),
    "conv2d": _convolution(2),
    "conv3d": _convolution(3),
    "conv_transpose1d": _convolution(1),
    "conv_transpose2d": _convolution(2),
    "conv_transpose3d": _convolution(3),
    "copysign": _is_tensor(1, "other", "CopysignBackward0", "CopysignBackward1"),
    "cosine_similarity": "SumBackward1",
    "cross": "LinalgCrossBackward0",
    "cross_entropy": _cross_entropy,
    "ctc_loss": lambda args, kwargs: {"mean": "MeanBackward0", "sum": "SumBackward0"}.get(
        kwargs.get("reduction", "mean"), "CtcLossBackward0"
    ),
    "cummax": "CummaxBackward0",
    "cummin": "CumminBackward0",
    "deg2rad": "Deg2RadBackward0",
    "diag": lambda args, kwargs: "DiagEmbedBackward0" if args[0].ndim == 1 else "DiagonalBackward0_copy",
    "diag_embed": "DiagEmbedBackward0",
    "diagflat": "DiagEmbedBackward0",
    "diagonal": "DiagonalBackward0",
    "diagonal_scatter": "DiagonalScatterBackward0",
    "digamma": "DigammaBackward0",
    "dist": "DistBackward0",
    "div": _divide,
    "divide": _divide,
    "dot": "DotBackward0",
    "eigh": "LinalgEighBackward0",
    "eigvalsh": "LinalgEighBackward0",
    "embedding_bag": "EmbeddingBagBackward0",
    "fill": "FillBackward0",
    "fill_": lambda args, kwargs: "FillBackward1" if args and isinstance(args[-1], Tensor) else "FillBackward2",
    "flip": "FlipBackward0",
    "fliplr": "FlipBackward0",
    "flipud": "FlipBackward0",
    "float_power": _power,
    "fmod": _is_tensor(1, "other", "FmodBackward1", "FmodBackward0"),
    "frac": "FracBackward0",
    "frexp": "FrexpBackward0",
    "gather": "GatherBackward0",
    "glu": "GluBackward0",
    "grid_sample": lambda args, kwargs: f"GridSampler{args[0].ndim - 2}DBackward0",
    "hardshrink": "HardshrinkBackward0",
    "hardsigmoid": "HardsigmoidBackward0",
    "hardswish": "HardswishBackward0",
    "huber_loss": "HuberLossBackward0",
    "index_add": "IndexAddBackward0",
    "index_copy": "IndexCopyBackward0",
    "index_fill": _is_tensor(3, "value", "IndexFillBackward1", "IndexFillBackward0"),
    "index_reduce": "IndexReduceBackward0",
    "index_select": "IndexSelectBackward0",
    "instance_norm": "ViewBackward0",
    "interpolate": _interpolate,
    "inv": "LinalgInvExBackward0",
    "inverse": "LinalgInvExBackward0",
    "kron": "UnsafeViewBackward0",
    "kthvalue": "KthvalueBackward0",
    "ldexp": "LdexpBackward0",
    "lerp": _is_tensor(2, "weight", "LerpBackward1", "LerpBackward0"),
    "logcumsumexp": "LogcumsumexpBackward0",
    "logsumexp": "LogsumexpBackward0",
    "mT": "TransposeBackward0",
    "masked_fill": _is_tensor(2, "value", "MaskedFillBackward1", "MaskedFillBackward0"),
    "masked_scatter": "MaskedScatterBackward0",
    "masked_select": "MaskedSelectBackward0",
    "matmul": _matmul,
    "max": _extreme("Max"),
    "max_pool1d": "SqueezeBackward1",
    "max_pool1d_with_indices": "SqueezeBackward1",
    "max_pool2d": "MaxPool2DWithIndicesBackward0",
    "max_pool2d_with_indices": "MaxPool2DWithIndicesBackward0",
    "max_pool3d": "MaxPool3DWithIndicesBackward0",
    "max_pool3d_with_indices": "MaxPool3DWithIndicesBackward0",
    "max_unpool1d": "SqueezeBackward1",
    "max_unpool2d": "MaxUnpool2DBackward0",
    "max_unpool3d": "MaxUnpool3DBackward0",
    "mean": _has_argument(1, "dim", "MeanBackward1", "MeanBackward0"),
    "median": _has_argument(1, "dim", "MedianBackward1", "MedianBackward0"),
    "min": _extreme("Min"),
    "mode": "ModeBackward0",
    "moveaxis": "PermuteBackward0",
    "movedim": "PermuteBackward0",
    "msort": "SortBackward0",
    "multi_margin_loss": "MultiMarginLossBackward0",
    "multilabel_margin_loss": "MultilabelMarginLossBackward0",
    "mv": "MvBackward0",
    "mvlgamma": "MvlgammaBackward0",
    "nanmedian": _has_argument(1, "dim", "NanmedianBackward1", "NanmedianBackward0"),
    "nansum": "NansumBackward0",
    "native_batch_norm": "NativeBatchNormBackward0",
    "native_group_norm": "NativeGroupNormBackward0",
    "native_layer_norm": "NativeLayerNormBackward0",
    "nll_loss": _nll_loss,
    "norm": _VECTOR_NORM,
    "pad": _pad,
    "pairwise_distance": "NormBackward1",
    "pdist": "PdistBackward0",
    "permute": "PermuteBackward0",
    "pixel_shuffle": "PixelShuffleBackward0",
    "pixel_unshuffle": "PixelUnshuffleBackward0",
    "pow": _power,
    "prelu": "PreluKernelBackward0",
    "prod": _has_argument(1, "dim", "ProdBackward1", "ProdBackward0"),
    "put": "PutBackward0",
    "qr": "LinalgQrBackward0",
    "rad2deg": "Rad2DegBackward0",
    "remainder": _is_tensor(1, "other", "RemainderBackward1", "RemainderBackward0"),
    "renorm": "RenormBackward0",
    "roll": "RollBackward0",
    "rot90": "Rot90Backward0",
    "round": _has_argument(1, "decimals", "RoundBackward1", "RoundBackward0"),
    "rrelu": "RreluWithNoiseBackward0",
    "rsub": "RsubBackward0",
    "scaled_dot_product_attention": "ScaledDotProductFlashAttentionForCpuBackward0",
    "scatter": _is_tensor(3, "src", "ScatterBackward0", "ScatterBackward1"),
    "scatter_add": "ScatterAddBackward0",
    "scatter_reduce": "ScatterReduceBackward0",
    "select_scatter": "SelectScatterBackward0",
    "selu": "EluBackward0",
    "sgn": "SgnBackward0",
    "sinc": "SincBackward0",
    "slice_scatter": "SliceScatterBackward0",
    "slogdet": "LinalgSlogdetBackward0",
    "smooth_l1_loss": "SmoothL1LossBackward0",
    "soft_margin_loss": "SoftMarginLossBackward0",
    "softmax": "SoftmaxBackward0",
    "softshrink": "SoftshrinkBackward0",
    "solve": "LinalgSolveExBackward0",
    "sort": lambda args, kwargs: "SortBackward1" if kwargs.get("stable") is not None else "SortBackward0",
    "split": _split,
    "split_with_sizes": "SplitWithSizesBackward0",
    "squeeze": _squeeze,
    "std": "StdBackward0",
    "std_mean": "StdMeanBackward0",
    "sum": _has_argument(1, "dim", "SumBackward1", "SumBackward0"),
    "sum_to_size": "SumBackward1",
    "svd": "LinalgSvdBackward0",
    "svdvals": "LinalgSvdBackward0",
    "swapaxes": "TransposeBackward0",
    "swapdims": "TransposeBackward0",
    "t": "TBackward0",
    "take": "TakeBackward0",
    "threshold": "ThresholdBackward0",
    "topk": "TopkBackward0",
    "trace": "TraceBackward0",
    "transpose": "TransposeBackward0",
    "tril": "TrilBackward0",
    "triu": "TriuBackward0",
    "unbind": "UnbindBackward0",
    "unfold": "UnfoldBackward0",
    "unsafe_chunk": "UnsafeSplitBackward0",
    "unsafe_split": "UnsafeSplitBackward0",
    "unsqueeze": "UnsqueezeBackward0",
    "upsample": _interpolate,
    "upsample_bilinear": "UpsampleBilinear2DBackward0",
    "upsample_nearest": "UpsampleNearest2DBackward0",
    "var": "VarBackward0",
    "var_mean": "VarMeanBackward0",
    "vdot": "VdotBackward0",
    "vector_norm": _VECTOR_NORM,
    "xlogy": lambda args, kwargs: "XlogyBackward0" if args and isinstance(args[0], Tensor) else "XlogyBackward1",
    "zero_": "ZeroBackward0",
}
"""The name, or the rule for it, of each function whose last operation has another name, by the function's name."""


def with_gradient_name(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, wrapped to give its results the name that GRADIENT_NAMES has for `name`; itself without one.

    A result that requires no gradient, or that is one of the arguments, keeps its name; so do all results inside a
    step. Two functions that compute the same operation of the same tensor share the result's node: the name is that of
    the last call.
    """
    rule = GRADIENT_NAMES.get(name)
    if rule is None:
        return function

    is_in_place = name.endswith("_") and not name.endswith("__")

    @functools.wraps(function)
    def naming(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if not is_grad_enabled() or thread_state.current is not None:
            return result
        tracked = [t for t in (result if isinstance(result, tuple | list) else (result,)) if _has_gradient_function(t)]
        if tracked:
            own = [a.node for a in args if isinstance(a, Tensor) and not is_in_place]
            text = rule if isinstance(rule, str) else rule(args, kwargs)
            for t in tracked:
                if t.node not in own:
                    set_gradient_name(t.node, text)
        return result

    return naming


def _has_gradient_function(value: Any) -> bool:
    """Return whether a value is a tensor that an operation computed and that requires a gradient.

    False for views of memory that is shared with NumPy, whose value would be copied.
    """
    return isinstance(value, Tensor) and not value.leaf_id and not is_pinned(value.cell) and value.node.tracks
