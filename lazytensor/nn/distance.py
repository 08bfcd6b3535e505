"""Distances between vectors, and a dimension taken apart, as modules."""

from collections.abc import Sequence

from lazytensor.core.tensor import Tensor
from lazytensor.functional.views import normalize_dim, view
from lazytensor.nn import functional as F
from lazytensor.nn.module import Module


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along a dimension.

    >>> import lazytensor as lt
    >>> lt.nn.CosineSimilarity()(lt.tensor([[1.0, 0.0]]), lt.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8):
        super().__init__()
        # eps is the least that a length counts as, so a zero vector has the cosine 0.
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Shapes that broadcast; the dimension disappears."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of the difference along the last dimension.

    >>> import lazytensor as lt
    >>> lt.nn.PairwiseDistance()(lt.tensor([[3.0, 0.0]]), lt.tensor([[0.0, 4.0]]))
    tensor([5.])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False):
        super().__init__()
        # PyTorch calls p `norm` here, and adds eps to each difference before the norm: equal vectors are not at
        # distance 0.
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """[N, D] or [D]"""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class Unflatten(Module):
    """One dimension in the shape `unflattened_size`, of which one extent may be -1.

    >>> import lazytensor as lt
    >>> lt.nn.Unflatten(1, (2, 2))(lt.ones(1, 4)).shape
    lazytensor.Size([1, 2, 2])
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]):
        super().__init__()
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """[..., product, ...] -> [..., *unflattened_size, ...]"""
        at = normalize_dim(self.dim, input.ndim)
        shape = input.spec.shape
        return view(input, (*shape[:at], *self.unflattened_size, *shape[at + 1 :]))

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
