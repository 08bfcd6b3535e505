"""Embedding tables as modules."""

from typing import Any

from lazytensor.autograd.grad_modes import no_grad
from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OperandInvalid
from lazytensor.functional import embedding
from lazytensor.functional.creation import empty
from lazytensor.functional.in_place import copy_
from lazytensor.nn import functional, init
from lazytensor.nn.module import Module, Parameter


class Embedding(Module):
    """A learned table [num_embeddings, embedding_dim] from which rows are looked up by index.

    - `padding_idx`: a row that starts as zeros and gets no gradient.
    - `max_norm`, `norm_type`: scale rows in place to at most this norm whenever they are looked up.
    - `scale_grad_by_freq`: not supported; `forward` raises OptionMissing if it is true.
    - `sparse`: ignored, since there are no sparse gradients.

    Raises AssertionError if `padding_idx` is out of range.

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
                raise OperandInvalid(
                    f"Padding_idx must be within num_embeddings = {num_embeddings}, but got {padding_idx}",
                    where=source.where(),
                    hint="Pass an index of the table, or None.",
                )
            # A negative index is stored and printed as the positive one, as in PyTorch.
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        if _weight is None:
            table = empty(num_embeddings, embedding_dim, dtype=dtype, device=device)
            self.weight = Parameter(table, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            # A given table draws no random numbers, and its padding row is not changed.
            if tuple(_weight.shape) != (num_embeddings, embedding_dim):
                raise OperandInvalid(
                    "Shape of weight does not match num_embeddings and embedding_dim"
                    f": {list(_weight.shape)}, {num_embeddings} and {embedding_dim}",
                    where=source.where(),
                    hint="Pass num_embeddings and embedding_dim of the weight's shape.",
                )
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Draw the table from the standard normal distribution, and set the padding row to zeros."""
        # The padding row is drawn too, so that later random numbers do not depend on `padding_idx`.
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                copy_(self.weight[self.padding_idx], 0.0)

    def forward(self, input: Tensor) -> Tensor:
        """Return the rows at the indices `input`: [...] -> [..., embedding_dim].

        Raises IndexError for an index out of range.
        """
        # No gradient is sparse here; the attribute is only stored.
        return embedding.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, **options: Any
    ) -> "Embedding":
        """Return an Embedding with the table `embeddings` [rows, dim], which is trained only if `freeze` is false.

        `options` are further arguments of the constructor. Raises AssertionError unless `embeddings` has two
        dimensions.
        """
        if embeddings.ndim != 2:
            raise OperandInvalid(
                f"Embeddings parameter is expected to be 2-dimensional, but has the shape {list(embeddings.shape)}",
                where=source.where(),
                hint="Pass a weight of shape [num_embeddings, embedding_dim].",
            )
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
    """A learned table [num_embeddings, embedding_dim] that returns the sum, mean or maximum of bags of rows.

    - `mode`: "sum", "mean" or "max".
    - `max_norm`, `norm_type`: scale rows in place to at most this norm whenever they are looked up.
    - `include_last_offset`: the last offset is the end of the last bag.
    - `padding_idx`: rows with this index are left out; the row starts as zeros.
    - `scale_grad_by_freq`: not supported; `forward` raises OptionMissing if it is true.
    - `sparse`: ignored.

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
        """Draw the table from the standard normal distribution, and set the padding row to zeros."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                copy_(self.weight[self.padding_idx], 0.0)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Return one row for each bag: [bags, embedding_dim].

        `input` is [bags, n], or a vector whose bags begin at `offsets`. `per_sample_weights`, in the shape of `input`,
        multiply the rows in the mode "sum".
        """
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
