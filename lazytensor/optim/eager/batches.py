"""Parameters that are updated together: a rule computes element by element, so that many small arrays are one long one.

NumPy takes about as long to begin as to compute a thousand elements; a model of ten thousand small parameters would
spend its step beginning.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from lazytensor.dtype import DType, round_to
from lazytensor.tensor import Tensor

SCALARS = ("step", "eta", "mu", "mu_product")
"""State that is a float32 scalar whatever the parameter is, as PyTorch's state dicts have it."""
SMALL = 4096
"""Elements up to which a parameter joins others; copying a larger one costs more than its turn of the rule."""

Numbers = tuple[tuple[str, float], ...]


def batches(
    params: Sequence[Tensor], state: Mapping[Tensor, dict[str, Tensor]]
) -> Iterator[tuple[list[Tensor], Numbers]]:
    """Parameters that go through a rule together, with the scalars of their state, which they have in common."""
    together: dict[Any, list[Tensor]] = {}
    # Mostly one for all of them.
    values: dict[Any, float] = {}
    for p in params:
        known, type = state[p], p.spec
        # As Python's numbers: PyTorch takes them to the host as well, and forms powers of beta in double.
        numbers = tuple([(k, _number(known[k], values)) for k in SCALARS if k in known])
        # A rule may begin a piece of state later for one parameter than for another.
        key = (type.dtype, numbers, tuple(known)) if type.size <= SMALL else id(p)
        together.setdefault((numbers, key), []).append(p)
    for (numbers, _), batch in together.items():
        yield batch, numbers


def _number(t: Tensor, values: dict[Any, float]) -> float:
    n = t.node
    if n not in values:
        values[n] = t.array().item()
    return values[n]


def joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The elements of all arrays in one; a single array as it is."""
    return arrays[0] if len(arrays) == 1 else np.concatenate([a.reshape(-1) for a in arrays])


def rounded(array: Any, dtype: DType) -> np.ndarray:
    """What a rule has computed, in a type."""
    return round_to(np.asarray(array, dtype.host), dtype)


def parts(array: Any, batch: Sequence[Tensor], dtype: DType) -> list[np.ndarray]:
    """What `joined` has put together, for each parameter in its shape and rounded to its type."""
    array = rounded(array, dtype)
    if len(batch) == 1:
        return [array]
    pieces, at = [], 0
    for p in batch:
        type = p.spec
        pieces.append(array[at : at + type.size].reshape(type.shape))
        at += type.size
    return pieces
