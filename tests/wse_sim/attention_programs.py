"""Compiled steps with an attention block, forward and backward, of any extents."""

from functools import lru_cache

import lazytensor as lt
from tests.wse_sim.small_nets import captured

F = lt.nn.functional
MASKS = ("none", "causal", "padding", "rows and keys", "each head", "all the same")


def masked(scores, mask, bias):
    """Scores with a mask or a bias of a kind."""
    rows, keys = scores.shape[-2:]
    if mask == "causal":
        return lt.where(lt.arange(rows)[:, None] >= lt.arange(keys), scores, -1e4)
    if mask == "all the same":
        # As `is_causal` has it: a constant with room for each head.
        return scores.masked_fill(lt.ones(*scores.shape).triu(1).bool(), -1e4)
    return scores if mask == "none" else scores + bias


def bias_of(mask, lead, rows, keys):
    """What the batch has besides queries, keys and values."""
    shape = {"padding": (lead[0], 1, 1, keys), "rows and keys": (rows, keys), "each head": (*lead, rows, keys)}
    return {"bias": lt.randn(*shape[mask])} if mask in shape else {}


@lru_cache
def attention_program(lead, rows, keys, width, mask="none", dropout=0.0, dtype=lt.float32, is_training=True):
    """The program of a step over heads of extents `lead`, its store and its batch."""
    lt.manual_seed(0)

    def step(q, k, v, *bias):
        q, k, v = (x.detach().requires_grad_(is_training) for x in (q, k, v))
        scores = masked(q @ k.transpose(-1, -2) / width**0.5, mask, *(bias or (None,)))
        y = F.dropout(F.softmax(scores, dim=-1), dropout) @ v
        if not is_training:
            return y
        (y * y).sum().backward()
        return y, q.grad, k.grad, v.grad

    matrices = {
        name: lt.randn(*lead, extent, width).to(dtype) for name, extent in zip("qkv", (rows, keys, keys), strict=True)
    }
    bias = {name: array.to(dtype) for name, array in bias_of(mask, lead, rows, keys).items()}
    return captured(step, {**matrices, **bias}, {})
