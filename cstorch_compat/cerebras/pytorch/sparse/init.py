"""Methods that create initial masks: at random, by magnitude, from existing zeros, or evenly spread.

Each returns a bool mask with the shape of the parameter, where True means that the element is kept.
"""

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
"""The type of init methods: (parameter, sparsity, score_shaper=None, device=None) -> bool mask."""
ROUNDING_SLACK = 1e-5
"""The tolerance added before rounding down, so that a density such as 1 - 0.8 in float32 counts as a fifth."""


def random(p: Tensor, sparsity: Level, score_shaper: Shaper | None = None, device: Any = None) -> Tensor:
    """Return a mask that keeps randomly chosen elements, exactly as many as `sparsity` allows.

    `score_shaper` divides the elements into rows, each of which keeps the same number. `device` has no effect.
    """
    # The number of kept elements is exact in every layer. The random numbers come from a separate generator, as under
    # the device of a backend.
    random_numbers.enter_scope()
    # Always leave the scope, because it is global to the process.
    try:
        scores = rand(p.shape, dtype=float32, device=p.device)
    finally:
        random_numbers.leave_scope()
    return make_mask_topk_sparsity(scores, sparsity, score_shaper)


def topk(p: Tensor, sparsity: Level, score_shaper: Shaper | None = None, device: Any = None) -> Tensor:
    """Return a mask that keeps the elements of largest magnitude. `score_shaper` is as in `random`."""
    return make_mask_topk_sparsity(pw.abs(p.detach()), sparsity, score_shaper)


def from_zeros(p: Tensor, sparsity: Level, score_shaper: Shaper | None = None, device: Any = None) -> Tensor:
    """Return a mask that keeps the nonzero elements, whatever the sparsity."""
    # Meant for weights that were pruned before.
    return p.detach() != 0


def checkerboard(p: Tensor, sparsity: Level, score_shaper: Shaper | None = None, device: Any = None) -> Tensor:
    """Return a bool mask that keeps elements at even distances, where each row is shifted against the previous one.

    About 1 - `sparsity` of the elements are kept. For more than two dimensions, the leading ones are combined to rows
    for the pattern, and the mask has the shape of `p`; the original returns a vector there. `score_shaper` and `device`
    have no effect.
    """
    # float32, so that all methods keep the same number of elements.
    density = float(np.float32(1) - np.float32(float(sparsity)))
    # The shift is one less than the distance of kept elements, so that neighbouring rows keep different columns.
    shift = math.ceil(1 / density - ROUNDING_SLACK) - 1 if density > 0 else 0
    columns = p.shape[-1] if p.ndim else 1
    rows = p.spec.size // max(columns, 1)
    place = np.arange(rows)[:, None] * shift + np.arange(columns)
    # An element is kept where place * density passes an integer, as in Bresenham's line algorithm.
    kept = np.floor((place + 1) * density + ROUNDING_SLACK) != np.floor(place * density + ROUNDING_SLACK)
    return from_numpy(kept.reshape(p.shape))


INIT_METHODS: dict[str, InitMethod] = {f.__name__: f for f in (random, topk, from_zeros, checkerboard)}


def make_init_method(init_method: Any) -> InitMethod:
    """Return the init method with the name `init_method`, or `init_method` itself if it is a function.

    Raises ValueError for other values.
    """
    if callable(init_method):
        method: InitMethod = init_method
        return method
    if not isinstance(init_method, str) or init_method not in INIT_METHODS:
        raise ValueError(
            f'Unknown `init_method`: "{init_method}". Valid options are one of the built-in {list(INIT_METHODS)} or a '
            "function (parameter, sparsity, score_shaper=None, device=None) that returns a bool tensor."
            "\n  Pass one of these options."
        )
    return INIT_METHODS[init_method]


def check_mask(mask: Any, p: Tensor, name: str) -> Tensor:
    """Return `mask`. Raises ValueError unless it is a bool tensor with the shape of `p`.

    `name` is used in the message.
    """
    # A float mask would scale weights, and another shape would broadcast.
    if not isinstance(mask, Tensor) or tuple(mask.shape) != tuple(p.shape) or mask.dtype is not bool_:
        what = f"{mask.dtype.name}{list(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(
            f"The mask of {name} must be bool{list(p.shape)}, but the method returned {what}"
            "\n  Return a bool tensor in the shape of the parameter."
        )
    return mask
