"""Layers as functions of `torch`, whose arguments differ from those of `torch.nn.functional`.

`torch.batch_norm(input, weight, bias, running_mean, ...)` has another order than
`F.batch_norm(input, running_mean, ...)`.
"""

from collections.abc import Sequence
from typing import Any

from lazytensor.core.tensor import Tensor
from lazytensor.nn import functional as F

EMBEDDING_BAG_MODES = ("sum", "mean", "max")
"""The modes of `embedding_bag` by number."""


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Return `input` [n, c, ...] normalized by channel, as `F.batch_norm`. `cudnn_enabled` has no effect."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Return each sample and channel of `input` normalized, as `F.instance_norm`. `cudnn_enabled` has no effect."""
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """Return `input` normalized over its last dimensions, as `F.layer_norm`. `cudnn_enable` has no effect."""
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Return `input` normalized over groups of channels, as `F.group_norm`. `cudnn_enabled` has no effect."""
    return F.group_norm(input, num_groups, weight, bias, eps)


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Return `input` with elements dropped with probability `p`, as `F.dropout`."""
    return F.dropout(input, p, train)


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Return `input` with elements dropped with probability `p`, as `F.alpha_dropout`."""
    return F.alpha_dropout(input, p, train)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Return `input` with channels dropped with probability `p`, as `F.feature_alpha_dropout`."""
    return F.feature_alpha_dropout(input, p, train)


def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of `weight` [n, d] at `indices`, as `F.embedding`. A `padding_idx` of -1 means none."""
    padding = None if padding_idx == -1 else padding_idx
    return F.embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, ...]:
    """Return the sums, means or maxima of rows of `weight` [n, d] in bags of `indices`: [bags, d], and three tensors.

    `mode` is 0, 1 or 2. The three further results of PyTorch serve its backward pass, and are empty here.
    """
    options: dict[str, Any] = {"scale_grad_by_freq": scale_grad_by_freq, "sparse": sparse}
    options |= {"include_last_offset": include_last_offset, "padding_idx": padding_idx}
    result = F.embedding_bag(
        indices, weight, offsets, mode=EMBEDDING_BAG_MODES[mode], per_sample_weights=per_sample_weights, **options
    )
    nothing = offsets[:0]
    return result, nothing, nothing, nothing
