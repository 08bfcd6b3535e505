"""Initial masks: at random, by magnitude, from the zeros that are there, or evenly spread."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cstorch_compat.cerebras.pytorch.sparse.masks import Level, Shaper, make_mask_topk_sparsity
from lazytensor import random as random_numbers
from lazytensor.core.dtype import bool_, float32
from lazytensor.core.tensor import Tensor
from lazytensor.functional import pointwise as pw
from lazytensor.functional.creation import from_numpy, rand

InitMethod = Callable[..., Tensor]
"""(parameter, sparsity, score_shaper=None, device=None) -> bool tensor of the parameter's shape."""
ROUNDING_SLACK = 1e-5
"""What is added before rounding down, so that a density such as 1 - 0.8 in float32 counts as a fifth."""


def random(p: Tensor, sparsity: Level, score_shaper: Shaper | None = None, device: Any = None) -> Tensor:
    """A mask that keeps elements at random."""
    # As many as the level says and not each with its probability: every layer has exactly its sparsity.
    # From a generator of its own, as under the device of a backend.
    random_numbers.enter_scope()
    # Left in any case: the scope is the process's.
    try:
        scores = rand(p.shape, dtype=float32, device=p.device)
    finally:
        random_numbers.leave_scope()
    return make_mask_topk_sparsity(scores, sparsity, score_shaper)


def topk(p: Tensor, sparsity: Level, score_shaper: Shaper | None = None, device: Any = None) -> Tensor:
    """A mask that keeps the elements of largest magnitude."""
    return make_mask_topk_sparsity(pw.abs(p.detach()), sparsity, score_shaper)


def from_zeros(p: Tensor, sparsity: Level, score_shaper: Shaper | None = None, device: Any = None) -> Tensor:
    """A mask that keeps what is not zero, whatever the sparsity."""
    # For weights that were pruned elsewhere.
    return p.detach() != 0


def checkerboard(p: Tensor, sparsity: Level, score_shaper: Shaper | None = None, device: Any = None) -> Tensor:
    """A mask that keeps elements at even distances, each row of a matrix shifted against the one before.

    The original returns a vector for more than two dimensions; here the leading ones count as rows.
    """
    # In float32 as the other methods, so that all of them keep equally many elements.
    density = float(np.float32(1) - np.float32(float(sparsity)))
    # One column less than the distance between two kept elements, so that neighbouring rows do not keep the same
    # columns.
    shift = math.ceil(1 / density - ROUNDING_SLACK) - 1 if density > 0 else 0
    columns = p.shape[-1] if p.ndim else 1
    rows = p.spec.size // max(columns, 1)
    place = np.arange(rows)[:, None] * shift + np.arange(columns)
    # An element is kept where place * density passes a whole number: the even spread of Bresenham's lines.
    kept = np.floor((place + 1) * density + ROUNDING_SLACK) != np.floor(place * density + ROUNDING_SLACK)
    return from_numpy(kept.reshape(p.shape))


INIT_METHODS: dict[str, InitMethod] = {f.__name__: f for f in (random, topk, from_zeros, checkerboard)}


def make_init_method(init_method: Any) -> InitMethod:
    """A method by its name, or a function as it is. Raises ValueError for others."""
    if callable(init_method):
        method: InitMethod = init_method
        return method
    if not isinstance(init_method, str) or init_method not in INIT_METHODS:
        raise ValueError(
            f'Unknown `init_method`: "{init_method}". Valid options are one of the built-in {list(INIT_METHODS)} or a '
            "function (parameter, sparsity, score_shaper=None, device=None) that returns a bool tensor."
        )
    return INIT_METHODS[init_method]


def check_mask(mask: Any, p: Tensor, name: str) -> Tensor:
    """What an init method gave. Raises ValueError unless it is a bool tensor of the parameter's shape."""
    # Checked at once: a float mask would scale weights, and another shape would broadcast.
    if not isinstance(mask, Tensor) or tuple(mask.shape) != tuple(p.shape) or mask.dtype is not bool_:
        what = f"{mask.dtype.name}{list(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(f"The mask of {name} must be bool{list(p.shape)}, and the method gave {what}")
    return mask
