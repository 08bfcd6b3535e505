"""Tensors with tangents for gradients in forward order: `torch.autograd.forward_ad`, which creates none."""

from typing import Any, NamedTuple

from lazytensor.core.tensor import Tensor


class UnpackedDualTensor(NamedTuple):
    """A tensor and its tangent, which is None."""

    primal: Tensor
    tangent: Tensor | None


def unpack_dual(tensor: Tensor, *, level: Any = None) -> UnpackedDualTensor:
    """Return the tensor without a tangent. No tensor has one, because `make_dual` is refused."""
    return UnpackedDualTensor(tensor, None)
