"""Losses as modules."""

from lazytensor.nn import functional
from lazytensor.nn.module import Module
from lazytensor.tensor import Tensor


class CrossEntropyLoss(Module):
    """Cross entropy of class scores [N, C] and labels int64[N]."""

    def __init__(self, ignore_index: int = -100, reduction: str = "mean"):
        super().__init__()
        self.ignore_index, self.reduction = ignore_index, reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """[N, C], [N] -> [] or [N] with reduction="none"."""
        return functional.cross_entropy(input, target, ignore_index=self.ignore_index, reduction=self.reduction)


class MSELoss(Module):
    """The mean, sum or elements of (input - target)^2."""

    def __init__(self, reduction: str = "mean"):
        super().__init__()
        self.reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Equal shapes -> [] or the shape with reduction="none"."""
        return functional.mse_loss(input, target, reduction=self.reduction)
