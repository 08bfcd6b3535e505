"""Attention whose scores a function changes, and masks that a function says: `torch.nn.attention.flex_attention`.

The functions are written for one score at a time; they are called once, with tensors of all places, which gives the
same numbers because they are made of operations on tensors.
"""

import math
from collections.abc import Callable
from typing import Any

from lazytensor import arange, ones, where
from lazytensor.core.tensor import Tensor

Modifier = Callable[..., Tensor]
DEFAULT_BLOCK_SIZE = 128


def _index_grids(batch: int, heads: int, queries: int, keys: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Numbers of batch, head, query and key, each along a dimension of its own."""
    return (
        arange(batch).view(-1, 1, 1, 1),
        arange(heads).view(-1, 1, 1),
        arange(queries).view(-1, 1),
        arange(keys),
    )


class BlockMask:
    """A mask by blocks; kept whole here, since the compiler has no kernel that skips blocks."""

    def __init__(
        self,
        mask: Tensor,
        mask_mod: Modifier | None = None,
        BLOCK_SIZE: tuple[int, int] = (DEFAULT_BLOCK_SIZE, DEFAULT_BLOCK_SIZE),
    ):
        self.mask, self.mask_mod, self.BLOCK_SIZE = mask, mask_mod, BLOCK_SIZE

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch, heads, queries, keys."""
        return tuple(self.mask.shape)

    def to_dense(self) -> Tensor:
        """The mask, 1 where a score counts."""
        return self.mask.int()

    def to(self, device: Any) -> "BlockMask":
        """The mask itself: there is one device."""
        return self


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """A mask that keeps everything."""
    return ones((), dtype=token_q.ge(0).dtype)


def create_mask(
    mod_fn: Modifier, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = "cpu", **_: Any
) -> Tensor:
    """What a function says for every place, batch and head, of which None means one for all."""
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
    """The mask of a function."""
    # Blocks say what a kernel may skip; there is none that does.
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    return BlockMask(create_mask(mask_mod, B, H, Q_LEN, KV_LEN), mask_mod, size)


def and_masks(*mask_mods: Modifier) -> Modifier:
    """A mask that keeps what all keep."""

    def kept(*places: Tensor) -> Tensor:
        result = mask_mods[0](*places)
        for mod in mask_mods[1:]:
            result = result & mod(*places)
        return result

    return kept


def or_masks(*mask_mods: Modifier) -> Modifier:
    """A mask that keeps what one keeps."""

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
    """Attention of (batch, heads, queries, width) over keys, with the scores that `score_mod` makes of them."""
    if enable_gqa:
        repeats = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    scores = (query @ key.transpose(-2, -1)) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    # One call with all places at once instead of one for each score.
    if score_mod is not None:
        scores = score_mod(scores, *_index_grids(*scores.shape))
    if block_mask is not None:
        mask = block_mask.mask[..., : scores.shape[-2], : scores.shape[-1]]
        scores = where(mask, scores, -math.inf)
    largest = scores.detach().amax(-1, keepdim=True)
    # A query that sees no key has weights of zero, and not 0/0.
    shifted = (scores - where(largest == -math.inf, 0.0, largest)).exp()
    total = shifted.sum(-1, keepdim=True)
    out = (shifted / where(total == 0, 1.0, total)).to(value.dtype) @ value
    return (out, (total.log() + largest).squeeze(-1)) if return_lse else out
