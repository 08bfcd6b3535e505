"""Attention with score modifications and masks given as functions: `torch.nn.attention.flex_attention`.

The functions are written for a single score. They are called once with index tensors for all scores, which gives the
same results, because they consist of tensor operations.
"""

import math
from collections.abc import Callable
from typing import Any

from lazytensor import arange, ones, where
from lazytensor.core.tensor import Tensor

Modifier = Callable[..., Tensor]
DEFAULT_BLOCK_SIZE = 128


def _index_grids(batch: int, heads: int, queries: int, keys: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the indices of batch, head, query and key as tensors that broadcast to [batch, heads, queries, keys]."""
    return (
        arange(batch).view(-1, 1, 1, 1),
        arange(heads).view(-1, 1, 1),
        arange(queries).view(-1, 1),
        arange(keys),
    )


class BlockMask:
    """A mask for `flex_attention`. It is stored as a dense bool tensor, because no kernel skips blocks."""

    def __init__(
        self,
        mask: Tensor,
        mask_mod: Modifier | None = None,
        BLOCK_SIZE: tuple[int, int] = (DEFAULT_BLOCK_SIZE, DEFAULT_BLOCK_SIZE),
    ):
        self.mask, self.mask_mod, self.BLOCK_SIZE = mask, mask_mod, BLOCK_SIZE

    @property
    def shape(self) -> tuple[int, ...]:
        """Return (batch, heads, queries, keys)."""
        return tuple(self.mask.shape)

    def to_dense(self) -> Tensor:
        """Return the mask as int32, with 1 for scores that are kept."""
        return self.mask.int()

    def to(self, device: Any) -> "BlockMask":
        """Return the mask itself."""
        return self


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Return a mask that keeps all scores."""
    return ones((), dtype=token_q.ge(0).dtype)


def create_mask(
    mod_fn: Modifier, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = "cpu", **_: Any
) -> Tensor:
    """Return the result of `mod_fn` for all indices, as a tensor [B, H, Q_LEN, KV_LEN]. None for B or H means 1."""
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    return mod_fn(*_index_grids(*shape)).expand(shape)


def create_block_mask(
    mask_mod: Modifier,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = "cpu",
    BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK_SIZE,
    _compile: bool = False,
    **_: Any,
) -> BlockMask:
    """Return a `BlockMask` of the function `mask_mod`. `BLOCK_SIZE` is stored and has no effect."""
    # The block size matters only for kernels that skip blocks.
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    return BlockMask(create_mask(mask_mod, B, H, Q_LEN, KV_LEN), mask_mod, size)


def and_masks(*mask_mods: Modifier) -> Modifier:
    """Return a mask function that keeps a score if all given functions keep it. Give at least one function."""

    def kept(*places: Tensor) -> Tensor:
        result = mask_mods[0](*places)
        for mod in mask_mods[1:]:
            result = result & mod(*places)
        return result

    return kept


def or_masks(*mask_mods: Modifier) -> Modifier:
    """Return a mask function that keeps a score if at least one given function keeps it."""

    def kept(*places: Tensor) -> Tensor:
        result = mask_mods[0](*places)
        for mod in mask_mods[1:]:
            result = result | mod(*places)
        return result

    return kept


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Modifier | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the attention of `query` [batch, heads, queries, width] over `key` and `value`.

    - `score_mod`: a function (score, batch, head, query index, key index) -> score.
    - `block_mask`: the scores to keep. A query without any key gives zeros.
    - `scale`: the factor of the scores; 1 / sqrt(width) if None.
    - `enable_gqa`: repeat the heads of key and value to match those of the query.
    - `return_lse`: also return the logarithm of the sum of exponentials [batch, heads, queries].
    """
    if enable_gqa:
        repeats = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    scores = (query @ key.transpose(-2, -1)) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    # One call with all indices instead of one call for each score.
    if score_mod is not None:
        scores = score_mod(scores, *_index_grids(*scores.shape))
    if block_mask is not None:
        mask = block_mask.mask[..., : scores.shape[-2], : scores.shape[-1]]
        scores = where(mask, scores, -math.inf)
    largest = scores.detach().amax(-1, keepdim=True)
    # A query without any key has weights of 0 instead of 0 / 0.
    shifted = (scores - where(largest == -math.inf, 0.0, largest)).exp()
    total = shifted.sum(-1, keepdim=True)
    out = (shifted / where(total == 0, 1.0, total)).to(value.dtype) @ value
    return (out, (total.log() + largest).squeeze(-1)) if return_lse else out
