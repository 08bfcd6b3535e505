"""Distances between vectors, and `Unflatten`, as modules."""

from collections.abc import Sequence

from lazytensor.core.tensor import Tensor
from lazytensor.functional.views import normalize_dim, view
from lazytensor.nn import functional as F
from lazytensor.nn.module import Module


class CosineSimilarity(Module):
    """A module that computes the cosine of the angle between vectors along `dim`. Lengths are at least `eps`.

    >>> import lazytensor as lt
    >>> lt.nn.CosineSimilarity()(lt.tensor([[1.0, 0.0]]), lt.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8):
        super().__init__()
        # Lengths are at least eps, so a zero vector has the cosine 0.
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the cosines of `x1` and `x2`, whose shapes broadcast, without the dimension `dim`."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """A module that computes the `p`-norm of x1 - x2 + eps along the last dimension.

    If `keepdim` is true, that dimension stays with extent 1.

    >>> import lazytensor as lt
    >>> lt.nn.PairwiseDistance()(lt.tensor([[3.0, 0.0]]), lt.tensor([[0.0, 4.0]]))
    tensor([5.])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False):
        super().__init__()
        # The attribute is named `norm` in PyTorch. eps is added to each difference, so equal vectors do not have
        # distance 0.
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the distances of `x1` and `x2`: [N, D] -> [N], or [D] -> []. The shapes broadcast."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class Unflatten(Module):
    """A module that splits dimension `dim` into the extents `unflattened_size`, one of which may be -1.

    >>> import lazytensor as lt
    >>> lt.nn.Unflatten(1, (2, 2))(lt.ones(1, 4)).shape
    lazytensor.Size([1, 2, 2])
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]):
        super().__init__()
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """Return a view of `input`: [..., product, ...] -> [..., *unflattened_size, ...].

        Raises ShapeError if the extents do not multiply to that of the dimension.
        """
        at = normalize_dim(self.dim, input.ndim)
        shape = input.spec.shape
        return view(input, (*shape[:at], *self.unflattened_size, *shape[at + 1 :]))

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
