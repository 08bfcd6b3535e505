"""Tables of learned vectors."""

from typing import Any

from lazytensor.autograd.grad_modes import no_grad
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor
from lazytensor.functional import embedding
from lazytensor.functional.creation import empty
from lazytensor.functional.in_place import copy_
from lazytensor.nn import functional, init
from lazytensor.nn.module import Module, Parameter


class Embedding(Module):
    """Rows of a table [num_embeddings, embedding_dim] by number; row padding_idx starts as zeros and stays.

    >>> import lazytensor as lt
    >>> lt.nn.Embedding(10, 4)(lt.tensor([[1, 2, 3]])).shape
    lazytensor.Size([1, 3, 4])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ):
        super().__init__()
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("Padding_idx must be within num_embeddings")
            # Counted from the end if negative; kept and printed from the front, as PyTorch has it.
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        if _weight is None:
            table = empty(num_embeddings, embedding_dim, dtype=dtype, device=device)
            self.weight = Parameter(table, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            # A given table is not drawn, so it takes no random numbers, and its padding row stays as it is.
            if tuple(_weight.shape) != (num_embeddings, embedding_dim):
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Draw new values: normal, with zeros in the padding row."""
        # The whole table is drawn first, so that the numbers after it do not depend on the padding.
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                copy_(self.weight[self.padding_idx], 0.0)

    def forward(self, input: Tensor) -> Tensor:
        """[...] -> [..., embedding_dim]"""
        # No gradient is sparse here; the flag is kept for those who ask.
        return embedding.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, **options: Any
    ) -> "Embedding":
        """A table with given vectors, which are not trained unless `freeze` is off."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, width = embeddings.shape
        return cls(rows, width, padding_idx, _weight=embeddings, _freeze=freeze, **options)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        text += f", scale_grad_by_freq={self.scale_grad_by_freq}" if self.scale_grad_by_freq else ""
        return text + (", sparse=True" if self.sparse else "")


class EmbeddingBag(Module):
    """Sums, means or largest elements of bags of rows of a table [num_embeddings, embedding_dim].

    >>> import lazytensor as lt
    >>> lt.nn.EmbeddingBag(10, 4)(lt.tensor([[1, 2, 3]])).shape
    lazytensor.Size([1, 4])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: DType | None = None,
    ):
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.mode = num_embeddings, embedding_dim, mode
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.sparse, self.include_last_offset = sparse, include_last_offset
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        if _weight is None:
            self.weight = Parameter(empty(num_embeddings, embedding_dim, dtype=dtype, device=device))
            self.reset_parameters()
        else:
            self.weight = Parameter(_weight)

    def reset_parameters(self) -> None:
        """Draw new values: normal, with zeros in the padding row."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                copy_(self.weight[self.padding_idx], 0.0)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """[bags, n], or a vector and where its bags begin, -> [bags, embedding_dim]"""
        return functional.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            scale_grad_by_freq=self.scale_grad_by_freq,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        text += f", scale_grad_by_freq={self.scale_grad_by_freq}" if self.scale_grad_by_freq else ""
        text += f", mode={self.mode!r}"
        return text + (f", padding_idx={self.padding_idx}" if self.padding_idx is not None else "")
