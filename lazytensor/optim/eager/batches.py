"""Parameters that are updated together: a rule computes element by element, so that many small arrays are one long one.

NumPy takes about as long to begin as to compute a thousand elements; a model of ten thousand small parameters would
spend its step beginning.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from lazytensor.core.dtype import DType, round_to
from lazytensor.core.tensor import Tensor

SCALARS = ("step", "eta", "mu", "mu_product")
"""State that is a float32 scalar whatever the parameter is, as PyTorch's state dicts have it."""
SMALL = 4096
"""Elements up to which a parameter joins others; copying a larger one costs more than its turn of the rule."""

Names = tuple[str, ...]
Numbers = tuple[tuple[str, float], ...]


def batches(
    params: Sequence[Tensor], state: Mapping[Tensor, dict[str, Tensor]]
) -> Iterator[tuple[list[Tensor], Numbers]]:
    """Parameters that go through a rule together, with the scalars of their state, which they have in common."""
    together: dict[Any, list[Tensor]] = {}
    # Mostly one for all of them: of which names their state is, and by the nodes of its numbers.
    scalars: dict[Names, Names] = {}
    alike: dict[Any, list[Tensor]] = {}
    get, without_state = state.get, dict[str, Tensor]()
    for p in params:
        known, type = get(p, without_state), p.spec
        names = tuple(known)
        if names not in scalars:
            scalars[names] = tuple(k for k in SCALARS if k in known)
        nodes = [known[k].node for k in scalars[names]]
        is_small = type.size <= SMALL
        kind = (type.dtype, names, *nodes) if is_small else id(p)
        batch = alike.get(kind)
        if batch is None:
            # As Python's numbers: PyTorch takes them to the host as well, and forms powers of beta in double.
            numbers = tuple((k, known[k].array().item()) for k in scalars[names])
            # A rule may begin a piece of state later for one parameter than for another.
            types = tuple(known[k].spec.dtype for k in scalars[names])
            key = (type.dtype, numbers, names, types) if is_small else id(p)
            batch = alike[kind] = together.setdefault((numbers, key), [])
        batch.append(p)
    for (numbers, _), batch in together.items():
        yield batch, numbers


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
    shapes = [p.spec.shape for p in batch]
    # Rows of one array are handed out faster than one asks for them.
    if shapes[0] and shapes.count(shapes[0]) == len(shapes):
        return list(array.reshape(-1, *shapes[0]))
    for p in batch:
        type = p.spec
        pieces.append(array[at : at + type.size].reshape(type.shape))
        at += type.size
    return pieces
