"""Layers merged with the batch normalization after them: `torch.nn.utils.fusion`."""

import copy
from typing import Any

from lazytensor.core.tensor import Tensor
from lazytensor.functional import creation, pointwise
from lazytensor.nn.module import Module, Parameter


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return the weight and the bias of a convolution that also normalizes its result.

    `bn_rm` and `bn_rv` are the running mean and variance [channels], `bn_w` and `bn_b` the weight and the bias of the
    normalization. The channels are dimension 0 of `conv_w`, or dimension 1 with `transpose`.
    """
    scale = pointwise.rsqrt(bn_rv + bn_eps)
    scale = scale if bn_w is None else bn_w * scale
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    bias = (creation.zeros_like(bn_rm) if conv_b is None else conv_b) - bn_rm
    bias = bias * scale if bn_b is None else bias * scale + bn_b
    weight = (conv_w * scale.reshape(shape)).to(conv_w.dtype)
    is_trained = conv_w.requires_grad
    return Parameter(weight, is_trained), Parameter(bias, is_trained if conv_b is None else conv_b.requires_grad)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Return the weight [out, in] and the bias [out] of a linear layer that also normalizes its result."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Return a copy of the convolution `conv` that also does what the batch normalization `bn` does after it.

    `transpose` is for transposed convolutions. Both modules have to be in evaluation mode. Raises AssertionError
    otherwise.
    """
    return _fuse(conv, bn, transpose)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """Return a copy of the linear layer `linear` that also does what the batch normalization `bn` does after it.

    Both modules have to be in evaluation mode, and to have the same number of features or one. Raises AssertionError
    otherwise.
    """
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    return _fuse(linear, bn, False)


def _fuse(layer: Module, bn: Any, transpose: bool) -> Any:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused: Any = copy.deepcopy(layer)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused
