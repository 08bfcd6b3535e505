"""Group small parameters so that an update rule, which is elementwise, runs once on their concatenation.

A NumPy call has an overhead of about a thousand elements, which would dominate a step of a model with ten thousand
small parameters.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from lazytensor.core.dtype import DType, round_to
from lazytensor.core.tensor import Tensor

SCALARS = ("step", "eta", "mu", "mu_product")
"""State that is a float32 scalar for every parameter, as in PyTorch's state dicts."""
SMALL = 4096
"""Maximum number of elements of a parameter that joins a group; copying a larger one costs more than a separate call.
"""

Names = tuple[str, ...]
Numbers = tuple[tuple[str, float], ...]


def batches(
    params: Sequence[Tensor], state: Mapping[Tensor, dict[str, Tensor]]
) -> Iterator[tuple[list[Tensor], Numbers]]:
    """Yield groups of parameters that a rule can update together, with the scalars of their state.

    Each item is (parameters, pairs of name and number). Members of a group have equal scalars, the same type and the
    same pieces of state. A parameter of more than `SMALL` elements is a group by itself. Groups are in the order of
    their first parameter.
    """
    together: dict[Any, list[Tensor]] = {}
    # Two levels of keys: `alike` by the nodes of the scalars, which is fast, and `together` by their values.
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
            # Python numbers, because PyTorch also computes powers of beta in double precision on the host.
            numbers = tuple((k, known[k].array().item()) for k in scalars[names])
            # A rule may create a piece of state later for one parameter than for another.
            types = tuple(known[k].spec.dtype for k in scalars[names])
            key = (type.dtype, numbers, names, types) if is_small else id(p)
            batch = alike[kind] = together.setdefault((numbers, key), [])
        batch.append(p)
    for (numbers, _), batch in together.items():
        yield batch, numbers


def joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return the concatenated elements of all arrays; a single array is returned unchanged."""
    return arrays[0] if len(arrays) == 1 else np.concatenate([a.reshape(-1) for a in arrays])


def rounded(array: Any, dtype: DType) -> np.ndarray:
    """Return the result of a rule in the host type of `dtype`, rounded to `dtype` if that is a half type."""
    return round_to(np.asarray(array, dtype.host), dtype)


def parts(array: Any, batch: Sequence[Tensor], dtype: DType) -> list[np.ndarray]:
    """Split an array made by `joined`: return the part of each parameter in its shape, rounded to `dtype`.

    The parts are views of one array. For a single parameter, the array is returned in the shape that it has.
    """
    array = rounded(array, dtype)
    if len(batch) == 1:
        return [array]
    pieces, at = [], 0
    shapes = [p.spec.shape for p in batch]
    # Fast path for equal shapes: the rows of one array.
    if shapes[0] and shapes.count(shapes[0]) == len(shapes):
        return list(array.reshape(-1, *shapes[0]))
    for p in batch:
        type = p.spec
        pieces.append(array[at : at + type.size].reshape(type.shape))
        at += type.size
    return pieces
